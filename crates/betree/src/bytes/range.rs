//! Ranges of keys, and sets of them.

use std::ops::{Bound, RangeBounds};

use crate::bytes::wire::{Malformed, Reader, put_bytes, put_varint};
use crate::mutant::{Mutant, mutated};

/// Which way a cursor goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// To greater keys.
    Forward,
    /// To lesser keys.
    Backward,
}

impl Direction {
    pub fn opposite(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }
}

/// An owned key.
pub(crate) type Key = Box<[u8]>;

/// The keys from `start` up to but without `end`; without an end: all from `start`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyRange {
    pub start: Key,
    pub end: Option<Key>,
}

/// The least key that is greater than `key`.
pub(crate) fn successor(key: &[u8]) -> Key {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}

/// Whether the end `a` is before the end `b`, where none is the farthest.
pub(crate) fn end_before(a: Option<&[u8]>, b: Option<&[u8]>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a < b,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

impl KeyRange {
    pub const fn new(start: Key, end: Option<Key>) -> Self {
        Self { start, end }
    }

    /// Every key.
    pub fn all() -> Self {
        Self { start: Key::default(), end: None }
    }

    /// From any of Rust's ranges.
    pub fn of<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(key) => key.as_ref().into(),
            Bound::Excluded(key) => successor(key.as_ref()),
            Bound::Unbounded => Key::default(),
        };
        let end = match range.end_bound() {
            Bound::Included(key) => Some(successor(key.as_ref())),
            Bound::Excluded(key) => Some(key.as_ref().into()),
            Bound::Unbounded => None,
        };
        Self { start, end }
    }

    /// The keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while end.last() == Some(&0xff) {
            end.pop();
        }
        let end = end.last_mut().map(|last| *last += 1).is_some().then_some(end);
        Self { start: prefix.into(), end: end.map(Into::into) }
    }

    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        let before = |end: &Key| *key < **end || (mutated(Mutant::RangeEndInclusive) && *key == **end);
        *self.start <= *key && self.end.as_ref().is_none_or(before)
    }

    /// The keys in both.
    pub fn intersection(&self, other: &Self) -> Self {
        let start = self.start.clone().max(other.start.clone());
        let end = if end_before(self.end.as_deref(), other.end.as_deref()) { &self.end } else { &other.end };
        Self { start, end: end.clone() }
    }

    /// Whether every key of `other` is in it.
    pub fn covers(&self, other: &Self) -> bool {
        other.is_empty() || (self.start <= other.start && !end_before(self.end.as_deref(), other.end.as_deref()))
    }
}

/// Ranges in ascending order that neither overlap nor touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct RangeSet {
    ranges: Vec<KeyRange>,
}

impl RangeSet {
    /// The keys of one range.
    pub fn of(range: &KeyRange) -> Self {
        let mut set = Self::default();
        set.push(range.clone());
        set
    }

    /// All keys but those of `range`.
    pub fn outside(range: &KeyRange) -> Self {
        let mut outside = Self::default();
        outside.push(KeyRange::new(Key::default(), Some(range.start.clone())));
        if let Some(end) = &range.end {
            outside.push(KeyRange::new(end.clone().max(range.start.clone()), None));
        }
        outside
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &KeyRange> {
        self.ranges.iter()
    }

    /// The first range that ends behind `key`.
    fn at(&self, key: &[u8]) -> usize {
        self.ranges.partition_point(|range| range.end.as_ref().is_some_and(|end| **end <= *key))
    }

    /// Whether a range has the key.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.ranges.get(self.at(key)).is_some_and(|range| range.contains(key))
    }

    /// Whether one range has all keys of `range`.
    pub fn covers(&self, range: &KeyRange) -> bool {
        range.is_empty() || self.ranges.get(self.at(&range.start)).is_some_and(|own| own.covers(range))
    }

    /// Whether a range shares a key with `range`.
    pub fn intersects(&self, range: &KeyRange) -> bool {
        !range.is_empty()
            && self.ranges.get(self.at(&range.start)).is_some_and(|own| !own.intersection(range).is_empty())
    }

    /// The keys that are in `range` as well.
    pub fn clip(&self, range: &KeyRange) -> Self {
        let from = self.ranges.get(self.at(&range.start)..).unwrap_or_default();
        let clipped = from.iter().map(|own| own.intersection(range)).take_while(|own| !own.is_empty());
        Self { ranges: clipped.collect() }
    }

    /// The keys that are in `other` as well.
    pub fn within(&self, other: &Self) -> Self {
        let mut within = Self::default();
        other.iter().for_each(|range| within.extend(&self.clip(range)));
        within
    }

    /// Adds the keys of `range`.
    #[cfg(test)]
    pub fn insert(&mut self, range: KeyRange) {
        if range.is_empty() {
            return;
        }
        // Those that overlap or touch: from the first that ends at or behind the start, to the last that begins at or
        // before the end.
        let first = self.ranges.partition_point(|own| own.end.as_ref().is_some_and(|end| *end < range.start));
        let end = match &range.end {
            Some(end) => self.ranges.partition_point(|own| own.start <= *end),
            None => self.ranges.len(),
        };
        let mut merged = range;
        for own in self.ranges.get(first..end).unwrap_or_default() {
            merged.start = merged.start.min(own.start.clone());
            if end_before(merged.end.as_deref(), own.end.as_deref()) {
                merged.end.clone_from(&own.end);
            }
        }
        self.ranges.splice(first..end.max(first), [merged]);
    }

    /// Adds a range that begins at or behind the beginning of every other.
    pub fn push(&mut self, range: KeyRange) {
        match self.ranges.last_mut() {
            _ if range.is_empty() => {}
            Some(last) if last.end.as_ref().is_none_or(|end| *end >= range.start) => {
                if end_before(last.end.as_deref(), range.end.as_deref()) {
                    last.end = range.end;
                }
            }
            _ => self.ranges.push(range),
        }
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: &Self) {
        if let ([], _) | (_, []) = (&self.ranges[..], &other.ranges[..]) {
            self.ranges.extend_from_slice(&other.ranges);
            return;
        }
        let (own, mut other) = (std::mem::take(&mut self.ranges), other.ranges.iter().peekable());
        for range in own {
            while let Some(before) = other.next_if(|one| one.start <= range.start) {
                self.push(before.clone());
            }
            self.push(range);
        }
        other.for_each(|range| self.push(range.clone()));
    }

    /// Bytes of its keys, and of what belongs to them in memory or encoded.
    pub fn bytes(&self) -> usize {
        self.ranges.iter().map(|range| range.start.len() + range.end.as_ref().map_or(0, |end| end.len()) + 48).sum()
    }

    pub fn encode(&self, to: &mut Vec<u8>) {
        put_varint(to, self.ranges.len() as u64);
        for range in &self.ranges {
            put_bytes(to, &range.start);
            to.push(u8::from(range.end.is_some()));
            if let Some(end) = &range.end {
                put_bytes(to, end);
            }
        }
    }

    pub fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut ranges: Vec<KeyRange> = Vec::new();
        for _ in 0..from.count(2)? {
            let start: Key = from.bytes()?.into();
            let end: Option<Key> = if from.u8()? == 0 { None } else { Some(from.bytes()?.into()) };
            let range = KeyRange { start, end };
            let apart = ranges.last().is_none_or(|last| last.end.as_ref().is_some_and(|end| *end < range.start));
            if range.is_empty() || !apart {
                return Err(Malformed("ranges are empty or out of order"));
            }
            ranges.push(range);
        }
        Ok(Self { ranges })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn key(number: u8) -> Key {
        Box::new([number])
    }

    fn range(start: u8, end: u8) -> KeyRange {
        KeyRange { start: key(start), end: (end < 40).then(|| key(end)) }
    }

    proptest! {
        #[test]
        fn a_set_of_ranges_is_a_set_of_keys(ranges in prop::collection::vec((0u8..40, 0u8..44), 0..12), probe in (0u8..40, 0u8..44)) {
            let (mut set, mut model) = (RangeSet::default(), BTreeSet::new());
            for (start, end) in ranges {
                set.insert(range(start, end));
                model.extend(start..if end < 40 { end } else { 60 });
            }
            for number in 0..60 {
                prop_assert_eq!(set.contains(&[number]), model.contains(&number));
            }
            for pair in set.ranges.windows(2) {
                prop_assert!(pair[0].end.as_ref().unwrap() < &pair[1].start);
            }
            let probed: BTreeSet<u8> = (probe.0..if probe.1 < 40 { probe.1 } else { 60 }).collect();
            let probe = range(probe.0, probe.1);
            // Between two numbers of one byte there are longer keys, so touching ranges are one.
            prop_assert_eq!(set.covers(&probe), probed.is_subset(&model));
            prop_assert_eq!(set.intersects(&probe), !probed.is_disjoint(&model));
            let clipped = set.clip(&probe);
            let mut both = RangeSet::default();
            both.insert(range(5, 9));
            both.insert(range(30, 33));
            both.extend(&set);
            for number in 0..60 {
                let own = (5..9).contains(&number) || (30..33).contains(&number);
                prop_assert_eq!(both.contains(&[number]), own || model.contains(&number));
            }
            prop_assert!(both.ranges.windows(2).all(|pair| pair[0].end.as_ref().unwrap() < &pair[1].start));
            for number in 0..60 {
                prop_assert_eq!(clipped.contains(&[number]), model.contains(&number) && probed.contains(&number));
            }
            let mut bytes = Vec::new();
            set.encode(&mut bytes);
            prop_assert_eq!(RangeSet::decode(&mut Reader::new(&bytes)).unwrap(), set);
        }

        #[test]
        fn prefixes(prefix in prop::collection::vec(prop_oneof![Just(0u8), Just(7), Just(255)], 0..4), key in prop::collection::vec(prop_oneof![Just(0u8), Just(7), Just(8), Just(255)], 0..6)) {
            prop_assert_eq!(KeyRange::prefix(&prefix).contains(&key), key.starts_with(&prefix));
        }

        #[test]
        fn any_bytes_are_a_set_or_an_error(bytes: Vec<u8>) {
            let _ = RangeSet::decode(&mut Reader::new(&bytes));
        }
    }
}
