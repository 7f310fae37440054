//! Entry bundles (c2sp.org/tlog-tiles): entries, each behind its length in two big-endian bytes.

use thiserror::Error;

use crate::tile::TILE_WIDTH;

/// Longest entry that a bundle can hold.
pub const ENTRY_BYTES_MAX: usize = u16::MAX as usize;
/// Longest bundle: 256 entries of 65,535 bytes with their lengths.
pub const BUNDLE_BYTES_MAX: usize = TILE_WIDTH as usize * (ENTRY_BYTES_MAX + 2);

/// Why bytes are not a bundle of the expected width, or an entry does not fit one.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
#[non_exhaustive]
pub enum BundleError {
    /// An entry is longer than its length field can say.
    #[error("an entry of {0} bytes is over the limit of {ENTRY_BYTES_MAX}")]
    EntryTooLong(usize),
    /// The bundle ends inside an entry or before the last one.
    #[error("the bundle is cut short in entry {entry} of {width}")]
    Short {
        /// Position of the entry in the bundle, from 0.
        entry: u16,
        /// Entries expected.
        width: u16,
    },
    /// Bytes after the last entry.
    #[error("{0} bytes follow the last entry of the bundle")]
    Trailing(usize),
}

/// Adds one entry to a bundle.
///
/// # Errors
/// [`BundleError::EntryTooLong`].
pub fn push(bundle: &mut Vec<u8>, entry: &[u8]) -> Result<(), BundleError> {
    let length = u16::try_from(entry.len()).map_err(|_| BundleError::EntryTooLong(entry.len()))?;
    bundle.extend(length.to_be_bytes());
    bundle.extend_from_slice(entry);
    Ok(())
}

/// The `width` entries of a bundle, which must end right after the last one.
///
/// # Errors
/// [`BundleError::Short`] and [`BundleError::Trailing`].
pub fn entries(bundle: &[u8], width: u16) -> Result<Vec<&[u8]>, BundleError> {
    let mut entries = Vec::with_capacity(usize::from(width));
    let mut rest = bundle;
    for entry in 0..width {
        let short = BundleError::Short { entry, width };
        let (length, after) = rest.split_first_chunk::<2>().ok_or(short)?;
        let (data, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length))).ok_or(short)?;
        entries.push(data);
        rest = after;
    }
    if rest.is_empty() { Ok(entries) } else { Err(BundleError::Trailing(rest.len())) }
}

/// The first `width` entries of a longer bundle, as bytes: a partial bundle cut from a full one.
///
/// # Errors
/// [`BundleError::Short`].
pub fn prefix(bundle: &[u8], width: u16) -> Result<&[u8], BundleError> {
    let (mut prefix, mut rest) = bundle.split_at(0);
    for entry in 0..width {
        let short = BundleError::Short { entry, width };
        let (length, _) = rest.split_first_chunk::<2>().ok_or(short)?;
        let end = prefix.len() + 2 + usize::from(u16::from_be_bytes(*length));
        (prefix, rest) = bundle.split_at_checked(end).ok_or(short)?;
    }
    Ok(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_round_trip_and_cut() {
        let longest = vec![7; ENTRY_BYTES_MAX];
        let mut bundle = Vec::new();
        for entry in [b"abc".as_slice(), b"", &longest] {
            push(&mut bundle, entry).unwrap();
        }
        assert_eq!(entries(&bundle, 3), Ok(vec![b"abc".as_slice(), b"", &longest]));
        assert_eq!(prefix(&bundle, 2), Ok(b"\0\x03abc\0\0".as_slice()));
        assert_eq!(entries(&bundle, 2), Err(BundleError::Trailing(ENTRY_BYTES_MAX + 2)));
        assert_eq!(entries(&bundle, 4), Err(BundleError::Short { entry: 3, width: 4 }));
        let too_long = vec![0; ENTRY_BYTES_MAX + 1];
        assert_eq!(push(&mut bundle, &too_long), Err(BundleError::EntryTooLong(65_536)));
    }
}
