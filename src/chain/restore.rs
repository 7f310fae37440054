//! Bringing back a run byte for byte.

use runseal_evidence::name::RunId;
use runseal_evidence::record::{Record, RecordError};
use runseal_evidence::signature::RecordSignature;
use thiserror::Error;

use super::append::{AppendError, Writer};
use super::extension::Extension;
use super::lease::LeaseError;
use super::run::run_row;
use super::seal::SealError;
use super::verified::{Verified, conclusion};
use crate::store::{Overlay, StoreError};

/// Why a run is not restored. Nothing of it was.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The run exists. What is there is never merged with what comes back.
    #[error("run {run} exists; a run is restored once and never merged")]
    RunExists {
        /// The run.
        run: RunId,
    },
    /// There is nothing to restore.
    #[error("run {run} has no records to restore")]
    Empty {
        /// The run.
        run: RunId,
    },
    /// The bytes are no record.
    #[error("record {seq}: {error}")]
    Record {
        /// Its position among those given, from 1.
        seq: u64,
        /// What is wrong.
        error: RecordError,
    },
    /// The bytes are a record of another place: they would be evidence of what never happened here.
    #[error("record {seq} names {what} {found}, not {expected}")]
    OtherPlace {
        /// Its position among those given, from 1.
        seq: u64,
        /// What it names.
        what: &'static str,
        /// The name found.
        found: String,
        /// The name of the place.
        expected: String,
    },
    /// The plane signs its records, and this one does not carry its signature. A restore signs nothing.
    #[error("record {seq} is not signed with this plane's record key; restore it on the plane that wrote it")]
    Signature {
        /// Its position among those given, from 1.
        seq: u64,
    },
    /// A claim that only one record may make is taken.
    #[error(transparent)]
    Claim(#[from] AppendError),
    /// It is restored to be sealed, and cannot be.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// Somebody holds the run.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Puts the records of a run that does not exist, with the bytes and signatures that they have.
pub(crate) fn restore<'r>(
    tx: &mut Overlay<'_>,
    writer: Writer<'_>,
    run: &RunId,
    records: impl Iterator<Item = (&'r [u8], Option<RecordSignature>)>,
) -> Result<Verified, RestoreError> {
    if run_row(tx, writer.scope, run)?.is_some() {
        return Err(RestoreError::RunExists { run: run.clone() });
    }
    let mut extension = Extension::of(tx, writer, run, None)?.restoring();
    let mut verified = Verified::nothing(writer.tenant, run);
    for (raw, signature) in records {
        let seq = extension.next_seq();
        let Record { draft, stamp } =
            Record::parse(raw).map_err(|error| RestoreError::Record { seq, error })?;
        let place = |what, found: &dyn ToString, expected: &dyn ToString| {
            let (found, expected) = (found.to_string(), expected.to_string());
            if found == expected {
                Ok(())
            } else {
                Err(RestoreError::OtherPlace { seq, what, found, expected })
            }
        };
        place("tenant", &stamp.tenant, writer.tenant)?;
        place("run", &stamp.run, run)?;
        place("number", &stamp.seq, &seq)?;
        // Epochs start at 1 and never decrease.
        place("epoch", &stamp.epoch, &stamp.epoch.max(extension.epoch()).max(1))?;
        let at_ms = stamp.at.posix_ms();
        let put = extension.put(tx, &draft, raw.to_vec(), stamp.epoch, at_ms, |_| signature)?;
        // Ed25519 signatures are deterministic (RFC 8032): the plane's own is the one it would make.
        if writer.signer.is_some_and(|signer| signature != Some(signer.sign(&put.hash))) {
            return Err(RestoreError::Signature { seq });
        }
        verified = Verified { records: put.seq, chain: put.hash, outcome: conclusion(&draft) };
    }
    if verified.records == 0 {
        return Err(RestoreError::Empty { run: run.clone() });
    }
    extension.finish(tx)?;
    Ok(verified)
}
