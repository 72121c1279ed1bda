//! What is to be loaded: equal ranges at equal distances.

use crate::access::PAGE_BYTES;

/// Most ranges in one plan.
pub const MAX_RANGES: u32 = 1024;

/// Ranges of a file that are to be loaded, in the order in which their reader is expected. One contiguous range is a plan with a
/// `count` of one; a backward reader's is loaded from its end on, see [`Plan::chunks`].
///
/// Every range is within the file. A reader that is not strided has ranges of whole pages, or up to the end of the file; others the
/// bytes that it will read, whose pages the kernel loads whole.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// First byte of the first range.
    pub start_bytes: u64,
    /// From the beginning of one range to that of the next. Negative for a backward reader, also where there is one range.
    pub stride_bytes: i64,
    /// Bytes of each range.
    pub length_bytes: u64,
    /// How many ranges, at least one.
    pub count: u32,
    /// Which stream asked: handed back with what became of the plan. Nothing else is to be done with it.
    pub stream: u32,
}

/// Bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// First byte.
    pub start_bytes: u64,
    /// Behind the last byte.
    pub end_bytes: u64,
}

impl Range {
    /// Bytes in it.
    pub const fn bytes(&self) -> u64 {
        self.end_bytes.saturating_sub(self.start_bytes)
    }
}

impl Plan {
    /// One contiguous range, for a reader that comes from its beginning.
    pub const fn contiguous(start_bytes: u64, end_bytes: u64) -> Self {
        let length_bytes = end_bytes.saturating_sub(start_bytes);
        Self { start_bytes, stride_bytes: length_bytes as i64, length_bytes, count: 1, stream: u32::MAX }
    }

    /// Whether its reader goes towards the beginning of the file.
    pub const fn is_backward(&self) -> bool {
        self.stride_bytes < 0
    }

    /// Whether it is one range, for a reader that goes towards the end of the file.
    pub const fn is_forward(&self) -> bool {
        self.count == 1 && !self.is_backward()
    }

    /// Whether a reader's window is planned, and not a whole file or mapping.
    pub const fn is_window(&self) -> bool {
        self.stream != u32::MAX
    }

    /// Its ranges, in the order of the reader.
    pub fn ranges(&self) -> impl Iterator<Item = Range> + use<> {
        let plan = *self;
        (0..plan.count.min(MAX_RANGES)).map(move |index| {
            let start_bytes = plan.start_bytes.wrapping_add_signed(plan.stride_bytes.wrapping_mul(i64::from(index)));
            Range { start_bytes, end_bytes: start_bytes.saturating_add(plan.length_bytes) }
        })
    }

    /// Its ranges in pieces of at most `chunk_bytes` (a whole number of pages), in the order of the reader: what one call may load is
    /// bounded by the kernel.
    pub fn chunks(&self, chunk_bytes: u64) -> impl Iterator<Item = Range> + use<> {
        let chunk_bytes = (chunk_bytes / PAGE_BYTES).max(1) * PAGE_BYTES;
        let backward = self.is_backward();
        self.ranges().flat_map(move |range| {
            (0..range.bytes().div_ceil(chunk_bytes)).map(move |index| {
                if backward {
                    let end_bytes = range.end_bytes - index * chunk_bytes;
                    Range { start_bytes: end_bytes.saturating_sub(chunk_bytes).max(range.start_bytes), end_bytes }
                } else {
                    let start_bytes = range.start_bytes + index * chunk_bytes;
                    Range { start_bytes, end_bytes: range.end_bytes.min(start_bytes.saturating_add(chunk_bytes)) }
                }
            })
        })
    }

    /// Pages of all ranges, rounded up where ranges begin at different places of their pages.
    pub const fn pages(&self) -> u64 {
        let first = self.start_bytes % PAGE_BYTES + self.length_bytes % PAGE_BYTES;
        let aligned = self.count == 1 || self.stride_bytes.unsigned_abs().is_multiple_of(PAGE_BYTES);
        let ends = if aligned { first.div_ceil(PAGE_BYTES) } else { 2 };
        (self.length_bytes / PAGE_BYTES + ends).saturating_mul(self.count as u64)
    }

    /// Bytes of all ranges.
    pub const fn bytes(&self) -> u64 {
        self.length_bytes.saturating_mul(self.count as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ranges: impl Iterator<Item = Range>) -> Vec<(u64, u64)> {
        ranges.map(|range| (range.start_bytes, range.end_bytes)).collect()
    }

    #[test]
    fn chunks_come_in_the_order_of_the_reader() {
        let forward = Plan::contiguous(4096, 4096 * 4);
        assert_eq!(pairs(forward.chunks(8192)), [(4096, 12288), (12288, 16384)]);
        let backward = Plan { stride_bytes: -1, ..forward };
        assert_eq!(pairs(backward.chunks(8192)), [(8192, 16384), (4096, 8192)]);
        let strided = Plan { stride_bytes: -8192, start_bytes: 40960, length_bytes: 4096, count: 3, stream: 0 };
        assert_eq!(pairs(strided.chunks(1)), [(40960, 45056), (32768, 36864), (24576, 28672)]);
        assert_eq!(strided.bytes(), 12288);
    }
}
