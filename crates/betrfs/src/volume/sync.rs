//! Making everything durable for many callers at once.
//!
//! Whoever asks while a flush is under way must wait for the next one, and who was waiting for the first asks again during that: of callers
//! that sync one small write after the other each waits for two flushes. So a flush that had several callers is followed by one that waits
//! for as many, a small part of the time that a flush takes: then all of them share each flush.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Volume;
use crate::operations::Result;

/// Who is not there when so much of the time of a flush has passed is not waited for.
const PATIENCE_PART: u32 = 8;
/// Nor longer than this, however long flushes take.
const PATIENCE_MAX: Duration = Duration::from_millis(2);

/// Callers that wait for the next flush, and what the last one was like.
#[derive(Debug, Default)]
pub(super) struct Syncing {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Callers of the next flush.
    waiting: u32,
    /// One of them sees to it.
    is_led: bool,
    is_flushing: bool,
    /// How many have begun.
    begun: u64,
    /// How many have ended; each begins when the one before has.
    ended: u64,
    /// The last that succeeded.
    succeeded: u64,
    /// So many callers may come for the next one.
    expected: u32,
    patience: Duration,
}

impl Syncing {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `flush` called once for everybody who asks before it begins.
    fn run(&self, flush: impl Fn() -> Result<()>) -> Result<()> {
        let mut state = self.locked();
        state.waiting += 1;
        self.changed.notify_all();
        if state.is_led {
            let mine = state.begun + 1;
            while state.ended < mine {
                state = self.wait(state);
            }
            if state.succeeded >= mine {
                return Ok(());
            }
            // Each hears of it by himself.
            drop(state);
            return flush();
        }
        state.is_led = true;
        while state.is_flushing {
            state = self.wait(state);
        }
        let began = Instant::now();
        while state.waiting < state.expected {
            let Some(left) = state.patience.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) else { break };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let callers = std::mem::take(&mut state.waiting);
        (state.is_led, state.is_flushing) = (false, true);
        state.begun += 1;
        drop(state);
        let began = Instant::now();
        let result = flush();
        let took = began.elapsed();
        let mut state = self.locked();
        state.is_flushing = false;
        state.ended = state.begun;
        if result.is_ok() {
            state.succeeded = state.begun;
        }
        state.expected = callers + state.waiting;
        state.patience = (took / PATIENCE_PART).min(PATIENCE_MAX);
        self.changed.notify_all();
        result
    }
}

impl Volume {
    /// Makes everything that was done durable.
    pub(super) fn sync(&self) -> Result<()> {
        self.settle_to_last()?;
        self.syncing.run(|| Ok(self.store.database.sync()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::Error;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    /// What was written before a call is in a flush that began after that.
    #[test]
    fn a_flush_counts_for_who_asked_before_it_began() {
        let (syncing, written, durable) = (Syncing::default(), AtomicU64::new(0), AtomicU64::new(0));
        let flushes = AtomicU64::new(0);
        const THREADS: u64 = 8;
        const EACH: u64 = 50;
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let mine = written.fetch_add(1, Ordering::SeqCst) + 1;
                        syncing
                            .run(|| {
                                let seen = written.load(Ordering::SeqCst);
                                thread::sleep(Duration::from_micros(500));
                                durable.fetch_max(seen, Ordering::SeqCst);
                                flushes.fetch_add(1, Ordering::SeqCst);
                                Ok(())
                            })
                            .unwrap();
                        assert!(durable.load(Ordering::SeqCst) >= mine, "returned before it was durable");
                    }
                });
            }
        });
        let flushes = flushes.into_inner();
        assert!(flushes < THREADS * EACH / 3, "{flushes} flushes for {} calls", THREADS * EACH);
    }

    /// Who shares a flush that fails does not take it for done.
    #[test]
    fn a_failure_is_everybodys() {
        let (syncing, ready) = (Syncing::default(), Barrier::new(4));
        thread::scope(|scope| {
            let calls: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        ready.wait();
                        syncing.run(|| {
                            thread::sleep(Duration::from_millis(5));
                            Err(Error::NoSpace)
                        })
                    })
                })
                .collect();
            for call in calls {
                assert_eq!(call.join().unwrap(), Err(Error::NoSpace));
            }
        });
        assert_eq!(syncing.run(|| Ok(())), Ok(()));
    }
}
