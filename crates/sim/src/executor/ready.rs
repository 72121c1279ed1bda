//! Tasks that are ready to be polled, and what other threads hand in.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Handle;
use super::tasks::{TaskId, TaskWaker};

/// Work handed in by another thread.
pub(super) type Injected = Box<dyn FnOnce(&Handle) + Send>;

/// The part of an executor that other threads may touch.
///
/// Tasks are polled in the order in which they were woken; a task stands in
/// the queue at most once.
#[derive(Default)]
pub(super) struct Ready {
    state: Mutex<State>,
    /// Whether `state` has anything in it; read without the lock.
    pending: AtomicBool,
    unpark: Condvar,
}

#[derive(Default)]
struct State {
    queue: Vec<TaskId>,
    injected: Vec<Injected>,
    /// Live [`super::Injector`]s.
    injectors: usize,
    parked: bool,
    closed: bool,
}

/// Why a park ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unparked {
    Timeout,
    Work,
    /// Nothing can ever come: no time-out was given and no injector lives.
    Never,
}

impl Ready {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics under this lock, so a poisoned state is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn announce(&self, state: &mut State) {
        self.pending.store(true, Ordering::Release);
        if state.parked {
            state.parked = false;
            self.unpark.notify_one();
        }
    }

    /// Queues a task unless it is queued already.
    #[inline]
    pub(super) fn push(&self, waker: &TaskWaker) {
        let mut state = self.lock();
        if !waker.queued.load(Ordering::Relaxed) {
            waker.queued.store(true, Ordering::Relaxed);
            state.queue.push(waker.id);
            self.announce(&mut state);
        }
    }

    /// Whether a task or injected work is there.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// Moves everything out; `unqueue` clears each task's queued mark.
    pub(super) fn take(&self, batch: &mut Vec<TaskId>, injected: &mut Vec<Injected>, unqueue: impl Fn(TaskId)) {
        let mut state = self.lock();
        self.pending.store(false, Ordering::Relaxed);
        state.queue.iter().for_each(|&id| unqueue(id));
        batch.append(&mut state.queue);
        injected.append(&mut state.injected);
    }

    /// Hands in work from another thread; gives it back if the executor is gone.
    pub(super) fn inject(&self, work: Injected) -> Result<(), Injected> {
        let mut state = self.lock();
        if state.closed {
            return Err(work);
        }
        state.injected.push(work);
        self.announce(&mut state);
        Ok(())
    }

    pub(super) fn add_injector(&self) {
        self.lock().injectors += 1;
    }

    pub(super) fn remove_injector(&self) {
        let mut state = self.lock();
        state.injectors -= 1;
        // The executor may be waiting for this injector alone.
        if state.injectors == 0 && state.parked {
            state.parked = false;
            self.unpark.notify_one();
        }
    }

    /// Refuses further work and hands back what is left, to be dropped outside the lock.
    pub(super) fn close(&self) -> Vec<Injected> {
        let mut state = self.lock();
        state.closed = true;
        std::mem::take(&mut state.injected)
    }

    /// Sleeps until work comes or `timeout` has passed.
    pub(super) fn park(&self, timeout: Option<Duration>) -> Unparked {
        let mut state = self.lock();
        loop {
            if self.pending.load(Ordering::Relaxed) {
                return Unparked::Work;
            }
            if timeout.is_none() && state.injectors == 0 {
                return Unparked::Never;
            }
            state.parked = true;
            match timeout {
                None => state = self.unpark.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(timeout) => {
                    let (mut guard, _) =
                        self.unpark.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner);
                    guard.parked = false;
                    let work = self.pending.load(Ordering::Relaxed);
                    // A spurious wake-up reads as an early time-out: the caller looks at the clock.
                    return if work { Unparked::Work } else { Unparked::Timeout };
                }
            }
            state.parked = false;
        }
    }
}
