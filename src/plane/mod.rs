//! A plane: its directory, its keys, and what every command needs to know of it.

mod directory;
mod files;
mod keys;
mod meta;

pub(crate) use self::directory::Enlisted;
pub use self::files::KeyFileError;
pub(crate) use self::files::{Files, SignedFile, read_secret, write_secret};
pub(crate) use self::keys::{Keys, MasterKey, RecordKey};
pub(crate) use self::meta::{FORMAT, Meta, MetaFault};

use std::sync::Arc;

use runseal_evidence::name::Base;
use runseal_evidence::signature::RecordSigner;
use runseal_tlog::key::SignerKey;

use crate::clock::Clock;
use crate::store::{Scope, key::DIRECTORY};

/// What commands need besides a transaction.
pub(crate) struct Plane {
    pub(crate) base: Base,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) record_signer: Option<RecordSigner>,
    pub(crate) files: Option<Files>,
    pub(crate) keys: Keys,
    pub(crate) enlisted: Enlisted,
}

impl Plane {
    /// The origin of a scope's log.
    pub(crate) fn origin(&self, scope: &Scope) -> String {
        match scope {
            Scope::Tenant(tenant) => self.base.origin(tenant),
            Scope::Directory | Scope::Plane => format!("{}/log/{DIRECTORY}", self.base),
        }
    }

    /// The key that signs a scope's log.
    pub(crate) fn log_key(&self, scope: &Scope) -> Arc<SignerKey> {
        self.keys.log_key(scope, || self.origin(scope))
    }
}
