//! What is to happen when: one heap of packed 128-bit keys.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::marker::PhantomData;

use units::Nanos;

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

const KINDS: [Event; 9] = [
    Event::ArrayEnd,
    Event::ReadOut,
    Event::Loaded,
    Event::Processed,
    Event::Firmware,
    Event::Arrived,
    Event::Complete,
    Event::Destage,
    Event::Fold,
];

const ID_BITS: u32 = 26;
const KIND_BITS: u32 = 4;

/// Events in order of (time, order of scheduling).
pub(crate) struct Events<K = Event> {
    /// Time in the upper half; scheduling order, kind and identifier in the lower.
    heap: BinaryHeap<Reverse<u128>>,
    scheduled: u64,
    kinds: PhantomData<K>,
}

impl<K> Default for Events<K> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), scheduled: 0, kinds: PhantomData }
    }
}

impl<K: EventKind> Events<K> {
    /// Schedules `event` for the item `id` at `at`.
    #[inline]
    pub fn push(&mut self, at: Nanos, event: K, id: u32) {
        debug_assert!(id < 1 << ID_BITS);
        self.scheduled += 1;
        let low = self.scheduled << (ID_BITS + KIND_BITS) | u64::from(event.code()) << ID_BITS | u64::from(id);
        self.heap.push(Reverse(u128::from(at.0) << 64 | u128::from(low)));
    }

    /// When the next event is due.
    #[inline]
    pub fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(key)| Nanos((key >> 64) as u64))
    }

    /// Takes the next event if it is due at or before `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, K, u32)> {
        let top = self.heap.peek_mut()?;
        let key = top.0;
        let at = Nanos((key >> 64) as u64);
        if at > now {
            return None;
        }
        std::collections::binary_heap::PeekMut::pop(top);
        let id = key as u32 & ((1 << ID_BITS) - 1);
        let kind = (key as u64 >> ID_BITS) as usize & ((1 << KIND_BITS) - 1);
        Some((at, K::KINDS[kind], id))
    }

    /// Forgets everything scheduled.
    pub fn clear(&mut self) {
        self.heap.clear();
    }
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
