//! Segments of read and read-ahead data.

use std::collections::VecDeque;
use std::ops::Range;

/// Least-recently-used segments, each one run of blocks.
#[derive(Debug)]
pub(super) struct ReadCache {
    segments: VecDeque<Range<u64>>,
    max_segments: usize,
    segment_blocks: u64,
}

impl ReadCache {
    /// An empty cache of `max_segments` of `segment_blocks` each.
    pub(super) fn new(max_segments: usize, segment_blocks: u64) -> Self {
        Self { segments: VecDeque::with_capacity(max_segments), max_segments, segment_blocks }
    }

    /// How far the disk reads ahead of the host, in blocks.
    pub(super) fn segment_blocks(&self) -> u64 {
        if self.max_segments == 0 { 0 } else { self.segment_blocks }
    }

    /// Whether one segment holds all of `range`; makes it the most recent.
    pub(super) fn hit(&mut self, range: &Range<u64>) -> bool {
        let found = self.segments.iter().position(|segment| segment.start <= range.start && range.end <= segment.end);
        if let Some(segment) = found.and_then(|index| self.segments.remove(index)) {
            self.segments.push_front(segment);
        }
        found.is_some()
    }

    /// Remembers `range`, just read, joined to the segment it continues; the
    /// oldest blocks of a segment that grows too long are forgotten.
    pub(super) fn insert(&mut self, range: Range<u64>) {
        if self.max_segments == 0 || range.is_empty() {
            return;
        }
        let continued =
            self.segments.iter().position(|segment| segment.start <= range.start && range.start <= segment.end);
        let mut segment = continued.and_then(|index| self.segments.remove(index)).unwrap_or(range.clone());
        segment.end = segment.end.max(range.end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.segment_blocks));
        self.segments.truncate(self.max_segments - 1);
        self.segments.push_front(segment);
    }

    /// Forgets the segments that a write of `range` made stale.
    pub(super) fn invalidate(&mut self, range: &Range<u64>) {
        self.segments.retain(|segment| segment.end <= range.start || range.end <= segment.start);
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.segments.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_keep_their_last_blocks() {
        let mut cache = ReadCache::new(2, 100);
        cache.insert(0..50);
        cache.insert(50..130);
        assert!(cache.hit(&(30..130)) && !cache.hit(&(29..31)));
        cache.insert(1000..1010);
        assert!(cache.hit(&(40..50)), "makes the first stream recent");
        cache.insert(2000..2010);
        assert!(cache.hit(&(40..50)) && !cache.hit(&(1000..1001)));
        cache.invalidate(&(129..200));
        assert!(!cache.hit(&(40..50)) && cache.hit(&(2000..2010)));
    }
}
