//! How the values of rows are spelled: fixed fields and counted bytes, with one spelling for each value.

use thiserror::Error;

/// Why bytes are not a row of their table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RowFault {
    /// The row ends inside a field.
    #[error("the row ends inside {0}")]
    Short(&'static str),
    /// Bytes follow the last field.
    #[error("{0} bytes follow the last field of the row")]
    Trailing(usize),
    /// A flag that is neither 0 nor 1.
    #[error("{field} has flag {found}, which is neither 0 nor 1")]
    Flag {
        /// The field.
        field: &'static str,
        /// The byte found.
        found: u8,
    },
    /// Text that is not UTF-8.
    #[error("{0} is not UTF-8")]
    Text(&'static str),
    /// A field has a value that is never written.
    #[error("{0} has a value that is never written")]
    Value(&'static str),
}

/// Writes fields one after the other.
#[derive(Default)]
pub(crate) struct RowWriter(Vec<u8>);

impl RowWriter {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(crate) fn flag(&mut self, flag: bool) -> &mut Self {
        self.0.push(u8::from(flag));
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.fixed(&value.to_be_bytes())
    }

    pub(crate) fn i64(&mut self, value: i64) -> &mut Self {
        self.fixed(&value.to_be_bytes())
    }

    pub(crate) fn fixed(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Bytes behind their length. Rows hold records at most, so the length always fits.
    pub(crate) fn counted(&mut self, bytes: &[u8]) -> &mut Self {
        let length =
            u32::try_from(bytes.len()).expect("no field of a row is near 4 GiB: records end at 1 MiB");
        self.fixed(&length.to_le_bytes()).fixed(bytes)
    }

    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// Reads fields one after the other; [`RowReader::end`] makes sure that there are no more.
pub(crate) struct RowReader<'a>(&'a [u8]);

impl<'a> RowReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn flag(&mut self, field: &'static str) -> Result<bool, RowFault> {
        match self.fixed::<1>(field)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [found] => Err(RowFault::Flag { field, found }),
        }
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, RowFault> {
        self.fixed(field).map(u64::from_be_bytes)
    }

    pub(crate) fn i64(&mut self, field: &'static str) -> Result<i64, RowFault> {
        self.fixed(field).map(i64::from_be_bytes)
    }

    pub(crate) fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], RowFault> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or(RowFault::Short(field))?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub(crate) fn counted(&mut self, field: &'static str) -> Result<&'a [u8], RowFault> {
        let length = u32::from_le_bytes(self.fixed(field)?);
        let length = usize::try_from(length).map_err(|_| RowFault::Short(field))?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(RowFault::Short(field))?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn text(&mut self, field: &'static str) -> Result<&'a str, RowFault> {
        std::str::from_utf8(self.counted(field)?).map_err(|_| RowFault::Text(field))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn end(self) -> Result<(), RowFault> {
        if self.0.is_empty() { Ok(()) } else { Err(RowFault::Trailing(self.0.len())) }
    }
}

/// A row that is one number.
pub(crate) fn read_u64(bytes: &[u8], field: &'static str) -> Result<u64, RowFault> {
    let mut row = RowReader::new(bytes);
    let value = row.u64(field)?;
    row.end()?;
    Ok(value)
}
