//! A database file read in pieces larger than its pages, for a pass over all of it.
//!
//! Rows that follow each other mostly lie in pages that do, a few tables beside each other. A call into the system for
//! each page costs more than the page's bytes do.

use std::io;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::redb::{BackendError, StorageBackend};

/// Bytes read at a time, in the file one of their own behind the other.
const PIECE_BYTES: usize = 32 << 10;
/// Pieces held, each in the one place that its number says.
const PLACES: usize = 64;

/// A file, and the pieces of it that were read last.
#[derive(Debug)]
pub(super) struct ReadAhead<B> {
    file: B,
    places: Vec<Mutex<Piece>>,
}

/// A piece of the file as it is, or none.
#[derive(Debug, Default)]
struct Piece {
    number: Option<u64>,
    bytes: Vec<u8>,
}

impl<B: StorageBackend> ReadAhead<B> {
    pub(super) fn over(file: B) -> Self {
        Self { file, places: (0..PLACES).map(|_| Mutex::default()).collect() }
    }

    fn place(&self, number: u64) -> MutexGuard<'_, Piece> {
        let at = usize::try_from(number % PLACES as u64).expect("below a usize");
        // A piece says what it holds after it holds it: nothing here can be half done.
        self.places[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes `change` to a part of the file, of which nothing is held meanwhile.
    fn changing<T>(&self, from: u64, to: u64, change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let pieces = from / PIECE_BYTES as u64..to.div_ceil(PIECE_BYTES as u64);
        // More pieces than places: each place holds one that changes.
        let last = pieces.end.min(pieces.start.saturating_add(PLACES as u64));
        // No reader holds two places, and who writes takes them in one order.
        let mut places: Vec<u64> = (pieces.start..last).map(|number| number % PLACES as u64).collect();
        places.sort_unstable();
        let mut held: Vec<_> = places.into_iter().map(|place| self.place(place)).collect();
        for piece in &mut held {
            piece.number = None;
        }
        change()
    }
}

impl<B: StorageBackend> StorageBackend for ReadAhead<B> {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let number = offset / PIECE_BYTES as u64;
        let from = usize::try_from(offset % PIECE_BYTES as u64).expect("below the length of a piece");
        let to = from + out.len();
        if to > PIECE_BYTES {
            return self.file.read(offset, out);
        }
        let mut piece = self.place(number);
        if piece.number != Some(number) {
            piece.number = None;
            piece.bytes.resize(PIECE_BYTES, 0);
            if self.file.read(number * PIECE_BYTES as u64, &mut piece.bytes).is_err() {
                // The file ends within the piece, or this part of it cannot be read.
                return self.file.read(offset, out);
            }
            piece.number = Some(number);
        }
        out.copy_from_slice(&piece.bytes[from..to]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.changing(0, u64::MAX, || self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.changing(offset, offset.saturating_add(data.len() as u64), || self.file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use ::redb::backends::InMemoryBackend;
    use proptest::prelude::*;

    use super::*;

    const FILE_BYTES: usize = 5 * PIECE_BYTES / 2;

    #[derive(Debug, Clone)]
    enum Call {
        Read(usize, usize),
        Write(usize, usize, u8),
        SetLen(usize),
    }

    fn call() -> impl Strategy<Value = Call> {
        let place = 0..FILE_BYTES + 4096;
        let length = prop_oneof![1..5000usize, PIECE_BYTES..2 * PIECE_BYTES];
        prop_oneof![
            (place.clone(), length.clone()).prop_map(|(at, length)| Call::Read(at, length)),
            (place.clone(), length, any::<u8>()).prop_map(|(at, length, byte)| Call::Write(at, length, byte)),
            place.prop_map(Call::SetLen),
        ]
    }

    proptest! {
        #[test]
        fn a_file_read_ahead_is_the_file(calls in prop::collection::vec(call(), 1..60)) {
            let mut model = vec![0u8; FILE_BYTES];
            let file = ReadAhead::over(InMemoryBackend::new());
            file.set_len(FILE_BYTES as u64).unwrap();
            for call in calls {
                match call {
                    Call::Read(at, length) => {
                        let mut out = vec![0; length];
                        let read = file.read(at as u64, &mut out);
                        match model.get(at..at + length) {
                            Some(expected) => prop_assert_eq!(read.map(|()| out == expected).ok(), Some(true)),
                            None => prop_assert!(read.is_err()),
                        }
                    }
                    Call::Write(at, length, byte) if at + length <= model.len() => {
                        file.write(at as u64, &vec![byte; length]).unwrap();
                        model[at..at + length].fill(byte);
                    }
                    Call::Write(..) => {}
                    Call::SetLen(length) => {
                        file.set_len(length as u64).unwrap();
                        model.resize(length, 0);
                    }
                }
            }
        }
    }

    #[test]
    fn pieces_that_share_a_place_are_told_apart_and_a_change_of_either_is_seen() {
        let away = (PLACES * PIECE_BYTES) as u64;
        let file = ReadAhead::over(InMemoryBackend::new());
        file.set_len(2 * away).unwrap();
        let first_byte = |at| {
            let mut out = [0];
            file.read(at, &mut out).unwrap();
            out[0]
        };
        file.write(0, &[1]).unwrap();
        assert_eq!([first_byte(0), first_byte(away), first_byte(0)], [1, 0, 1]);
        file.write(away, &[2]).unwrap();
        assert_eq!([first_byte(0), first_byte(away)], [1, 2]);
        let all = vec![3; 2 * PLACES * PIECE_BYTES];
        file.write(0, &all).unwrap();
        assert_eq!([first_byte(away), first_byte(0)], [3, 3]);
    }
}
