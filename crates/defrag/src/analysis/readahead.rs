//! Requests out of accesses: what readahead makes of sequential reads.

use super::window::Touch;
use crate::extents::Direction;
use crate::{Access, ByteRange, IoKind};

/// The published tool's readahead window, and Linux's default limit (`VM_READAHEAD_PAGES`).
pub const READAHEAD_BYTES: u64 = 128 << 10;

/// What addresses are rounded to; the page cache asks for no less.
const PAGE_BYTES: u64 = 4096;

/// How far readahead has come in a file.
#[derive(Default)]
struct State {
    /// Where the last access ended, to the byte.
    previous_end: Option<u64>,
    /// Up to where readahead has asked already; 0 where it is off.
    window_end: u64,
}

/// The requests that `accesses` to one file of `size_bytes` come to, in their order.
///
/// A buffered read that begins where the last access ended is sequential. If readahead has its end already,
/// it is no request; otherwise one of at most `readahead_bytes` becomes a request of that size, up to which
/// readahead then has come. Every other access is a request as it stands and turns readahead off.
///
/// Where the trace has requests that readahead was seen to send, these are taken, and
/// buffered reads and page faults, which came to the device as those, are not.
pub fn readahead(accesses: &[Access], size_bytes: u64, readahead_bytes: u64) -> Vec<Touch> {
    let recorded = accesses.iter().any(|access| access.kind == IoKind::Readahead);
    let mut state = State::default();
    let mut requests = Vec::new();
    for access in accesses {
        let direction = match access.kind {
            IoKind::BufferedWrite | IoKind::DirectWrite => Direction::Write,
            IoKind::BufferedRead | IoKind::DirectRead | IoKind::Mapped | IoKind::Readahead => Direction::Read,
        };
        let range = match access.kind {
            IoKind::BufferedRead | IoKind::Mapped if recorded => None,
            IoKind::BufferedRead => state.buffered_read(access.range, readahead_bytes),
            IoKind::Readahead => Some(access.range),
            IoKind::BufferedWrite | IoKind::DirectRead | IoKind::DirectWrite | IoKind::Mapped => {
                state.other(access.range);
                Some(access.range)
            }
        };
        if let Some(range) = range.and_then(|range| pages(range, size_bytes)) {
            requests.push(Touch { range, direction, count: access.count.max(1) });
        }
    }
    requests
}

impl State {
    fn other(&mut self, range: ByteRange) {
        self.previous_end = Some(range.end);
        self.window_end = 0;
    }

    fn buffered_read(&mut self, range: ByteRange, readahead_bytes: u64) -> Option<ByteRange> {
        if self.previous_end != Some(range.start) {
            self.other(range);
            return Some(range);
        }
        self.previous_end = Some(range.end);
        let Some(mut asked) = pages(range, u64::MAX) else { return Some(range) };
        if self.window_end >= asked.end {
            return None;
        }
        if range.len() <= readahead_bytes {
            asked.end = asked.start.saturating_add(readahead_bytes).max(asked.end);
        }
        self.window_end = asked.end;
        Some(asked)
    }
}

/// `range` grown to whole pages and cut at the end of the file; `None` where nothing of it is left.
fn pages(range: ByteRange, size_bytes: u64) -> Option<ByteRange> {
    let end = range.end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX).min(size_bytes);
    let start = range.start / PAGE_BYTES * PAGE_BYTES;
    (!range.is_empty() && start < end).then_some(ByteRange { start, end })
}
