//! Who makes progress, and who holds a place without.
//!
//! Two questions are asked of a client. Has it left what it owes undone for too long? And if all places are taken
//! and somebody new is at the door, whose place is the cheapest to give away? Neither must hit a client that is
//! slow and honest: one that moves bytes, however few at a time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use units::Nanos;

/// Bytes that count as progress in a message that is not complete. A client that sends (or takes) fewer in the time
/// that it has for them is stalling: one byte a minute would hold a place for ever.
const STEP_BYTES: usize = 256;

/// When a client last did something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// When bytes last went either way.
    moved_at: Nanos,
    /// Since when the client owes something without having made progress in it.
    owes_since: Option<Nanos>,
    /// Bytes that have gone either way since then.
    bytes: usize,
}

impl Pace {
    pub(crate) fn new(now: Nanos) -> Self {
        Self { moved_at: now, owes_since: None, bytes: 0 }
    }

    /// Bytes went either way.
    pub(crate) fn moved(&mut self, now: Nanos, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.moved_at = now;
        self.bytes += bytes;
        if self.bytes >= STEP_BYTES {
            self.advanced(now);
        }
    }

    /// A message is complete.
    pub(crate) fn advanced(&mut self, now: Nanos) {
        self.bytes = 0;
        self.owes_since = self.owes_since.map(|_| now);
    }

    /// Whether the client owes something now.
    pub(crate) fn owes(&mut self, now: Nanos, owes: bool) {
        match (owes, self.owes_since) {
            (true, None) => (self.owes_since, self.bytes) = (Some(now), 0),
            (false, Some(_)) => self.owes_since = None,
            _ => {}
        }
    }

    /// When bytes last went either way.
    pub(crate) fn moved_at(&self) -> Nanos {
        self.moved_at
    }

    /// When a client that may stall for `stall` has to have gone on.
    pub(crate) fn deadline(&self, stall: Nanos) -> Option<Nanos> {
        self.owes_since.map(|since| since + stall)
    }

    /// Since when it has stood still in a message, if it does.
    pub(crate) fn owes_since(&self) -> Option<Nanos> {
        self.owes_since
    }
}

/// How cheap a client's place is, cheapest first; of the same kind, the one that has waited longest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Cheapness {
    kind: Kind,
    since: Nanos,
}

/// What a client has not done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// Said who it is.
    Unknown,
    /// Proved that it is who it says.
    Unproved,
    /// Gone on with a message, or taken its replies, for a moment.
    Stands,
    /// Asked for anything.
    Unasking,
    /// Gone on as fast as would be progress.
    Trickles,
    /// Asked for anything for long.
    Idle,
}

/// How long a client of each kind keeps its place, whoever waits. A client that has just come is about to do what it
/// has not done.
const fn grace(kind: Kind) -> Nanos {
    match kind {
        Kind::Unknown | Kind::Unproved => Nanos::ZERO,
        Kind::Stands | Kind::Unasking => Nanos::from_secs(1),
        Kind::Trickles => Nanos::from_secs(5),
        Kind::Idle => Nanos::from_secs(60),
    }
}

impl Cheapness {
    /// Of a client that has not done it since then; `None` where that is not for long enough.
    pub(crate) fn of(kind: Kind, since: Nanos, now: Nanos) -> Option<Self> {
        (now.since(since) >= grace(kind)).then_some(Self { kind, since })
    }

    /// What the log says of a client that had to go.
    pub(crate) fn reason(self) -> &'static str {
        match self.kind {
            Kind::Unknown => "made room for another client, as it had not said who it is",
            Kind::Unproved => "made room for another client, as it had not authenticated",
            Kind::Stands => "made room for another client, as it stood still in the middle of a message",
            Kind::Unasking => "made room for another client, as it had never asked for anything",
            Kind::Trickles => "made room for another client, as it went on too slowly with a message",
            Kind::Idle => "made room for another client, as it had long asked for nothing",
        }
    }
}

/// Whether a place is one of a client that has only come, and not shown that it may be here.
fn has_only_come(cheapness: &Cheapness) -> bool {
    matches!(cheapness.kind, Kind::Unknown | Kind::Unproved)
}

/// The one whose place is the cheapest.
///
/// Clients that have only come are told apart by where they came from first: the one that goes is of the source that
/// has the most of them, so that a flood from one address takes its own places and not that of somebody else who is
/// about to say who it is.
pub(crate) fn cheapest<I, S: Ord + Copy>(
    candidates: impl Iterator<Item = (I, S, Cheapness)>,
) -> Option<(I, Cheapness)> {
    let candidates: Vec<(I, S, Cheapness)> = candidates.collect();
    let mut come: BTreeMap<S, usize> = BTreeMap::new();
    for (_, source, _) in candidates.iter().filter(|(_, _, cheapness)| has_only_come(cheapness)) {
        *come.entry(*source).or_default() += 1;
    }
    let key = |(_, source, cheapness): &(I, S, Cheapness)| {
        let only_come = has_only_come(cheapness);
        let crowd = come.get(source).filter(|_| only_come).copied().unwrap_or(0);
        (!only_come, Reverse(crowd), *cheapness)
    };
    candidates.into_iter().min_by_key(key).map(|(which, _, cheapness)| (which, cheapness))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Nanos = Nanos::from_secs(60);

    #[test]
    fn a_byte_a_minute_is_no_progress_and_a_slow_line_is() {
        let mut trickle = Pace::new(Nanos::ZERO);
        let mut slow = trickle;
        trickle.owes(Nanos::ZERO, true);
        slow.owes(Nanos::ZERO, true);
        for second in 1..60 {
            let now = Nanos::from_secs(second);
            trickle.moved(now, 1);
            slow.moved(now, 10);
            trickle.owes(now, true);
            slow.owes(now, true);
            assert!(slow.deadline(STALL).unwrap() > now);
        }
        assert_eq!(trickle.deadline(STALL), Some(STALL));
    }

    #[test]
    fn idle_clients_owe_nothing() {
        let mut client = Pace::new(Nanos::ZERO);
        assert_eq!(client.deadline(STALL), None);
        // The time of being idle does not count when a message begins.
        client.moved(Nanos::from_secs(5000), 10);
        client.owes(Nanos::from_secs(5000), true);
        assert_eq!(client.deadline(STALL), Some(Nanos::from_secs(5060)));
        client.advanced(Nanos::from_secs(5030));
        assert_eq!(client.deadline(STALL), Some(Nanos::from_secs(5090)));
        client.owes(Nanos::from_secs(5031), false);
        assert_eq!(client.deadline(STALL), None);
    }

    #[test]
    fn who_goes_first() {
        let now = Nanos::from_secs(100);
        let of = |kind, since| Cheapness::of(kind, Nanos::from_secs(since), now);
        assert_eq!(of(Kind::Idle, 41), None, "an idle client keeps its place for a while");
        assert_eq!(of(Kind::Stands, 100), None, "a client that goes on keeps it");
        let order = [of(Kind::Unknown, 99), of(Kind::Unproved, 50), of(Kind::Unproved, 60), of(Kind::Stands, 10)];
        let order = order.into_iter().flatten().chain(of(Kind::Idle, 1)).collect::<Vec<_>>();
        assert_eq!(order.len(), 5);
        assert!(order.is_sorted());
        let candidates = order.iter().rev().map(|cheapness| (*cheapness, (), *cheapness));
        assert_eq!(cheapest(candidates), Some((order[0], order[0])));
    }

    #[test]
    fn a_flood_from_one_address_takes_its_own_places() {
        let now = Nanos::from_secs(100);
        let of = |kind, since| Cheapness::of(kind, Nanos::from_secs(since), now).unwrap();
        // Somebody else came first, and is about to say who it is; some of the flood has done so.
        let mut places = vec![("honest", 1, of(Kind::Unknown, 10)), ("idle", 2, of(Kind::Idle, 1))];
        places.extend((0..6).map(|index| ("flood", 3, of(Kind::Unproved, 50 + index))));
        for _ in 0..5 {
            let (who, cheapness) = cheapest(places.iter().copied()).unwrap();
            assert_eq!(who, "flood");
            places.retain(|place| *place != (who, 3, cheapness));
        }
        // One place each: whoever has said nothing goes first, and last who has come to work.
        assert_eq!(cheapest(places.iter().copied()).unwrap().0, "honest");
        places.retain(|place| place.0 != "honest");
        assert_eq!(cheapest(places.iter().copied()).unwrap().0, "flood");
        places.retain(|place| place.0 != "flood");
        assert_eq!(cheapest(places.into_iter()).unwrap().0, "idle");
    }
}
