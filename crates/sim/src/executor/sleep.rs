//! Waiting for the clock.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use units::Nanos;

use super::Core;
use super::timers::{TimerKey, Waiter};

/// Waits for the clock; made by [`super::Handle::sleep`]. The timer is set at
/// the first poll and unset when this is dropped.
pub struct Sleep {
    core: Rc<Core>,
    at: Nanos,
    timer: Option<TimerKey>,
}

impl Sleep {
    pub(super) fn new(core: Rc<Core>, at: Nanos) -> Self {
        Self { core, at, timer: None }
    }

    /// When it is over.
    pub fn deadline(&self) -> Nanos {
        self.at
    }
}

impl Core {
    #[inline]
    fn waiter(&self, waker: &Waker) -> Waiter {
        match self.current.get() {
            // The same waker by identity: a task's waker is an `Arc` of its
            // own, so no other waker has this data pointer while it lives.
            Some((data, id)) if data == waker.data() => Waiter::Task(id),
            _ => Waiter::Waker(waker.clone()),
        }
    }
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.core.clock.now() >= this.at {
            return Poll::Ready(());
        }
        if this.at == Nanos::MAX {
            return Poll::Pending;
        }
        let waiter = this.core.waiter(cx.waker());
        match this.timer {
            None => this.timer = Some(this.core.timers.borrow_mut().insert(this.at.0, waiter)),
            Some(timer) => {
                // Moved to another task, or polled without cause: last poll wins.
                let old = this.core.timers.borrow_mut().replace_waiter(timer, waiter);
                drop(old);
            }
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            let waiter = self.core.timers.borrow_mut().cancel(timer, self.at.0);
            drop(waiter);
        }
    }
}
