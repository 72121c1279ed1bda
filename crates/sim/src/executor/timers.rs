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
/// for the shortest path problem", JACM 37(2), 1990, section 2) in base 16.
///
/// The clock never goes back, so no timer is ever set before the one fired
/// last; the heap uses that. A timer lies in the bucket named by the highest
/// hexadecimal digit in which its time differs from `last_ns`, the time fired
/// last, and by that digit's value. Only the lowest bucket is ever split, into
/// lower ones, so a timer moves at most once per digit, and only past digits
/// that it shares with others. Timers of one time share a bucket in the order
/// they were set, and every move keeps that order: that is the tie-break by
/// sequence.
///
/// Cancelling leaves a tombstone; tombstones never outnumber live timers by
/// more than a constant, and never show in [`Timers::next_ns`].
pub(super) struct Timers {
    /// Time of the timer fired last.
    last_ns: u64,
    /// Timers due at `last_ns`, from `due_from` on.
    due: Vec<Entry>,
    due_from: usize,
    /// `DIGITS` for each level: bucket `level * DIGITS + digit`.
    buckets: Vec<Bucket>,
    /// Which levels hold entries, and which digits of each level.
    levels: u16,
    digits: [u16; LEVELS],
    /// Kept to move entries without allocating.
    scratch: Vec<Entry>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    live: usize,
    /// Cancelled entries still in a bucket, and still in `due`.
    tombstones: usize,
    due_tombstones: usize,
}

const DIGIT_BITS: usize = 4;
const DIGITS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 64 / DIGIT_BITS;

#[derive(Clone, Copy)]
struct Entry {
    at_ns: u64,
    key: TimerKey,
}

struct Bucket {
    entries: Vec<Entry>,
    /// Time of the earliest entry; `u64::MAX` when empty, `UNKNOWN` after that
    /// entry was cancelled.
    min_ns: u64,
}

/// No entry in a bucket has this time, since `last_ns` is before all of them.
const UNKNOWN: u64 = 0;

struct Slot {
    generation: u32,
    set: bool,
    waiter: Waiter,
}

/// What a slot without a timer holds.
const NOBODY: Waiter = Waiter::Task(TaskId { slot: TaskId::ROOT_SLOT, generation: 0 });

/// Tombstones tolerated beside an equal number of live timers.
const TOMBSTONE_SLACK: usize = 64;

impl Timers {
    pub(super) fn new() -> Self {
        let bucket = || Bucket { entries: Vec::new(), min_ns: u64::MAX };
        Self {
            last_ns: 0,
            due: Vec::new(),
            due_from: 0,
            buckets: std::iter::repeat_with(bucket).take(LEVELS * DIGITS).collect(),
            levels: 0,
            digits: [0; LEVELS],
            scratch: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            live: 0,
            tombstones: 0,
            due_tombstones: 0,
        }
    }

    /// Sets a timer. `at_ns` must not lie before a timer that fired already.
    #[inline]
    pub(super) fn insert(&mut self, at_ns: u64, waiter: Waiter) -> TimerKey {
        debug_assert!(at_ns >= self.last_ns, "timer set at {at_ns} ns, before {} ns", self.last_ns);
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.slots.len()).unwrap_or_else(|_| panic!("more than 2^32 timers pending"));
                self.slots.push(Slot { generation: 0, set: false, waiter: NOBODY });
                slot
            }
        };
        let entry = &mut self.slots[slot as usize];
        entry.set = true;
        entry.waiter = waiter;
        let key = TimerKey { slot, generation: entry.generation };
        self.live += 1;
        self.place(Entry { at_ns, key });
        key
    }

    /// Changes whom a timer wakes, if it has not fired; hands back the waiter
    /// that is no longer wanted.
    pub(super) fn replace_waiter(&mut self, key: TimerKey, waiter: Waiter) -> Waiter {
        if !self.is_live(key) {
            return waiter;
        }
        std::mem::replace(&mut self.slots[key.slot as usize].waiter, waiter)
    }

    /// Unsets the timer set for `at_ns`, if it has not fired, and hands back
    /// its waiter.
    #[inline]
    pub(super) fn cancel(&mut self, key: TimerKey, at_ns: u64) -> Option<Waiter> {
        if !self.is_live(key) {
            return None;
        }
        let waiter = self.release(key);
        self.live -= 1;
        if at_ns == self.last_ns {
            self.due_tombstones += 1;
            return Some(waiter);
        }
        self.tombstones += 1;
        let (level, digit) = bucket_of(at_ns, self.last_ns);
        let min_ns = &mut self.buckets[level * DIGITS + digit].min_ns;
        if *min_ns == at_ns {
            *min_ns = UNKNOWN;
        }
        if self.tombstones > self.live + TOMBSTONE_SLACK {
            self.sweep();
        }
        Some(waiter)
    }

    /// When the earliest timer is due.
    #[inline]
    pub(super) fn next_ns(&mut self) -> Option<u64> {
        while let Some(entry) = self.due.get(self.due_from) {
            if self.due_tombstones == 0 || self.is_live(entry.key) {
                return Some(self.last_ns);
            }
            self.due_from += 1;
            self.due_tombstones -= 1;
        }
        while let Some((level, digit)) = self.lowest() {
            match self.buckets[level * DIGITS + digit].min_ns {
                UNKNOWN => self.purge(level, digit),
                min_ns => return Some(min_ns),
            }
        }
        None
    }

    /// Takes the earliest timer due at or before `now_ns`.
    #[inline]
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<Waiter> {
        loop {
            while let Some(&entry) = self.due.get(self.due_from) {
                self.due_from += 1;
                if self.due_tombstones == 0 || self.is_live(entry.key) {
                    self.live -= 1;
                    return Some(self.release(entry.key));
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
        (self.levels, self.digits) = (0, [0; LEVELS]);
        (self.live, self.tombstones, self.due_tombstones) = (0, 0, 0);
        let set: Vec<u32> = (0..).zip(&self.slots).filter(|(_, slot)| slot.set).map(|(index, _)| index).collect();
        let key = |slot| TimerKey { slot, generation: 0 };
        set.into_iter().map(|slot| self.release(key(slot))).collect()
    }

    fn is_live(&self, key: TimerKey) -> bool {
        self.slots[key.slot as usize].generation == key.generation
    }

    /// Frees a slot, whatever the key's generation.
    #[inline]
    fn release(&mut self, key: TimerKey) -> Waiter {
        let slot = &mut self.slots[key.slot as usize];
        debug_assert!(slot.set);
        slot.generation = slot.generation.wrapping_add(1);
        slot.set = false;
        self.free.push(key.slot);
        std::mem::replace(&mut slot.waiter, NOBODY)
    }

    #[inline]
    fn lowest(&self) -> Option<(usize, usize)> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        Some((level, self.digits[level].trailing_zeros() as usize))
    }

    #[inline]
    fn place(&mut self, entry: Entry) {
        if entry.at_ns == self.last_ns {
            self.due.push(entry);
            return;
        }
        let (level, digit) = bucket_of(entry.at_ns, self.last_ns);
        let bucket = &mut self.buckets[level * DIGITS + digit];
        bucket.min_ns = bucket.min_ns.min(entry.at_ns);
        bucket.entries.push(entry);
        self.levels |= 1 << level;
        self.digits[level] |= 1 << digit;
    }

    /// Marks a bucket empty.
    #[inline]
    fn vacate(&mut self, level: usize, digit: usize) {
        self.digits[level] &= !(1 << digit);
        if self.digits[level] == 0 {
            self.levels &= !(1 << level);
        }
        self.buckets[level * DIGITS + digit].min_ns = u64::MAX;
    }

    /// Moves `last_ns` to the earliest time and the timers of the lowest bucket
    /// to where they now belong.
    fn split_lowest(&mut self) {
        let Some((level, digit)) = self.lowest() else { return };
        let index = level * DIGITS + digit;
        debug_assert!(self.due.is_empty() && self.buckets[index].min_ns > self.last_ns);
        self.last_ns = self.buckets[index].min_ns;
        self.vacate(level, digit);
        let entries = &mut self.buckets[index].entries;
        // At level 0 all are of one time; a bucket of one is the common case
        // when few timers are pending.
        if level == 0 || entries.len() == 1 {
            self.due.append(entries);
            self.due_tombstones = if level == 0 && self.tombstones > 0 { self.count_due_tombstones() } else { 0 };
            self.tombstones -= self.due_tombstones;
            return;
        }
        // The emptied bucket takes the scratch space's capacity in exchange.
        let mut scratch = std::mem::take(&mut self.scratch);
        std::mem::swap(entries, &mut scratch);
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
        self.scratch = scratch;
    }

    fn count_due_tombstones(&self) -> usize {
        self.due.iter().filter(|entry| !self.is_live(entry.key)).count()
    }

    /// Drops a bucket's tombstones and finds its earliest entry again.
    fn purge(&mut self, level: usize, digit: usize) {
        let slots = &self.slots;
        let bucket = &mut self.buckets[level * DIGITS + digit];
        let before = bucket.entries.len();
        bucket.entries.retain(|e| slots[e.key.slot as usize].generation == e.key.generation);
        bucket.min_ns = bucket.entries.iter().map(|e| e.at_ns).min().unwrap_or(u64::MAX);
        self.tombstones -= before - bucket.entries.len();
        if bucket.entries.is_empty() {
            self.vacate(level, digit);
        }
    }

    fn sweep(&mut self) {
        for level in 0..LEVELS {
            let mut digits = self.digits[level];
            while digits != 0 {
                self.purge(level, digits.trailing_zeros() as usize);
                digits &= digits - 1;
            }
        }
    }
}

/// Level and digit of the bucket for a time other than `last_ns`.
#[inline]
fn bucket_of(at_ns: u64, last_ns: u64) -> (usize, usize) {
    debug_assert!(at_ns != last_ns);
    let level = (63 - (at_ns ^ last_ns).leading_zeros() as usize) / DIGIT_BITS;
    (level, (at_ns >> (level * DIGIT_BITS)) as usize % DIGITS)
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
                        prop_assert_eq!(timers.cancel(key, at).is_some(), was_set);
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
                prop_assert_eq!(timers.live, model.len());
                prop_assert!(timers.tombstones <= timers.live + TOMBSTONE_SLACK);
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
            timers.cancel(key, 1_000_000 + i);
        }
        assert_eq!(timers.next_ns(), None);
        assert!(timers.slots.len() <= 2, "slots are used again");
        assert!(timers.buckets.iter().map(|b| b.entries.capacity()).sum::<usize>() < 1_000);
    }
}
