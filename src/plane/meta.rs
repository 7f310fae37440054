//! What a database says of itself: its format, its plane's base, and whose key it belongs to.

use runseal_evidence::name::Base;

use crate::store::{EngineError, Overlay, Read, Scope, Space, Table};

/// The format that this build reads and writes.
pub(crate) const FORMAT: &str = "runseal-journal-v1";

/// The rows that identify a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) base: Base,
    /// The vkey of the default tenant's log, which names the master key without giving it away.
    pub(crate) vkey: String,
    /// The vkey of the key that signs records, on a plane that signs them.
    pub(crate) record_key: Option<String>,
}

/// Why a database is not one of ours.
#[derive(Debug)]
pub(crate) enum MetaFault {
    /// It has no format row: some other program's.
    Foreign,
    /// Another version's.
    Format(String),
    /// Ours, but its base or key is not readable.
    Damaged,
    /// It could not be read.
    Engine(EngineError),
}

impl From<EngineError> for MetaFault {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl Meta {
    pub(crate) fn write(&self, tx: &mut Overlay<'_>) {
        let rows = [("format", FORMAT), ("base", self.base.as_str()), ("vkey", &self.vkey)];
        let record_key = self.record_key.as_deref().map(|vkey| ("record-key", vkey));
        for (name, value) in rows.into_iter().chain(record_key) {
            tx.put(key(name), value.as_bytes().to_vec());
        }
    }

    pub(crate) fn read(rows: &dyn Read) -> Result<Self, MetaFault> {
        let text = |name| -> Result<Option<String>, MetaFault> {
            let bytes = rows.get(&key(name))?;
            bytes.map(|bytes| String::from_utf8(bytes).map_err(|_| MetaFault::Damaged)).transpose()
        };
        let format = text("format")?.ok_or(MetaFault::Foreign)?;
        if format != FORMAT {
            return Err(MetaFault::Format(format));
        }
        let base = text("base")?.and_then(|base| Base::new(base).ok()).ok_or(MetaFault::Damaged)?;
        let vkey = text("vkey")?.ok_or(MetaFault::Damaged)?;
        Ok(Self { base, vkey, record_key: text("record-key")? })
    }
}

fn key(name: &str) -> Vec<u8> {
    Space::of(&Scope::Plane, Table::Meta).key(&[name.as_bytes()])
}
