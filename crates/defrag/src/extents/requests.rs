//! How many requests of the device one access takes.

use serde::{Deserialize, Serialize};

use super::extent::ExtentKind;
use super::map::{ExtentMap, Piece};
use crate::ByteRange;

/// Which way the bytes go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Unwritten extents need no request.
    Read,
    /// Unwritten extents do. For file systems that write in place.
    Write,
}

/// How large a request of the device may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RequestLimits {
    /// `queue/max_sectors_kb`.
    pub max_bytes: u64,
    /// `queue/max_segments`: separate stretches of memory in one request.
    pub max_segments: u32,
}

impl Default for RequestLimits {
    /// A loop device's: 1280 KiB in 128 segments (Linux 6.18).
    fn default() -> Self {
        Self { max_bytes: 1280 << 10, max_segments: 128 }
    }
}

impl RequestLimits {
    /// The limit where no two pages of memory are neighbours, so that each is a segment of its own.
    ///
    /// Requests up to this size are predicted exactly; between it and `max_bytes` the count depends
    /// on how the memory happened to be allocated (`bio_split_io_at`, block/blk-merge.c).
    pub fn certain_bytes(&self) -> u64 {
        self.max_bytes.min(u64::from(self.max_segments).saturating_mul(4096)).max(512)
    }

    /// Requests for `length` contiguous bytes.
    pub fn split(&self, length: u64) -> u64 {
        length.div_ceil(self.max_bytes.max(512))
    }
}

/// Requests that one access to `range` makes of the device, where nothing of it is in the page cache.
///
/// Each piece is at least one request, a piece longer than a request several; holes, inline and delayed
/// extents are none. Stretches that follow each other on the device merge in the plug of the
/// system call (`blk_attempt_plug_merge`, block/blk-merge.c), shared or not. An encoded extent counts as one.
pub fn requests(map: &ExtentMap, range: ByteRange, limits: &RequestLimits, direction: Direction) -> u64 {
    let mut count = 0_u64;
    let mut open: Option<Piece> = None;
    let close = |open: &mut Option<Piece>| open.take().map_or(0, |piece| limits.split(piece.range.len()));
    for piece in map.pieces(range) {
        let reaches = match piece.kind {
            ExtentKind::Data | ExtentKind::Shared => true,
            ExtentKind::Unwritten => direction == Direction::Write,
            ExtentKind::Encoded => {
                count += 1;
                false
            }
            ExtentKind::Delayed | ExtentKind::Inline | ExtentKind::Unknown => false,
        };
        if !reaches {
            count += close(&mut open);
            continue;
        }
        match &mut open {
            Some(run) if run.continues(&piece) => run.range.end = piece.range.end,
            _ => {
                count += close(&mut open);
                open = Some(piece);
            }
        }
    }
    count + close(&mut open)
}
