//! The lock of a zone.

use std::collections::VecDeque;

/// Held by one thread from the choice of an I/O's place to its completion, as
/// often as the thread has I/Os in the zone (fio's is a recursive mutex, so
/// that a thread's own I/Os overlap and those of several exclude each other).
/// It passes to whoever waits longest.
#[derive(Default)]
pub(super) struct Lock {
    owner: Option<u32>,
    /// How often the owner holds it.
    depth: u32,
    waiting: VecDeque<u32>,
}

impl Lock {
    /// Takes it for `thread`, if it is free or the thread's already.
    pub fn try_take(&mut self, thread: u32) -> bool {
        let takes = self.owner.is_none_or(|owner| owner == thread);
        if takes {
            self.owner = Some(thread);
            self.depth += 1;
        }
        takes
    }

    /// Puts `thread` in line. Once [`Lock::is_held_by`] says so, it has the lock.
    pub fn wait(&mut self, thread: u32) {
        debug_assert!(
            self.owner.is_some_and(|owner| owner != thread),
            "thread {thread} waits for a lock it could take"
        );
        self.waiting.push_back(thread);
    }

    pub fn is_held_by(&self, thread: u32) -> bool {
        self.owner == Some(thread)
    }

    /// Gives one hold back; whether the lock has passed to one that waited.
    pub fn release(&mut self, thread: u32) -> bool {
        debug_assert!(self.is_held_by(thread) && self.depth > 0, "thread {thread} releases a lock it does not hold");
        self.depth -= 1;
        if self.depth > 0 {
            return false;
        }
        self.owner = self.waiting.pop_front();
        self.depth = u32::from(self.owner.is_some());
        self.owner.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_passes_in_order_once_every_hold_is_back() {
        let mut lock = Lock::default();
        assert!(lock.try_take(1) && lock.try_take(1) && !lock.try_take(2));
        lock.wait(2);
        lock.wait(3);
        assert!(!lock.release(1) && lock.is_held_by(1));
        assert!(lock.release(1) && lock.is_held_by(2));
        assert!(lock.try_take(2) && !lock.try_take(1));
        assert!(!lock.release(2) && lock.release(2) && lock.is_held_by(3));
        assert!(!lock.release(3) && lock.try_take(1));
    }
}
