//! Lines out of a stream or a file, each bounded.

use std::io::{BufRead, ErrorKind, Read as _};
use std::path::Path;

use runseal_evidence::export::LINE_BYTES_MAX;
use thiserror::Error;

use crate::error::Failure;

/// Why a stream is not whole lines.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
#[non_exhaustive]
pub enum LineError {
    /// A line without end.
    #[error("line {line} is longer than {limit} bytes")]
    TooLong {
        /// The line, from 1.
        line: u64,
        /// The limit.
        limit: usize,
    },
    /// The stream ends inside a line.
    #[error("it ends in the middle of line {line}")]
    Cut {
        /// The line, from 1.
        line: u64,
    },
}

/// Bytes of lines read at a time.
pub const BLOCK_BYTES: usize = 1 << 18;
/// What a reader of lines wants as its buffer: the rest of a line after each block.
pub const BUFFER_BYTES: usize = 1 << 14;

/// Length of the first line with its line feed, or of all where there is none.
pub fn line_length(bytes: &[u8]) -> usize {
    memchr::memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1)
}

/// Collects pieces and hands out whole lines.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    buffer: Vec<u8>,
    start: usize,
    scanned: usize,
    taken: u64,
}

impl Lines {
    /// Lines of at most `limit` bytes without their line feed.
    pub const fn new(limit: usize) -> Self {
        Self { limit, buffer: Vec::new(), start: 0, scanned: 0, taken: 0 }
    }

    /// Adds a piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        self.buffer.extend_from_slice(piece);
    }

    /// The next whole line, without its line feed.
    ///
    /// # Errors
    /// [`LineError::TooLong`].
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        let too_long = LineError::TooLong { line: self.taken + 1, limit: self.limit };
        let Some(end) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) else {
            self.scanned = self.buffer.len();
            return if self.scanned - self.start > self.limit { Err(too_long) } else { Ok(None) };
        };
        let end = self.scanned + end;
        let line = self.buffer[self.start..end].to_vec();
        self.start = end + 1;
        self.scanned = self.start;
        if line.len() > self.limit {
            return Err(too_long);
        }
        self.taken += 1;
        Ok(Some(line))
    }

    /// Whether all that was pushed has been taken.
    ///
    /// # Errors
    /// [`LineError::Cut`].
    pub fn finish(self) -> Result<(), LineError> {
        if self.start == self.buffer.len() { Ok(()) } else { Err(LineError::Cut { line: self.taken + 1 }) }
    }
}

/// Whole lines of a file, one at a time.
pub struct LineReader<'p> {
    file: Box<dyn BufRead + Send + 'p>,
    path: &'p Path,
    buffer: Vec<u8>,
    /// Lines read.
    pub number: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Whether the file ended inside a line.
    pub cut: bool,
    /// Whether a line was longer than any can be.
    pub too_long: bool,
}

impl<'p> LineReader<'p> {
    /// Reads the lines of a file; `path` is what a failure calls it.
    pub fn new(file: impl BufRead + Send + 'p, path: &'p Path) -> Self {
        Self {
            file: Box::new(file),
            path,
            buffer: Vec::new(),
            number: 0,
            bytes: 0,
            cut: false,
            too_long: false,
        }
    }

    /// The next line without its line feed; `None` at the end, or where the rest is no line.
    ///
    /// # Errors
    /// [`Failure::Read`].
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, Failure> {
        if self.cut || self.too_long {
            return Ok(None);
        }
        self.buffer.clear();
        let limit = LINE_BYTES_MAX as u64 + 1;
        let read = self.file.by_ref().take(limit).read_until(b'\n', &mut self.buffer);
        let read = read.map_err(|source| Failure::Read { path: self.path.to_owned(), source })?;
        self.bytes += read as u64;
        if read == 0 {
            return Ok(None);
        }
        if self.buffer.pop_if(|last| *last == b'\n').is_none() {
            self.too_long = read as u64 == limit;
            self.cut = !self.too_long;
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(&self.buffer))
    }

    /// Replaces `block` by further whole lines, each with its line feed: about [`BLOCK_BYTES`], or one line that is
    /// longer. `false` at the end, or where the rest is no line. Who parses the block counts its lines.
    ///
    /// # Errors
    /// [`Failure::Read`].
    pub fn next_block(&mut self, block: &mut Vec<u8>) -> Result<bool, Failure> {
        if self.cut || self.too_long {
            block.clear();
            return Ok(false);
        }
        let read = fill(&mut *self.file, block);
        read.map_err(|source| Failure::Read { path: self.path.to_owned(), source })?;
        self.bytes += block.len() as u64;
        // Only the last line can be longer than a block.
        let whole = block.ends_with(b"\n");
        if whole && block.len() <= LINE_BYTES_MAX {
            return Ok(true);
        }
        let before = &block[..block.len() - usize::from(whole)];
        let start = memchr::memrchr(b'\n', before).map_or(0, |feed| feed + 1);
        self.too_long = before.len() - start > LINE_BYTES_MAX;
        self.cut = !whole && !self.too_long && !block.is_empty();
        if !whole || self.too_long {
            block.truncate(start);
        }
        Ok(!block.is_empty())
    }
}

/// Reads a block's bytes and the rest of its last line, up to the longest there can be.
fn fill(file: &mut dyn BufRead, block: &mut Vec<u8>) -> std::io::Result<()> {
    // Reads of this length go past the reader's own buffer. What the block held before is written over.
    block.resize(BLOCK_BYTES, 0);
    let mut length = 0;
    while length < BLOCK_BYTES {
        match file.read(&mut block[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    block.truncate(length);
    if length < BLOCK_BYTES {
        return Ok(());
    }
    if block.last() != Some(&b'\n') {
        file.take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', block)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn blocks_are_whole_lines_up_to_the_first_that_is_none() {
        let long = |length: usize| "x".repeat(length);
        for (text, whole, cut, too_long) in [
            (String::new(), 0, false, false),
            ("one\n\nthree\n".to_owned(), 11, false, false),
            ("one\ncut".to_owned(), 4, true, false),
            ("cut".to_owned(), 0, true, false),
            (format!("{}\none\n", long(BLOCK_BYTES)), BLOCK_BYTES + 5, false, false),
            (format!("one\n{}\none\n", long(LINE_BYTES_MAX)), LINE_BYTES_MAX + 9, false, false),
            (format!("one\n{}\none\n", long(LINE_BYTES_MAX + 1)), 4, false, true),
            (format!("one\n{}", long(LINE_BYTES_MAX + 1)), 4, false, true),
            (format!("one\n{}", long(LINE_BYTES_MAX)), 4, true, false),
            (format!("{}\n", long(LINE_BYTES_MAX + 1)), 0, false, true),
            (long(LINE_BYTES_MAX * 3), 0, false, true),
        ] {
            let mut lines = LineReader::new(Cursor::new(&text), Path::new("lines"));
            let (mut block, mut all) = (Vec::new(), Vec::new());
            while lines.next_block(&mut block).unwrap() {
                assert!(block.ends_with(b"\n"));
                all.extend_from_slice(&block);
            }
            assert!(all == text.as_bytes()[..whole], "{} of {} bytes", all.len(), text.len());
            assert_eq!((lines.cut, lines.too_long), (cut, too_long), "{} bytes", text.len());
            assert!(!lines.next_block(&mut block).unwrap());
        }
    }

    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let text = b"one\n\nthree\nfour";
        for size in 1..text.len() {
            let mut lines = Lines::new(5);
            let mut found = Vec::new();
            for piece in text.chunks(size) {
                lines.push(piece);
                while let Some(line) = lines.next_line().unwrap() {
                    found.push(String::from_utf8(line).unwrap());
                }
            }
            assert_eq!(found, ["one", "", "three"]);
            assert_eq!(lines.finish(), Err(LineError::Cut { line: 4 }));
        }
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_fills_the_memory() {
        let mut lines = Lines::new(5);
        lines.push(b"ok\n123456");
        assert_eq!(lines.next_line(), Ok(Some(b"ok".to_vec())));
        assert_eq!(lines.next_line(), Err(LineError::TooLong { line: 2, limit: 5 }));
    }
}
