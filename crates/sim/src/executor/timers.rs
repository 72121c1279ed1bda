//! Timers ordered by (time, order of setting).

use std::task::Waker;

use super::tasks::TaskId;

/// Whom a timer wakes.
///
/// Nearly every timer wakes the very task that set it; naming the task saves
/// cloning and dropping its waker.
pub(super) enum Waiter {
    Task(TaskId),
    Waker(Waker),
}

/// A timer that has been set. Stale once it fired or was cancelled.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimerKey {
    slot: u32,
    generation: u32,
}

/// A monotone radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, "Faster algorithms
/// for the shortest path problem", JACM 37(2), 1990, section 2).
///
/// The clock never goes back, so no timer is ever set before the one fired
/// last; the heap uses that. A timer lies in the bucket named by the highest
/// bit in which its time differs from `last_ns`, the time fired last. Only the
/// lowest bucket is ever split, into lower ones, so a timer moves at most once
/// per bit. Timers of one time share a bucket in the order they were set, and
/// every move keeps that order: that is the tie-break by sequence.
///
/// Cancelling leaves a tombstone; tombstones never outnumber live timers by
/// more than a constant, and never show in [`Timers::next_ns`].
pub(super) struct Timers {
    /// Time of the timer fired last.
    last_ns: u64,
    /// Timers due at `last_ns`, from `due_from` on.
    due: Vec<Entry>,
    due_from: usize,
    /// Bucket `b` holds the times whose highest bit that differs from `last_ns` is `b`.
    buckets: [Bucket; 64],
    /// Which buckets hold entries.
    occupied: u64,
    /// Which buckets' earliest entry was cancelled.
    stale_min: u64,
    /// Kept to move entries without allocating.
    scratch: Vec<Entry>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    live: usize,
    /// Cancelled entries still in a bucket, and still in `due`.
    tombstones: usize,
    due_tombstones: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    at_ns: u64,
    key: TimerKey,
}

struct Bucket {
    entries: Vec<Entry>,
    min_ns: u64,
}

struct Slot {
    generation: u32,
    at_ns: u64,
    waiter: Option<Waiter>,
}

/// Tombstones tolerated beside an equal number of live timers.
const TOMBSTONE_SLACK: usize = 64;

impl Timers {
    pub(super) fn new() -> Self {
        Self {
            last_ns: 0,
            due: Vec::new(),
            due_from: 0,
            buckets: std::array::from_fn(|_| Bucket { entries: Vec::new(), min_ns: u64::MAX }),
            occupied: 0,
            stale_min: 0,
            scratch: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            live: 0,
            tombstones: 0,
            due_tombstones: 0,
        }
    }

    /// Sets a timer. `at_ns` must not lie before a timer that fired already.
    pub(super) fn insert(&mut self, at_ns: u64, waiter: Waiter) -> TimerKey {
        debug_assert!(at_ns >= self.last_ns, "timer set at {at_ns} ns, before {} ns", self.last_ns);
        let slot = match self.free.pop() {
            Some(slot) => {
                let entry = &mut self.slots[slot as usize];
                entry.at_ns = at_ns;
                entry.waiter = Some(waiter);
                slot
            }
            None => {
                let slot = u32::try_from(self.slots.len()).unwrap_or_else(|_| panic!("more than 2^32 timers pending"));
                self.slots.push(Slot { generation: 0, at_ns, waiter: Some(waiter) });
                slot
            }
        };
        let key = TimerKey { slot, generation: self.slots[slot as usize].generation };
        self.live += 1;
        self.place(Entry { at_ns, key });
        key
    }

    /// Changes whom a timer wakes, if it has not fired; hands back the waiter
    /// that is no longer wanted.
    pub(super) fn replace_waiter(&mut self, key: TimerKey, waiter: Waiter) -> Option<Waiter> {
        let slot = &mut self.slots[key.slot as usize];
        if slot.generation == key.generation { slot.waiter.replace(waiter) } else { Some(waiter) }
    }

    /// Unsets a timer, if it has not fired, and hands back its waiter.
    pub(super) fn cancel(&mut self, key: TimerKey) -> Option<Waiter> {
        let slot = &self.slots[key.slot as usize];
        if slot.generation != key.generation {
            return None;
        }
        let at_ns = slot.at_ns;
        let waiter = self.release(key);
        self.live -= 1;
        if at_ns == self.last_ns {
            self.due_tombstones += 1;
            return waiter;
        }
        self.tombstones += 1;
        let bucket = bucket_of(at_ns, self.last_ns);
        if self.buckets[bucket].min_ns == at_ns {
            self.stale_min |= 1 << bucket;
        }
        if self.tombstones > self.live + TOMBSTONE_SLACK {
            self.sweep();
        }
        waiter
    }

    /// When the earliest timer is due.
    pub(super) fn next_ns(&mut self) -> Option<u64> {
        while let Some(entry) = self.due.get(self.due_from) {
            if self.is_live(entry.key) {
                return Some(self.last_ns);
            }
            self.due_from += 1;
            self.due_tombstones -= 1;
        }
        while self.occupied != 0 {
            let bucket = self.occupied.trailing_zeros() as usize;
            if self.stale_min & (1 << bucket) == 0 {
                return Some(self.buckets[bucket].min_ns);
            }
            self.purge(bucket);
        }
        None
    }

    /// Takes the earliest timer due at or before `now_ns`.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<Waiter> {
        loop {
            while let Some(&entry) = self.due.get(self.due_from) {
                self.due_from += 1;
                if self.due_tombstones == 0 || self.is_live(entry.key) {
                    self.live -= 1;
                    return self.release(entry.key);
                }
                self.due_tombstones -= 1;
            }
            self.due.clear();
            self.due_from = 0;
            if self.next_ns()? > now_ns {
                return None;
            }
            self.split_lowest();
        }
    }

    /// Unsets every timer and hands back the waiters, so that the caller drops
    /// them outside its borrow.
    pub(super) fn clear(&mut self) -> Vec<Waiter> {
        for bucket in &mut self.buckets {
            bucket.entries.clear();
            bucket.min_ns = u64::MAX;
        }
        self.due.clear();
        self.due_from = 0;
        (self.occupied, self.stale_min) = (0, 0);
        (self.live, self.tombstones, self.due_tombstones) = (0, 0, 0);
        let mut waiters = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Some(waiter) = slot.waiter.take() {
                slot.generation = slot.generation.wrapping_add(1);
                self.free.push(index as u32);
                waiters.push(waiter);
            }
        }
        waiters
    }

    /// Timers set and neither fired nor cancelled.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.live
    }

    fn is_live(&self, key: TimerKey) -> bool {
        self.slots[key.slot as usize].generation == key.generation
    }

    fn release(&mut self, key: TimerKey) -> Option<Waiter> {
        let slot = &mut self.slots[key.slot as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.slot);
        slot.waiter.take()
    }

    #[inline]
    fn place(&mut self, entry: Entry) {
        if entry.at_ns == self.last_ns {
            self.due.push(entry);
            return;
        }
        let index = bucket_of(entry.at_ns, self.last_ns);
        let bucket = &mut self.buckets[index];
        bucket.min_ns = bucket.min_ns.min(entry.at_ns);
        bucket.entries.push(entry);
        self.occupied |= 1 << index;
    }

    /// Moves `last_ns` to the earliest time and the timers of the lowest bucket
    /// to where they now belong.
    fn split_lowest(&mut self) {
        debug_assert!(self.due.is_empty() && self.occupied != 0);
        let index = self.occupied.trailing_zeros() as usize;
        let bucket = &mut self.buckets[index];
        debug_assert!(bucket.min_ns > self.last_ns);
        self.last_ns = bucket.min_ns;
        bucket.min_ns = u64::MAX;
        self.occupied &= !(1 << index);
        // A bucket of one is the common case when few timers are pending.
        if let [entry] = bucket.entries[..] {
            bucket.entries.clear();
            self.due.push(entry);
            return;
        }
        std::mem::swap(&mut bucket.entries, &mut self.scratch);
        let mut scratch = std::mem::take(&mut self.scratch);
        if self.tombstones == 0 {
            for &entry in &scratch {
                self.place(entry);
            }
        } else {
            for &entry in &scratch {
                if self.is_live(entry.key) {
                    self.place(entry);
                } else {
                    self.tombstones -= 1;
                }
            }
        }
        scratch.clear();
        // The emptied bucket keeps its capacity for the next time it fills.
        std::mem::swap(&mut self.buckets[index].entries, &mut scratch);
        self.scratch = scratch;
    }

    /// Drops a bucket's tombstones and finds its earliest entry again.
    fn purge(&mut self, index: usize) {
        let slots = &self.slots;
        let bucket = &mut self.buckets[index];
        let before = bucket.entries.len();
        bucket.entries.retain(|e| slots[e.key.slot as usize].generation == e.key.generation);
        bucket.min_ns = bucket.entries.iter().map(|e| e.at_ns).min().unwrap_or(u64::MAX);
        self.tombstones -= before - bucket.entries.len();
        self.stale_min &= !(1 << index);
        if bucket.entries.is_empty() {
            self.occupied &= !(1 << index);
        }
    }

    fn sweep(&mut self) {
        let mut occupied = self.occupied;
        while occupied != 0 {
            self.purge(occupied.trailing_zeros() as usize);
            occupied &= occupied - 1;
        }
    }
}

/// The highest bit in which two different times differ.
#[inline]
fn bucket_of(at_ns: u64, last_ns: u64) -> usize {
    debug_assert!(at_ns != last_ns);
    63 - (at_ns ^ last_ns).leading_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn task(slot: u32) -> Waiter {
        Waiter::Task(TaskId { slot, generation: 0 })
    }

    fn slot(waiter: Waiter) -> u32 {
        match waiter {
            Waiter::Task(id) => id.slot,
            Waiter::Waker(_) => unreachable!("the tests set tasks only"),
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        /// Set a timer this far from now.
        Insert(u64),
        /// Cancel the n-th oldest of all timers ever set.
        Cancel(usize),
        /// Fire everything due within this span.
        Advance(u64),
        /// Jump to the next timer.
        Jump,
    }

    fn op() -> impl Strategy<Value = Op> {
        let span = prop_oneof![1_u64..4, 1_u64..1_000, 1_u64..1_000_000_000];
        prop_oneof![
            4 => span.clone().prop_map(Op::Insert),
            2 => (0_usize..200).prop_map(Op::Cancel),
            1 => span.prop_map(Op::Advance),
            2 => Just(Op::Jump),
        ]
    }

    proptest! {
        /// Against a map ordered by (time, sequence).
        #[test]
        fn fires_in_order_of_time_and_sequence(ops in prop::collection::vec(op(), 1..400)) {
            let mut timers = Timers::new();
            let mut model = BTreeMap::new();
            let mut keys = Vec::new();
            let mut now = 0;
            for op in ops {
                match op {
                    Op::Insert(span) => {
                        let n = keys.len() as u32;
                        keys.push((timers.insert(now + span, task(n)), now + span));
                        model.insert((now + span, n), ());
                    }
                    Op::Cancel(n) => if !keys.is_empty() {
                        let n = n % keys.len();
                        let (key, at) = keys[n];
                        let was_set = model.remove(&(at, n as u32)).is_some();
                        prop_assert_eq!(timers.cancel(key).is_some(), was_set);
                    },
                    Op::Advance(_) | Op::Jump => {
                        let first = model.keys().next().map(|k| k.0);
                        prop_assert_eq!(timers.next_ns(), first);
                        now = match op {
                            Op::Advance(span) => now + span,
                            _ => first.unwrap_or(now),
                        };
                        while let Some(waiter) = timers.pop_due(now) {
                            let (at, n) = *model.keys().next().unwrap();
                            prop_assert!(at <= now);
                            prop_assert_eq!(slot(waiter), n);
                            model.remove(&(at, n));
                        }
                        prop_assert!(model.keys().next().is_none_or(|k| k.0 > now));
                    }
                }
                prop_assert_eq!(timers.len(), model.len());
                prop_assert!(timers.tombstones <= timers.len() + TOMBSTONE_SLACK);
                let held: usize = timers.buckets.iter().map(|b| b.entries.len()).sum();
                prop_assert_eq!(
                    held + timers.due.len() - timers.due_from,
                    timers.live + timers.tombstones + timers.due_tombstones
                );
            }
        }
    }

    #[test]
    fn cancelled_timers_are_forgotten() {
        let mut timers = Timers::new();
        for i in 0..100_000_u64 {
            let key = timers.insert(1_000_000 + i, task(0));
            timers.cancel(key);
        }
        assert_eq!(timers.next_ns(), None);
        assert!(timers.slots.len() <= 2, "slots are used again");
        assert!(timers.buckets.iter().map(|b| b.entries.capacity()).sum::<usize>() < 1_000);
    }
}
