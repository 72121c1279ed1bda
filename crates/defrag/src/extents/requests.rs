//! How many requests of the device one access takes.

use serde::{Deserialize, Serialize};

use super::extent::ExtentKind;
use super::map::ExtentMap;
use crate::ByteRange;

/// What a segment of memory holds at least.
const PAGE_BYTES: u64 = 4096;

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
    /// The longest request where no two pages of memory are neighbours, so that each is a segment of its own.
    ///
    /// Up to this length the count is exact, whatever the memory. Beyond, a buffer of huge pages, or large folios in
    /// the page cache, may take fewer requests, down to one for `max_bytes` (`bio_split_io_at`, block/blk-merge.c).
    pub fn certain_bytes(&self) -> u64 {
        self.max_bytes.min(u64::from(self.max_segments).saturating_mul(PAGE_BYTES)).max(512)
    }

    /// Requests for `length` contiguous bytes, whatever the memory.
    pub fn split(&self, length: u64) -> u64 {
        length.div_ceil(self.certain_bytes())
    }
}

/// Requests that one access to `range` makes of the device, where nothing of it is in the page cache.
///
/// Each piece is at least one request, a piece longer than a request several; holes, inline and delayed
/// extents are none. A piece that lies right behind the one before it on the device, or right before it, merges with
/// it in the plug of the system call, where only the newest request is looked at (`blk_attempt_plug_merge` and
/// `blk_attempt_bio_merge`, block/blk-merge.c), shared or not, and whatever lies between the two in the file. An encoded
/// extent counts as one. A file's last block is transferred whole, wherever in it the file ends: a piece that ends so right before
/// the newest request is merged with it. An I/O scheduler may merge more than that.
pub fn requests(map: &ExtentMap, range: ByteRange, limits: &RequestLimits, direction: Direction) -> u64 {
    let mut count = 0_u64;
    let mut newest: Option<Plugged> = None;
    for piece in map.pieces(range) {
        match piece.kind {
            ExtentKind::Data | ExtentKind::Shared => {}
            ExtentKind::Unwritten if direction == Direction::Write => {}
            ExtentKind::Encoded => {
                count += 1;
                newest = None;
                continue;
            }
            // No bio, so that the plug stays as it is.
            ExtentKind::Unwritten | ExtentKind::Delayed | ExtentKind::Inline | ExtentKind::Unknown => continue,
        }
        let next = Plugged { physical: piece.physical, length: map.transferred_bytes(&piece) };
        if newest.as_mut().is_none_or(|request| !request.merge(&next, limits)) {
            count += limits.split(next.length);
            newest = next.last(limits);
        }
    }
    count
}

/// The newest request of a plug.
struct Plugged {
    physical: u64,
    length: u64,
}

impl Plugged {
    /// Takes `next` in, if it lies right behind (a back merge) or right before (a front merge), and both are no longer
    /// than one request. A longer one is split before it is looked at, and its first part fills a request.
    fn merge(&mut self, next: &Self, limits: &RequestLimits) -> bool {
        let length = self.length.saturating_add(next.length);
        if length > limits.certain_bytes() {
            return false;
        }
        if self.physical.checked_add(self.length) == Some(next.physical) {
            self.length = length;
            return true;
        }
        if next.physical.checked_add(next.length) == Some(self.physical) {
            (self.physical, self.length) = (next.physical, length);
            return true;
        }
        false
    }

    /// The last of the requests that it is split into.
    fn last(&self, limits: &RequestLimits) -> Option<Self> {
        let before = limits.split(self.length).checked_sub(1)?.checked_mul(limits.certain_bytes())?;
        Some(Self { physical: self.physical.checked_add(before)?, length: self.length.checked_sub(before)? })
    }
}
