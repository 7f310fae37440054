//! How much of the write-ahead log the tables hold.

use super::frame::Tie;
use crate::store::engine::Read;
use crate::store::error::StoreError;
use crate::store::row::{RowFault, RowReader, RowWriter};
use crate::store::{Corruption, Scope, Space, Table};

/// The row that a commit to the tables carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// Whether frames may stand in the file that the tables do not hold.
    pub(super) live: bool,
    /// The file.
    pub(super) id: [u8; 16],
    /// The last frame that the tables hold.
    pub(super) held: Tie,
}

impl Mark {
    /// The mark of these tables; none where no file was ever written beside them.
    pub(super) fn read(rows: &dyn Read) -> Result<Option<Self>, StoreError> {
        let Some(bytes) = rows.get(&key())? else { return Ok(None) };
        let corrupt = |fault: RowFault| {
            StoreError::from(Corruption::in_scope(&Scope::Plane, "mark of the write-ahead log", fault))
        };
        Self::decode(&bytes).map(Some).map_err(corrupt)
    }

    fn decode(bytes: &[u8]) -> Result<Self, RowFault> {
        let mut row = RowReader::new(bytes);
        let (live, id) = (row.flag("live")?, row.fixed("id")?);
        let held = Tie { number: row.u64("number")?, digest: row.fixed("digest")? };
        row.end()?;
        Ok(Self { live, id, held })
    }

    /// The row, as a commit writes it.
    pub(super) fn row(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        let mut row = RowWriter::default();
        row.flag(self.live).fixed(&self.id).u64(self.held.number).fixed(&self.held.digest);
        (key(), Some(row.finish()))
    }
}

fn key() -> Vec<u8> {
    Space::of(&Scope::Plane, Table::Ahead).key(&[])
}
