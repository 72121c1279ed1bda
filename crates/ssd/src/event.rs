//! What is to happen when: a queue of packed 128-bit keys.

use std::marker::PhantomData;

use units::Nanos;

use crate::bucket_queue::{BucketQueue, Key};

/// What happens; the identifier beside it says to which item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// A die's array operation ends.
    ArrayEnd,
    /// A read operation's data is off the channel.
    ReadOut,
    /// A program operation's data is in the die.
    Loaded,
    /// A command is fetched and processed.
    Processed,
    /// Firmware work on a command is over.
    Firmware,
    /// A write's data is in the buffer.
    Arrived,
    /// A command completes.
    Complete,
    /// Look for buffered data that has waited long enough.
    Destage,
    /// Look whether the device has been idle long enough to fold its SLC cache.
    Fold,
    /// A queue's turn has come to have a command fetched.
    Fetch,
}

/// What a device's events are. Their codes fit four bits.
pub(crate) trait EventKind: Copy + 'static {
    /// Every kind; the position of each is its code.
    const KINDS: &'static [Self];
    /// Its position in `KINDS`.
    fn code(self) -> u8;
}

impl EventKind for Event {
    const KINDS: &'static [Self] = &KINDS;
    fn code(self) -> u8 {
        self as u8
    }
}

const KINDS: [Event; 10] = [
    Event::ArrayEnd,
    Event::ReadOut,
    Event::Loaded,
    Event::Processed,
    Event::Firmware,
    Event::Arrived,
    Event::Complete,
    Event::Destage,
    Event::Fold,
    Event::Fetch,
];

const ID_BITS: u32 = 26;
const KIND_BITS: u32 = 4;

/// Events in order of (time, order of scheduling).
pub(crate) struct Events<K = Event> {
    /// Time in the upper half; scheduling order, kind and identifier in the lower.
    queue: BucketQueue,
    scheduled: u64,
    kinds: PhantomData<K>,
}

impl<K> Default for Events<K> {
    fn default() -> Self {
        Self { queue: BucketQueue::default(), scheduled: 0, kinds: PhantomData }
    }
}

impl<K: EventKind> Events<K> {
    /// Schedules `event` for the item `id` at `at`.
    #[inline]
    pub fn push(&mut self, at: Nanos, event: K, id: u32) {
        debug_assert!(id < 1 << ID_BITS);
        self.scheduled += 1;
        let low = self.scheduled << (ID_BITS + KIND_BITS) | u64::from(event.code()) << ID_BITS | u64::from(id);
        self.queue.push(Key::from(at.0) << 64 | Key::from(low));
    }

    /// When the next event is due.
    #[inline]
    pub fn next(&self) -> Option<Nanos> {
        self.queue.first().map(time_of)
    }

    /// What happens next, and when.
    #[inline]
    pub fn first(&self) -> Option<(Nanos, K)> {
        self.queue.first().map(|key| (time_of(key), kind_of(key)))
    }

    /// Takes the next event if it is due at or before `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, K, u32)> {
        let key = self.queue.first()?;
        let at = time_of(key);
        if at > now {
            return None;
        }
        self.queue.pop();
        Some((at, kind_of(key), key as u32 & ((1 << ID_BITS) - 1)))
    }

    /// Forgets everything scheduled.
    pub fn clear(&mut self) {
        self.queue.clear();
    }
}

#[inline]
fn time_of(key: Key) -> Nanos {
    Nanos((key >> 64) as u64)
}

#[inline]
fn kind_of<K: EventKind>(key: Key) -> K {
    K::KINDS[(key as u64 >> ID_BITS) as usize & ((1 << KIND_BITS) - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_first_then_order_of_scheduling() {
        let mut events = Events::<Event>::default();
        for (kind, id) in KINDS.iter().zip(0..) {
            events.push(Nanos(7), *kind, id);
        }
        events.push(Nanos(3), Event::Fold, (1 << ID_BITS) - 1);
        assert_eq!(events.next(), Some(Nanos(3)));
        assert_eq!(events.pop_due(Nanos(6)), Some((Nanos(3), Event::Fold, (1 << ID_BITS) - 1)));
        assert_eq!(events.pop_due(Nanos(6)), None);
        for (kind, id) in KINDS.iter().zip(0..) {
            assert_eq!(events.pop_due(Nanos(7)), Some((Nanos(7), *kind, id)));
        }
        assert_eq!(events.next(), None);
    }
}
