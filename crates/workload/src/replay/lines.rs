//! A file's lines, one at a time in one buffer.

use std::io::{self, BufRead, Read};

/// Longest line taken, its newline included. The longest line of a supported
/// format is an iolog's with a path of PATH_MAX (4096) bytes.
pub(super) const LIMIT_BYTES: usize = 8192;

/// Reads lines from a file of any length in bounded memory.
pub(super) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    number: u64,
    ended: bool,
}

/// What came of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadLine {
    /// A line is in the buffer.
    Line,
    /// The line in the buffer has no end.
    TooLong,
    /// There is no further line.
    End,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), number: 0, ended: true }
    }

    /// Reads the next line into the buffer.
    pub(super) fn read(&mut self) -> io::Result<ReadLine> {
        self.buffer.clear();
        let read = (&mut self.input).take(LIMIT_BYTES as u64).read_until(b'\n', &mut self.buffer)?;
        if read == 0 {
            return Ok(ReadLine::End);
        }
        self.number += 1;
        self.ended = self.buffer.last() == Some(&b'\n');
        if !self.ended && read == LIMIT_BYTES {
            return Ok(ReadLine::TooLong);
        }
        while matches!(self.buffer.last(), Some(b'\n' | b'\r')) {
            self.buffer.pop();
        }
        Ok(ReadLine::Line)
    }

    /// The line in the buffer, without its newline.
    pub(super) fn line(&self) -> &[u8] {
        &self.buffer
    }

    /// Its number, counted from 1; 0 before the first.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether it ended with a newline.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newlines_of_both_kinds_and_a_cut_end() {
        let mut lines = Lines::new(&b"one\r\n\ntwo"[..]);
        let mut seen = Vec::new();
        while lines.read().unwrap() == ReadLine::Line {
            seen.push((lines.number(), lines.line().to_vec(), lines.ended()));
        }
        let want = [(1, b"one".to_vec(), true), (2, b"".to_vec(), true), (3, b"two".to_vec(), false)];
        assert_eq!(seen, want);
    }

    #[test]
    fn endless_lines_are_refused() {
        let mut lines = Lines::new(io::BufReader::new(io::repeat(b'x')));
        assert_eq!(lines.read().unwrap(), ReadLine::TooLong);
        let longest = [vec![b'x'; LIMIT_BYTES - 1], b"\n".to_vec()].concat();
        assert_eq!(Lines::new(&longest[..]).read().unwrap(), ReadLine::Line);
    }
}
