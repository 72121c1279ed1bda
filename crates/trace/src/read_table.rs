//! Reads what [`write_table`](crate::write_table) wrote.

use std::io::{self, BufRead};

use units::Nanos;

use crate::{RequestId, Span, Step, Track};

/// Why a table cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadTableError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line is no span.
    #[error("line {line} is not a span of seven columns: `{text}`")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// It, or its beginning.
        text: String,
    },
}

impl From<ReadTableError> for io::Error {
    fn from(error: ReadTableError) -> Self {
        match error {
            ReadTableError::Io(error) => error,
            line => Self::new(io::ErrorKind::InvalidData, line),
        }
    }
}

/// The spans of a table, in its order. Lines that begin with `#` are comments.
///
/// # Errors
/// What `table` reports; and the first line that is no span.
pub fn read_table(table: impl BufRead) -> Result<Vec<Span>, ReadTableError> {
    let mut spans = Vec::new();
    for (number, line) in (1..).zip(table.split(b'\n')) {
        let line = line?;
        if number == 1 || line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let text = String::from_utf8_lossy(&line);
        let wrong = || ReadTableError::Line { line: number, text: text.chars().take(100).collect() };
        spans.push(span(&text).ok_or_else(wrong)?);
    }
    Ok(spans)
}

fn span(line: &str) -> Option<Span> {
    let mut columns = line.split('\t');
    let span = Span {
        start: Nanos(columns.next()?.parse().ok()?),
        end: Nanos(columns.next()?.parse().ok()?),
        track: track(columns.next()?)?,
        step: step(columns.next()?)?,
        request: RequestId(columns.next()?.parse().ok()?),
        offset: columns.next()?.parse().ok()?,
        bytes: columns.next()?.parse().ok()?,
    };
    (columns.next().is_none() && span.start <= span.end).then_some(span)
}

fn step(name: &str) -> Option<Step> {
    Step::ALL.into_iter().find(|step| step.name() == name)
}

fn track(word: &str) -> Option<Track> {
    let digits = word.find(|c: char| c.is_ascii_digit()).unwrap_or(word.len());
    let (kind, number) = word.split_at(digits);
    match (kind, number) {
        ("controller", "") => Some(Track::Controller),
        ("link", "") => Some(Track::Link),
        ("buffer", "") => Some(Track::Buffer),
        ("mechanism", "") => Some(Track::Mechanism),
        ("job", number) => number.parse().ok().map(Track::Job),
        ("cpu", number) => number.parse().ok().map(Track::Cpu),
        ("hostq", number) => number.parse().ok().map(Track::HostQueue),
        ("nvmeq", number) => number.parse().ok().map(Track::NvmeQueue),
        ("channel", number) => number.parse().ok().map(Track::Channel),
        ("die", number) => {
            let (channel, die) = number.split_once('.')?;
            Some(Track::Die { channel: channel.parse().ok()?, die: die.parse().ok()? })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write_table;

    #[test]
    fn every_track_and_step_comes_back() {
        let tracks = [
            Track::Job(3),
            Track::Cpu(0),
            Track::HostQueue(7),
            Track::NvmeQueue(1),
            Track::Controller,
            Track::Link,
            Track::Buffer,
            Track::Channel(2),
            Track::Die { channel: 1, die: 19 },
            Track::Mechanism,
        ];
        let mut spans = Vec::new();
        for (at, track) in tracks.into_iter().enumerate() {
            for step in Step::ALL {
                let start = Nanos(1000 * at as u64 + step as u64);
                let end = start + Nanos(5);
                spans.push(Span { start, end, track, step, request: RequestId(at as u64), offset: 4096, bytes: 512 });
            }
        }
        let mut table = Vec::new();
        write_table(&spans, &mut table).unwrap();
        table.extend(b"# dropped 4\n");
        assert_eq!(read_table(table.as_slice()).unwrap(), spans);
    }

    #[test]
    fn a_line_that_is_no_span_is_named() {
        for line in ["1\t2\tdie1\tread\t0\t0\t0", "2\t1\tlink\tread\t0\t0\t0", "1\t2\tlink\tread\t0\t0\t0\t0", "x"] {
            let table = format!("header\n{line}\n");
            let error = read_table(table.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("line 2"), "{error}");
        }
    }
}
