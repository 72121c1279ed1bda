//! Spans as a tab-separated table, for `awk`, spreadsheets and data frames.

use std::fmt;
use std::io::{self, Write};

use crate::{Span, Track};

/// Column names, in order; stable.
const COLUMNS: [&str; 7] = ["start_ns", "end_ns", "track", "step", "request", "offset", "bytes"];

/// Writes `spans` by start time, one a line under a header line.
///
/// No field ever holds a tab, a quote or a line end, so nothing is escaped.
/// `track` is one of `job0`, `cpu0`, `hostq0`, `nvmeq0`, `controller`, `link`,
/// `buffer`, `channel0`, `die0.3` (channel, then die through the whole
/// device), `mechanism`; request 0 is the device's own work.
///
/// # Errors
/// What `out` reports.
pub fn write_table(spans: &[Span], mut out: impl Write) -> io::Result<()> {
    let mut sorted: Vec<&Span> = spans.iter().collect();
    sorted.sort_by_key(|span| (span.start, span.end, span.track, span.step, span.request));
    writeln!(out, "{}", COLUMNS.join("\t"))?;
    for Span { start, end, track, step, request, offset, bytes } in sorted {
        let (start, end, track, step, request) = (start.0, end.0, Token(*track), step.name(), request.0);
        writeln!(out, "{start}\t{end}\t{track}\t{step}\t{request}\t{offset}\t{bytes}")?;
    }
    out.flush()
}

/// A track as one word.
struct Token(Track);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Track::Job(job) => write!(f, "job{job}"),
            Track::Cpu(cpu) => write!(f, "cpu{cpu}"),
            Track::HostQueue(queue) => write!(f, "hostq{queue}"),
            Track::NvmeQueue(queue) => write!(f, "nvmeq{queue}"),
            Track::Controller => f.write_str("controller"),
            Track::Link => f.write_str("link"),
            Track::Buffer => f.write_str("buffer"),
            Track::Channel(channel) => write!(f, "channel{channel}"),
            Track::Die { channel, die } => write!(f, "die{channel}.{die}"),
            Track::Mechanism => f.write_str("mechanism"),
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Nanos;

    use super::*;
    use crate::{RequestId, Step};

    #[test]
    fn lines_and_order() {
        let die = Track::Die { channel: 1, die: 9 };
        let late = Span {
            start: Nanos(70),
            end: Nanos(90),
            track: die,
            step: Step::FlashRead,
            request: RequestId(4),
            offset: 8192,
            bytes: 4096,
        };
        let early = Span { start: Nanos(5), track: Track::Controller, step: Step::Process, ..late };
        let mut out = Vec::new();
        write_table(&[late, early], &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "start_ns\tend_ns\ttrack\tstep\trequest\toffset\tbytes\n\
             5\t90\tcontroller\tprocess\t4\t8192\t4096\n\
             70\t90\tdie1.9\tflash_read\t4\t8192\t4096\n"
        );
    }

    #[test]
    fn a_full_disk_is_reported() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert_eq!(write_table(&[], Full).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
