//! Reading a log.

use std::io::BufRead;

use super::{CommandRecord, HEADER, RecordError};

/// Bytes of the longest line: 256 ranges of thirty digits, and some.
const LINE_BYTES_MAX: u64 = 1 << 14;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CommandLogError {
    /// The system said no.
    #[error("cannot read the command log {name}: {source}")]
    Read {
        /// What the log is called.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It begins with something else.
    #[error("{name} is no command log: its first line is not the header that `--command-log` writes")]
    Header {
        /// What the log is called.
        name: String,
    },
    /// A line is at fault.
    #[error("{name}:{line}: {source}")]
    Line {
        /// What the log is called.
        name: String,
        /// Line, from 1.
        line: u64,
        /// What is wrong.
        source: RecordError,
    },
    /// It is longer than the caller takes.
    #[error("{name} has more than {limit} commands; log a shorter run")]
    TooLong {
        /// What the log is called.
        name: String,
        /// The most commands taken.
        limit: usize,
    },
}

/// Reads a log of `limit` commands at most, called `name` in errors; the
/// commands come back in the order of submission.
pub fn read(name: &str, mut from: impl BufRead, limit: usize) -> Result<Vec<CommandRecord>, CommandLogError> {
    let name = || name.to_owned();
    let mut line = String::new();
    let mut number = 0;
    let mut records = Vec::new();
    loop {
        line.clear();
        number += 1;
        let read = std::io::Read::take(&mut from, LINE_BYTES_MAX).read_line(&mut line);
        if read.map_err(|source| CommandLogError::Read { name: name(), source })? == 0 {
            break;
        }
        let text = line.trim_end_matches(['\n', '\r']);
        if number == 1 {
            if text != HEADER {
                return Err(CommandLogError::Header { name: name() });
            }
            continue;
        }
        if records.len() == limit {
            return Err(CommandLogError::TooLong { name: name(), limit });
        }
        let record = text.parse().map_err(|source| CommandLogError::Line { name: name(), line: number, source })?;
        records.push(record);
    }
    if number == 1 {
        return Err(CommandLogError::Header { name: name() });
    }
    records.sort_by_key(|record: &CommandRecord| record.sequence);
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_name_their_place() {
        let text = |lines: &[&str]| lines.join("\n");
        let good = "0\t0\t9\t1\t0\tread\t1\t0\t8\t-\t0/00";
        let error = |text: String, limit| read("a.log", text.as_bytes(), limit).unwrap_err().to_string();
        assert!(error(text(&[]), 9).contains("no command log"));
        assert!(error(text(&[good]), 9).contains("no command log"));
        assert!(error(text(&[HEADER, good, "x"]), 9).starts_with("a.log:3: "));
        assert!(error(text(&[HEADER, good, good]), 1).contains("more than 1"));
        assert_eq!(read("a.log", text(&[HEADER]).as_bytes(), 9).unwrap(), []);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes: Vec<u8>) {
            let _ = read("a.log", bytes.as_slice(), 9);
            let mut whole = format!("{HEADER}\n").into_bytes();
            whole.extend(bytes);
            let _ = read("a.log", whole.as_slice(), 9);
        }
    }
}
