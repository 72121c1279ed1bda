//! Power cuts while serving: which undecided writes survive.

use crash::order::Missing;
use crash::{Choice, Survivors};
use serde::{Deserialize, Serialize};
use ssd::VolatileWrite;

/// Which of the undecided writes (see [`ssd::PowerCut`]) a power cut leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Survival {
    /// None: the cache is empty and nothing of it reached the media.
    #[default]
    None,
    /// All: as if the cut had come a moment later.
    All,
    /// By lot, as [`crash::Choice`] draws for all who ask a device: all but one, one alone, the oldest, or any.
    Random {
        /// The same seed and the same writes give the same choice.
        seed: u64,
    },
    /// The oldest so many: what writing back in order leaves.
    Prefix {
        /// How many.
        writes: u64,
    },
}

impl Survival {
    /// Which of so many undecided writes survive, oldest first.
    fn survivors(self, count: usize) -> Survivors {
        match self {
            Self::None => Choice::Nothing.of(count),
            Self::All => Choice::Everything.of(count),
            Self::Random { seed } => Choice::Lot(seed).of(count),
            Self::Prefix { writes } => Survivors::choose(count, |position| (position as u64) < writes),
        }
    }

    /// Those that survive, in their order: of writes that belong to streams, only those that have everything before them.
    pub(crate) fn choose(self, undecided: &[VolatileWrite]) -> Vec<&VolatileWrite> {
        let mut missing = Missing::default();
        let mut there = Vec::new();
        let survivors = self.survivors(undecided.len());
        for (at, write) in undecided.iter().enumerate() {
            if survivors.has(at) && missing.allows(&write.places) {
                there.push(write);
            } else {
                missing.lose(&write.places);
            }
        }
        there
    }
}

/// What a power cut did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PowerLoss {
    /// Requests that were in the device and got no answer from it.
    pub orphans: u64,
    /// Writes that might or might not have survived.
    pub undecided: u64,
    /// Of these, those that did.
    pub survived: u64,
}

#[cfg(test)]
mod tests {
    use crash::order::EpochId;
    use nvme::{Lba, NamespaceId};

    use super::*;

    fn writes(count: u64) -> Vec<VolatileWrite> {
        let write = |sequence| VolatileWrite {
            sequence,
            nsid: NamespaceId::FIRST,
            start: Lba(sequence),
            blocks: 1,
            data: None,
            places: [None, None],
        };
        (1..=count).map(write).collect()
    }

    fn chosen(survival: Survival, writes: &[VolatileWrite]) -> Vec<u64> {
        survival.choose(writes).iter().map(|write| write.sequence).collect()
    }

    #[test]
    fn later_epochs_need_the_earlier_ones() {
        let mut writes = writes(200);
        for (write, epoch) in writes.iter_mut().zip(0..) {
            write.places[0] = (epoch % 2 == 0).then_some(EpochId { stream: 1, epoch, is_late: false });
        }
        for seed in 0..50 {
            let there = chosen(Survival::Random { seed }, &writes);
            let (ordered, others): (Vec<u64>, Vec<u64>) = there.iter().partition(|sequence| *sequence % 2 == 1);
            assert!(ordered.iter().zip(0..).all(|(found, at)| *found == 2 * at + 1), "{ordered:?}");
            assert!(others.len() <= 100);
        }
        assert_eq!(chosen(Survival::All, &writes).len(), 200);
    }

    #[test]
    fn each_choice() {
        let writes = writes(1000);
        assert!(chosen(Survival::None, &writes).is_empty());
        assert_eq!(chosen(Survival::All, &writes).len(), 1000);
        assert_eq!(chosen(Survival::Prefix { writes: 3 }, &writes), [1, 2, 3]);
        assert_eq!(chosen(Survival::Prefix { writes: u64::MAX }, &writes).len(), 1000);
        // As everybody else's lot: an arbitrary half is one of its kinds.
        let mut counts = std::collections::BTreeSet::new();
        for seed in 0..64 {
            let random = chosen(Survival::Random { seed }, &writes);
            let lot = Choice::Lot(seed).of(1000);
            let expected: Vec<u64> = (0..1000).filter(|at| lot.has(*at)).map(|at| at as u64 + 1).collect();
            assert_eq!(random, expected);
            counts.insert(random.len());
        }
        assert!(counts.contains(&1) && counts.contains(&999), "{counts:?}");
        assert!(counts.iter().any(|count| (420..580).contains(count)), "{counts:?}");
    }
}
