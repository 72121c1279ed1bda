//! The fewest lost writes with which a state is still bad.

use crate::states::Survivors;

/// What is left of a bad state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shrunk {
    /// The parts that are there; those that are lost are enough.
    pub survivors: Survivors,
    /// How many states were judged on the way.
    pub judged: usize,
    /// Whether every single lost part was tried to be given back: then none of them can be.
    pub minimal: bool,
}

/// Gives lost parts back as long as the state stays bad: halves first, then smaller and smaller groups, then each by itself (delta
/// debugging: Zeller and Hildebrandt, *Simplifying and Isolating Failure-Inducing Input*, TSE 2002). `groups` are parts that go
/// together, such as those of one write: they are tried whole before they are taken apart. At most `judged_max` states are judged.
pub fn shrink(
    bad: &Survivors,
    groups: &[std::ops::Range<usize>],
    judged_max: usize,
    mut is_bad: impl FnMut(&Survivors) -> bool,
) -> Shrunk {
    let mut judged = 0;
    let mut lost: Vec<Vec<usize>> =
        groups.iter().map(|group| group.clone().filter(|part| !bad.has(*part)).collect()).collect();
    lost.retain(|group: &Vec<usize>| !group.is_empty());
    let mut minimal = reduce(bad.parts(), &mut lost, judged_max, &mut judged, &mut is_bad);
    if minimal {
        let mut parts: Vec<Vec<usize>> = lost.iter().flatten().map(|part| vec![*part]).collect();
        if parts.len() > lost.len() {
            minimal = reduce(bad.parts(), &mut parts, judged_max, &mut judged, &mut is_bad);
        }
        lost = parts;
    }
    Shrunk { survivors: without(bad.parts(), &lost), judged, minimal }
}

/// All parts but these.
fn without(parts: usize, lost: &[Vec<usize>]) -> Survivors {
    let mut gone = vec![false; parts];
    for part in lost.iter().flatten() {
        if let Some(gone) = gone.get_mut(*part) {
            *gone = true;
        }
    }
    Survivors::choose(parts, |part| !gone.get(part).copied().unwrap_or(false))
}

/// Takes groups away while the rest is still bad; whether it came to its end.
fn reduce(
    parts: usize,
    lost: &mut Vec<Vec<usize>>,
    judged_max: usize,
    judged: &mut usize,
    is_bad: &mut impl FnMut(&Survivors) -> bool,
) -> bool {
    let mut size = lost.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let mut any = false;
        while at < lost.len() {
            if *judged >= judged_max {
                return false;
            }
            let mut fewer = lost.clone();
            fewer.drain(at..(at + size).min(lost.len()));
            *judged += 1;
            if is_bad(&without(parts, &fewer)) {
                *lost = fewer;
                any = true;
            } else {
                at += size;
            }
        }
        if size == 1 && !any {
            return true;
        }
        if size > 1 {
            size = size.div_ceil(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A state is bad when all of `needed` are lost: then exactly these are left.
        #[test]
        fn what_is_left_is_what_is_needed(
            lost in proptest::collection::btree_set(0..60_usize, 1..40),
            needed in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
            width in 1..9_usize,
        ) {
            let all: Vec<usize> = lost.iter().copied().collect();
            let needed: std::collections::BTreeSet<usize> = needed.iter().map(|index| *index.get(&all)).collect();
            let bad = Survivors::choose(60, |part| !lost.contains(&part));
            let groups: Vec<_> = (0..60).step_by(width).map(|first| first..(first + width).min(60)).collect();
            let shrunk = shrink(&bad, &groups, 10_000, |survivors| needed.iter().all(|part| !survivors.has(*part)));
            prop_assert!(shrunk.minimal);
            let left: std::collections::BTreeSet<usize> = (0..60).filter(|part| !shrunk.survivors.has(*part)).collect();
            prop_assert_eq!(left, needed);
        }
    }

    #[test]
    fn it_ends_where_it_is_told_to() {
        let bad = Survivors::choose(1000, |_| false);
        let shrunk = shrink(&bad, &[0..500, 500..1000], 7, |survivors| !survivors.has(500) && !survivors.has(2));
        assert!(shrunk.judged <= 7 && !shrunk.minimal);
        assert!(!shrunk.survivors.has(500) && !shrunk.survivors.has(2));
    }
}
