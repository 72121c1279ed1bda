//! A counting semaphore that also limits those who post.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Posts that somebody waits for, many at a time, after Filebench's `sempost` and `semblock`: who posts is held up while more posts
/// are outstanding than `ahead` and those that are being waited for.
#[derive(Debug)]
pub struct Semaphore {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    posts: u64,
    /// Posts that may still be made before somebody waits again.
    room: u64,
    closed: bool,
}

impl Semaphore {
    /// None posted, and `ahead` may be.
    pub fn new(ahead: u64) -> Self {
        Self { state: Mutex::new(State { posts: 0, room: ahead, closed: false }), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts once, when there is room. `false` where it was closed.
    pub fn post(&self) -> bool {
        let mut state = self.state();
        while state.room == 0 && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return false;
        }
        state.room -= 1;
        state.posts += 1;
        self.changed.notify_all();
        true
    }

    /// Waits for `count` posts and takes them. `false` where it was closed with fewer.
    pub fn wait(&self, count: u64) -> bool {
        let mut state = self.state();
        state.room = state.room.saturating_add(count);
        self.changed.notify_all();
        while state.posts < count && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.posts < count {
            return false;
        }
        state.posts -= count;
        true
    }

    /// Nobody posts any more.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn posts_are_taken_in_full_counts_and_the_rest_is_left_when_it_closes() {
        let semaphore = Semaphore::new(10);
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while semaphore.wait(7) {
                    taken.fetch_add(7, Ordering::Relaxed);
                }
            });
            let posters: Vec<_> = (0..4).map(|_| scope.spawn(|| (0..25).all(|_| semaphore.post()))).collect();
            assert!(posters.into_iter().all(|poster| poster.join().unwrap()));
            semaphore.close();
        });
        assert_eq!(taken.into_inner(), 98);
        assert!(!semaphore.post());
    }

    #[test]
    fn who_posts_waits_for_room() {
        let semaphore = Semaphore::new(3);
        let posted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let poster = scope.spawn(|| {
                while semaphore.post() {
                    posted.fetch_add(1, Ordering::Relaxed);
                }
            });
            assert!(semaphore.wait(5), "three there was room for, and five more as soon as they are waited for");
            semaphore.close();
            poster.join().unwrap();
        });
        assert!(posted.into_inner() <= 8);
    }
}
