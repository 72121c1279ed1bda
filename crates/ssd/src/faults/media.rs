//! Blocks that cannot be read.

/// A run of blocks, of which some may have been written again.
#[derive(Debug)]
pub(super) struct BadBlocks {
    first: u64,
    blocks: u64,
    /// One bit a block, set where it was written again; empty where writes do not help.
    cleared: Vec<u64>,
}

impl BadBlocks {
    pub(super) fn new(first: u64, blocks: u64, cleared_by_write: bool) -> Self {
        let words = if cleared_by_write { blocks.div_ceil(64) as usize } else { 0 };
        Self { first, blocks, cleared: vec![0; words] }
    }

    /// The part of an extent that lies here, as positions in the run.
    fn part(&self, (start, count): (u64, u64)) -> std::ops::Range<u64> {
        let end = start.saturating_add(count).min(self.first + self.blocks);
        let start = start.max(self.first);
        if start < end { start - self.first..end - self.first } else { 0..0 }
    }

    /// Whether a read of the extent meets a bad block.
    pub(super) fn fails(&self, extent: (u64, u64)) -> bool {
        let part = self.part(extent);
        if self.cleared.is_empty() {
            return !part.is_empty();
        }
        let mut part = part;
        part.any(|at| self.cleared.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 0))
    }

    /// The extent has been written.
    pub(super) fn written(&mut self, extent: (u64, u64)) {
        if self.cleared.is_empty() {
            return;
        }
        for at in self.part(extent) {
            if let Some(word) = self.cleared.get_mut((at / 64) as usize) {
                *word |= 1 << (at % 64);
            }
        }
    }

    /// Blocks that still cannot be read.
    pub(super) fn left(&self) -> u64 {
        self.blocks - self.cleared.iter().map(|word| u64::from(word.count_ones())).sum::<u64>()
    }
}
