//! What a program says to have done.

use crash::files::Moment;
use serde::{Deserialize, Serialize};

/// The variable that gives a program the name of the file for its acknowledgements.
pub const ACKNOWLEDGE: &str = "PLUMB_ACKNOWLEDGE";

/// A line that a program appended to the file for it: by then, it holds, something is durable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Acknowledgement {
    /// The line, without its end; bytes that are not UTF-8 are replaced.
    pub line: String,
    /// When the write that completed the line was over.
    pub at: Moment,
}

/// Lines of what is appended in pieces.
#[derive(Default)]
pub(super) struct Lines {
    open: Vec<u8>,
}

/// Longest line; what is longer is cut here.
const LINE_BYTES_MAX: usize = 1 << 20;

impl Lines {
    /// The lines that `bytes` complete.
    pub(super) fn push(&mut self, bytes: &[u8], at: Moment) -> Vec<Acknowledgement> {
        let mut complete = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_end) = piece.split_last().map_or((piece, false), |(last, text)| match last {
                b'\n' => (text, true),
                _ => (piece, false),
            });
            let room = LINE_BYTES_MAX.saturating_sub(self.open.len());
            self.open.extend_from_slice(text.get(..room).unwrap_or(text));
            if is_end {
                complete.push(Acknowledgement { line: String::from_utf8_lossy(&self.open).into_owned(), at });
                self.open.clear();
            }
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_when_its_end_is_written() {
        let at = |order| Moment { order, position: order * 10 };
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"one", at(1)), []);
        let complete = lines.push(b" more\ntwo\nthr", at(2));
        assert_eq!(complete.iter().map(|it| it.line.as_str()).collect::<Vec<_>>(), ["one more", "two"]);
        assert_eq!(complete[0].at, at(2));
        assert_eq!(lines.push(b"ee\n", at(3))[0].line, "three");
    }
}
