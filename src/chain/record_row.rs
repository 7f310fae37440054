//! A record as it is stored: `prev || hash || flag || (1: key id || signature) || length || wire bytes`.

use runseal_evidence::chain::ChainHash;
use runseal_evidence::name::RunId;
use runseal_evidence::signature::{RecordKeyId, RecordSignature};

use crate::store::row::{RowFault, RowReader, RowWriter};
use crate::store::{Scope, Space, Table};

/// One row of the records table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordRow {
    /// The chain hash before it, or the genesis.
    pub(crate) prev: ChainHash,
    /// Its chain hash.
    pub(crate) hash: ChainHash,
    /// Its signature.
    pub(crate) signature: Option<RecordSignature>,
    /// Its wire bytes.
    pub(crate) raw: Vec<u8>,
}

impl RecordRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut row = RowWriter::with_capacity(self.raw.len() + 140);
        row.fixed(self.prev.as_bytes()).fixed(self.hash.as_bytes()).flag(self.signature.is_some());
        if let Some(RecordSignature { key_id, signature }) = &self.signature {
            row.fixed(&key_id.to_bytes()).fixed(signature);
        }
        row.counted(&self.raw).finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RowFault> {
        let RecordRowView { prev, hash, signature, raw } = RecordRowView::decode(bytes)?;
        Ok(Self { prev, hash, signature, raw: raw.to_vec() })
    }
}

/// One row of the records table, where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordRowView<'a> {
    pub(crate) prev: ChainHash,
    pub(crate) hash: ChainHash,
    pub(crate) signature: Option<RecordSignature>,
    pub(crate) raw: &'a [u8],
}

impl<'a> RecordRowView<'a> {
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, RowFault> {
        let mut row = RowReader::new(bytes);
        let prev = ChainHash::from_bytes(row.fixed("prev")?);
        let hash = ChainHash::from_bytes(row.fixed("hash")?);
        // A flag other than 0 or 1 is damage: to read it as "unsigned" would strip a signature.
        let signature = if row.flag("signature")? {
            let key_id = RecordKeyId::from_bytes(row.fixed("key id")?);
            Some(RecordSignature { key_id, signature: row.fixed("signature")? })
        } else {
            None
        };
        let raw = row.counted("record")?;
        row.end()?;
        Ok(Self { prev, hash, signature, raw })
    }
}

/// Where records of a tenant are.
pub(crate) fn records(scope: &Scope) -> Space {
    Space::of(scope, Table::Records)
}

/// The key of record `seq` of `run`.
pub(crate) fn record_key(scope: &Scope, run: &RunId, seq: u64) -> Vec<u8> {
    records(scope).key(&[run.as_str().as_bytes(), &[0], &seq.to_be_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(signature: Option<RecordSignature>) -> RecordRow {
        let prev = ChainHash::from_bytes([1; 32]);
        RecordRow { prev, hash: prev.link(b"{}"), signature, raw: b"{}".to_vec() }
    }

    fn signed() -> RecordRow {
        let key_id = RecordKeyId::from_bytes([9; 4]);
        row(Some(RecordSignature { key_id, signature: [7; 64] }))
    }

    #[test]
    fn rows_come_back_with_and_without_a_signature() {
        for row in [row(None), signed()] {
            assert_eq!(RecordRow::decode(&row.encode()), Ok(row));
        }
    }

    #[test]
    fn a_signature_flag_other_than_0_and_1_is_damage_and_not_unsigned() {
        for flag in 2..=255 {
            let mut bytes = row(None).encode();
            bytes[64] = flag;
            let fault = RowFault::Flag { field: "signature", found: flag };
            assert_eq!(RecordRow::decode(&bytes), Err(fault));
        }
    }

    #[test]
    fn every_cut_and_every_trailing_byte_is_damage() {
        for row in [row(None), signed()] {
            let bytes = row.encode();
            for cut in 0..bytes.len() {
                assert!(RecordRow::decode(&bytes[..cut]).is_err(), "cut to {cut} bytes");
            }
            let longer = [bytes.as_slice(), &[0]].concat();
            assert_eq!(RecordRow::decode(&longer), Err(RowFault::Trailing(1)));
        }
    }

    #[test]
    fn a_length_beyond_the_row_is_damage() {
        let mut bytes = row(None).encode();
        bytes[65..69].copy_from_slice(&[0xff; 4]);
        assert_eq!(RecordRow::decode(&bytes), Err(RowFault::Short("record")));
    }
}
