//! Sets of dies.

/// A set of dies, searched round-robin.
pub(super) struct DieSet {
    words: Vec<u64>,
    dies: u32,
}

impl DieSet {
    pub fn new(dies: u32) -> Self {
        Self { words: vec![0; dies.div_ceil(64) as usize], dies }
    }

    pub fn put(&mut self, die: u32, member: bool) {
        let word = &mut self.words[die as usize / 64];
        let bit = 1 << (die % 64);
        *word = if member { *word | bit } else { *word & !bit };
    }

    /// The first member at or after `from`, going round once.
    pub fn next_from(&self, from: u32) -> Option<u32> {
        self.scan(from, self.dies).or_else(|| self.scan(0, from))
    }

    fn scan(&self, from: u32, to: u32) -> Option<u32> {
        let mut at = from;
        while at < to {
            let word = self.words[at as usize / 64] >> (at % 64);
            if word != 0 {
                let found = at + word.trailing_zeros();
                return (found < to).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dies_are_found_in_turn() {
        let mut set = DieSet::new(130);
        assert_eq!(set.next_from(5), None);
        for die in [3, 64, 129] {
            set.put(die, true);
        }
        let next = |from| set.next_from(from);
        assert_eq!([next(0), next(3), next(4), next(65), next(129)], [3, 3, 64, 129, 129].map(Some));
        set.put(129, false);
        assert_eq!(set.next_from(65), Some(3));
    }
}
