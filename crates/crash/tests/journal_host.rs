//! A host that commits as a journaling file system does on a device that keeps order, played into a log: every state that a power
//! cut may leave is recovered and judged. Hosts that do one thing wrong, and a device that ignores order, are found out.

#![allow(clippy::unwrap_used)]

#[path = "support/journal.rs"]
mod journal;

use crash::{Amount, Rule, Streams, VolatileCache};
use journal::{BLOCK, Host, Mistake, Played, Policy};

/// A transaction has six blocks.
const ALL: Amount = Amount::Exhaustive { parts_max: 8 };

/// How many states of some rule are bad, and how many there were.
fn judge(played: &Played, rule: &impl Rule) -> (usize, usize) {
    let (mut bad, mut all) = (0, 0);
    played.each_state(rule, ALL, |verdict| {
        bad += usize::from(verdict.is_err());
        all += 1;
    });
    (bad, all)
}

#[test]
fn order_keeps_every_commit_whole() {
    for policy in [Policy::Pinned, Policy::Counted] {
        let played = Host { policy, transactions: 12, mistake: None, seed: 1 }.play();
        let (bad, all) = judge(&played, &Streams::new(BLOCK));
        assert!(bad == 0 && all > 300, "{policy:?}: {bad} of {all}");
        // The same commands on a device that takes them and keeps no order.
        let (bad, all) = judge(&played, &VolatileCache::default());
        assert!(bad > 0, "{policy:?}: {bad} of {all}");
    }
}

#[test]
fn every_mistake_is_found_out() {
    for (policy, mistake) in [
        (Policy::Counted, Mistake::NoMinorStream),
        (Policy::Counted, Mistake::CommitBeforeDescriptor),
        (Policy::Counted, Mistake::CloseOnFirstFragment),
        (Policy::Pinned, Mistake::CloseOnFirstFragment),
        (Policy::Counted, Mistake::MergeAcrossTuples),
        (Policy::Counted, Mistake::FlushBeforeDataCompletes),
        (Policy::Counted, Mistake::NoOrderAtAll),
        (Policy::Pinned, Mistake::Unpinned),
    ] {
        let played = Host { policy, transactions: 12, mistake: Some(mistake), seed: 1 }.play();
        let (bad, all) = judge(&played, &Streams::new(BLOCK));
        assert!(bad > 0 && all < 10_000, "{policy:?} with {mistake:?}: {bad} of {all}");
    }
}

/// Lost parts are given back as far as the state stays bad, and only to states that the device may leave.
#[test]
fn a_bad_state_is_made_small() {
    let played =
        Host { policy: Policy::Counted, transactions: 6, mistake: Some(Mistake::NoMinorStream), seed: 1 }.play();
    let smallest = played.smallest(&Streams::new(BLOCK), ALL).unwrap();
    // One block of data, without which its commit record means nothing.
    assert_eq!(smallest, 1);
}
