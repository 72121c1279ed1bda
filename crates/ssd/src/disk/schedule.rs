//! Which of the waiting commands the arm serves next.

use units::Nanos;

use super::config::DiskScheduler;
use super::mechanism::Mechanism;

/// A command that has waited this long goes first, whatever its place: without
/// it, shortest-positioning-first starves far blocks. Hosts give a command 30 s.
const AGE_LIMIT: Nanos = Nanos::from_secs(2);

/// What the choice looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// First block.
    pub block: u64,
    /// Whether it writes.
    pub write: bool,
    /// When it began to wait.
    pub since: Nanos,
}

/// The index of the candidate to serve; `None` when there is none.
pub(super) fn choose(
    policy: DiskScheduler,
    mechanism: &Mechanism,
    now: Nanos,
    candidates: impl Iterator<Item = Candidate>,
) -> Option<usize> {
    let from = mechanism.block();
    candidates
        .enumerate()
        .min_by_key(|(index, candidate)| {
            let overdue = now.since(candidate.since) > AGE_LIMIT;
            let rank = match policy {
                _ if overdue => candidate.since.0,
                DiskScheduler::ShortestPositioning => {
                    mechanism.positioning(candidate.block, candidate.write, now).total().0
                }
                // Blocks behind the arm come after all those ahead.
                DiskScheduler::Elevator => candidate.block.wrapping_sub(from),
            };
            (!overdue, rank, *index)
        })
        .map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::super::config::tests::small_disk;
    use super::*;

    fn candidates(blocks: &[u64], since: Nanos) -> impl Iterator<Item = Candidate> {
        blocks.iter().map(move |&block| Candidate { block, write: false, since })
    }

    #[test]
    fn the_elevator_goes_up_and_starts_again() {
        let mut mechanism = Mechanism::new(&small_disk()).unwrap();
        mechanism.move_to(1000);
        let blocks = [10, 900, 5000, 1_000_000];
        let pick = |mechanism: &Mechanism, blocks: &[u64]| {
            choose(DiskScheduler::Elevator, mechanism, Nanos::ZERO, candidates(blocks, Nanos::ZERO))
        };
        assert_eq!(pick(&mechanism, &blocks), Some(2));
        assert_eq!(pick(&mechanism, &blocks[..2]), Some(0));
        assert_eq!(pick(&mechanism, &[]), None);
    }

    #[test]
    fn shortest_positioning_takes_the_cheapest_unless_one_is_overdue() {
        let mechanism = Mechanism::new(&small_disk()).unwrap();
        let blocks: Vec<u64> = (0..32).map(|index| index * 50_021 % 1_900_000).collect();
        let policy = DiskScheduler::ShortestPositioning;
        let chosen = choose(policy, &mechanism, Nanos::ZERO, candidates(&blocks, Nanos::ZERO)).unwrap();
        let cost = |index: usize| mechanism.positioning(blocks[index], false, Nanos::ZERO).total();
        assert!((0..blocks.len()).all(|other| cost(chosen) <= cost(other)));
        let late = AGE_LIMIT * 2;
        let mixed = [
            Candidate { block: 10, write: false, since: late },
            Candidate { block: 1_900_000, write: false, since: Nanos(5) },
        ];
        assert_eq!(choose(policy, &mechanism, late, mixed.into_iter()), Some(1));
    }
}
