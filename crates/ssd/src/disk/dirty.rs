//! Blocks in the write cache that are newer than the media.

use std::ops::Range;

use crate::contents::ExtentMap;

/// Dirty blocks, each with the sequence number of its latest write.
#[derive(Default, Debug)]
pub(super) struct DirtyBlocks {
    extents: ExtentMap,
    blocks: u64,
}

/// A run of dirty blocks to be written in one pass, by the write they belong to.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// All of it, contiguous.
    pub blocks: Range<u64>,
    /// Its parts, ascending, with their writes.
    pub parts: Vec<(Range<u64>, u64)>,
}

impl DirtyBlocks {
    /// Number of dirty blocks.
    pub(super) fn count(&self) -> u64 {
        self.blocks
    }

    /// Whether all of `range` is dirty.
    pub(super) fn covers(&self, range: Range<u64>) -> bool {
        self.overlap(range.clone()) == range.end - range.start
    }

    /// A write of `range` entered the cache, over older versions.
    pub(super) fn write(&mut self, range: Range<u64>, sequence: u64) {
        self.blocks += (range.end - range.start) - self.overlap(range.clone());
        self.extents.set(range, sequence);
    }

    /// A write of `range` reached the media: its blocks, and older versions of
    /// them, are clean.
    pub(super) fn clean(&mut self, range: Range<u64>, sequence: u64) {
        let clean: Vec<_> = self.extents.overlapping(range).filter(|(_, label)| *label <= sequence).collect();
        for (part, _) in clean {
            self.blocks -= part.end - part.start;
            self.extents.remove(part);
        }
    }

    /// Up to `candidates` runs in C-LOOK order from `from`, none longer than
    /// `longest` blocks.
    pub(super) fn runs_from(&self, from: u64, longest: u64, candidates: usize) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (part, sequence) in self.extents.overlapping(from..u64::MAX).chain(self.extents.overlapping(0..from)) {
            let mut part = part;
            while !part.is_empty() {
                let joins = runs
                    .last()
                    .is_some_and(|run| run.blocks.end == part.start && run.blocks.end - run.blocks.start < longest);
                if !joins {
                    if runs.len() == candidates {
                        return runs;
                    }
                    runs.push(Run { blocks: part.start..part.start, parts: Vec::new() });
                }
                let Some(run) = runs.last_mut() else { break };
                let room = longest - (run.blocks.end - run.blocks.start);
                let piece = part.start..part.end.min(part.start + room);
                part.start = piece.end;
                run.blocks.end = piece.end;
                run.parts.push((piece, sequence));
            }
        }
        runs
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn overlap(&self, range: Range<u64>) -> u64 {
        self.extents.overlapping(range).map(|(part, _)| part.end - part.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_neighbours_and_wrap() {
        let mut dirty = DirtyBlocks::default();
        dirty.write(10..20, 1);
        dirty.write(20..24, 2);
        dirty.write(15..17, 3);
        dirty.write(100..108, 4);
        dirty.write(0..2, 5);
        assert_eq!(dirty.count(), 24);
        let blocks = |runs: Vec<Run>| runs.into_iter().map(|run| run.blocks).collect::<Vec<_>>();
        assert_eq!(blocks(dirty.runs_from(50, 64, 8)), [100..108, 0..2, 10..24]);
        assert_eq!(blocks(dirty.runs_from(0, 6, 3)), [0..2, 10..16, 16..22]);
        assert_eq!(dirty.runs_from(10, 64, 1)[0].parts, [(10..15, 1), (15..17, 3), (17..20, 1), (20..24, 2)]);
        dirty.clean(10..24, 2);
        assert_eq!(dirty.count(), 12);
        assert!(dirty.covers(15..17) && !dirty.covers(14..17));
    }
}
