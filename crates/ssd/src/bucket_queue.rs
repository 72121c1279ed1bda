//! Keys in ascending order, most of which lie a short time ahead: a calendar queue
//! (R. Brown, "Calendar queues", Communications of the ACM 31, 1988) of one year,
//! with a heap for what lies beyond it.
//!
//! A heap moves a key through as many levels as the logarithm of its size, and
//! mispredicts a branch at most of them; a device has some hundred events pending,
//! and every I/O some four.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A time in nanoseconds in the upper half; what orders keys of one time in the lower.
pub(crate) type Key = u128;

/// log2 of the nanoseconds that share a bucket.
const WIDTH_BITS: u32 = 8;
/// Buckets: together 262 us, more than a read takes on most flash.
const BUCKETS: usize = 1024;
const WORDS: usize = BUCKETS / 64;
const NOTHING: u32 = u32::MAX;

/// Keys, smallest first.
pub(crate) struct BucketQueue {
    /// What lies before `next_bucket`: never empty while anything is queued.
    near: BinaryHeap<Reverse<Key>>,
    /// The number of the first bucket that is not near, counted from time 0.
    next_bucket: u64,
    /// The first node of each bucket from `next_bucket` on, at its number modulo
    /// `BUCKETS`; and which have one.
    heads: Box<[u32; BUCKETS]>,
    occupied: [u64; WORDS],
    nodes: Vec<Node>,
    free: u32,
    /// Keys in buckets.
    in_buckets: usize,
    /// What lay beyond the last bucket when it was queued.
    far: BinaryHeap<Reverse<Key>>,
}

#[derive(Clone, Copy)]
struct Node {
    key: Key,
    next: u32,
}

impl Default for BucketQueue {
    fn default() -> Self {
        Self {
            near: BinaryHeap::new(),
            next_bucket: 0,
            heads: Box::new([NOTHING; BUCKETS]),
            occupied: [0; WORDS],
            nodes: Vec::new(),
            free: NOTHING,
            in_buckets: 0,
            far: BinaryHeap::new(),
        }
    }
}

#[inline]
fn bucket_of(key: Key) -> u64 {
    (key >> (64 + WIDTH_BITS)) as u64
}

impl BucketQueue {
    /// Queues a key.
    #[inline]
    pub fn push(&mut self, key: Key) {
        let bucket = bucket_of(key);
        if self.near.is_empty() {
            // Nothing is queued at all.
            self.next_bucket = bucket + 1;
        }
        match bucket.checked_sub(self.next_bucket) {
            None => self.near.push(Reverse(key)),
            Some(ahead) if ahead < BUCKETS as u64 => self.put(bucket, key),
            Some(_) => self.far.push(Reverse(key)),
        }
    }

    #[inline]
    fn put(&mut self, bucket: u64, key: Key) {
        let at = bucket as usize % BUCKETS;
        let node = Node { key, next: self.heads[at] };
        self.heads[at] = if self.free == NOTHING {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let place = self.free;
            self.free = std::mem::replace(&mut self.nodes[place as usize], node).next;
            place
        };
        self.occupied[at / 64] |= 1 << (at % 64);
        self.in_buckets += 1;
    }

    /// The smallest key.
    #[inline]
    pub fn first(&self) -> Option<Key> {
        self.near.peek().map(|Reverse(key)| *key)
    }

    /// Takes the smallest key out.
    #[inline]
    pub fn pop(&mut self) -> Option<Key> {
        let Reverse(key) = self.near.pop()?;
        if self.near.is_empty() && (self.in_buckets > 0 || !self.far.is_empty()) {
            self.bring_near();
        }
        Some(key)
    }

    /// Makes the next bucket that holds anything near.
    fn bring_near(&mut self) {
        let bucketed = self.first_occupied();
        let far = self.far.peek().map(|Reverse(key)| bucket_of(*key));
        let Some(bucket) = bucketed.into_iter().chain(far).min() else { return };
        if bucketed == Some(bucket) {
            let at = bucket as usize % BUCKETS;
            let mut place = std::mem::replace(&mut self.heads[at], NOTHING);
            self.occupied[at / 64] &= !(1 << (at % 64));
            while place != NOTHING {
                let node = &mut self.nodes[place as usize];
                self.near.push(Reverse(node.key));
                let next = std::mem::replace(&mut node.next, self.free);
                self.free = place;
                place = next;
                self.in_buckets -= 1;
            }
        }
        while let Some(Reverse(key)) = self.far.peek()
            && bucket_of(*key) == bucket
        {
            self.near.push(Reverse(*key));
            self.far.pop();
        }
        self.next_bucket = bucket + 1;
    }

    /// The number of the first bucket that holds anything.
    #[inline]
    fn first_occupied(&self) -> Option<u64> {
        if self.in_buckets == 0 {
            return None;
        }
        let start = self.next_bucket as usize % BUCKETS;
        let (word, bit) = (start / 64, start % 64);
        let mut bits = self.occupied[word] & (u64::MAX << bit);
        // Once round, and what lies before the start in its own word.
        for step in 0..=WORDS {
            let at = (word + step) % WORDS;
            if step > 0 {
                bits = self.occupied[at];
            }
            if bits != 0 {
                let found = at * 64 + bits.trailing_zeros() as usize;
                let ahead = (found + BUCKETS - start) % BUCKETS;
                return Some(self.next_bucket + ahead as u64);
            }
        }
        None
    }

    /// Forgets every key.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        /// Queue a key so far after the last one taken, or so far before it.
        After(u64),
        Before(u64),
        Pop,
    }

    fn op() -> impl Strategy<Value = Op> {
        let span = prop_oneof![
            Just(0),
            0..300_u64,
            0..100_000_u64,
            (BUCKETS as u64) * 250..(BUCKETS as u64) * 260,
            0..u64::from(u32::MAX),
            Just(u64::MAX / 2),
        ];
        prop_oneof![5 => span.prop_map(Op::After), 1 => (0..5_000_u64).prop_map(Op::Before), 5 => Just(Op::Pop)]
    }

    proptest! {
        /// Against a heap.
        #[test]
        fn keys_come_in_order(ops in prop::collection::vec(op(), 1..600)) {
            let (mut queue, mut model) = (BucketQueue::default(), BinaryHeap::new());
            let mut now = 0_u64;
            for (sequence, op) in (0_u128..).zip(ops) {
                let at = match op {
                    Op::After(span) => now.saturating_add(span),
                    Op::Before(span) => now.saturating_sub(span),
                    Op::Pop => {
                        let popped = queue.pop();
                        prop_assert_eq!(popped, model.pop().map(|Reverse(key)| key));
                        now = popped.map_or(now, |key| (key >> 64) as u64);
                        prop_assert_eq!(queue.first(), model.peek().map(|Reverse(key)| *key));
                        continue;
                    }
                };
                let key = u128::from(at) << 64 | sequence;
                queue.push(key);
                model.push(Reverse(key));
                prop_assert_eq!(queue.first(), model.peek().map(|Reverse(key)| *key));
            }
            while let Some(Reverse(key)) = model.pop() {
                prop_assert_eq!(queue.pop(), Some(key));
            }
            prop_assert_eq!((queue.pop(), queue.in_buckets), (None, 0));
        }
    }

    #[test]
    fn places_are_used_again() {
        let mut queue = BucketQueue::default();
        for at in 0..100_000_u128 {
            for ahead in [300, 7_000, 90_000] {
                queue.push((at * 400 + ahead) << 64 | at);
            }
            while queue.first().is_some_and(|key| key >> 64 < at * 400) {
                queue.pop();
            }
        }
        assert!(queue.nodes.len() < 1_000, "{} nodes", queue.nodes.len());
    }
}
