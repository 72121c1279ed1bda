//! Counted permits, first come first served: what the locks and the bounded
//! channel are made of.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::wait::{Ticket, WaitQueue};

/// A number of permits that tasks take and give back; clones share them.
#[derive(Clone)]
pub(super) struct Permits {
    state: Rc<RefCell<State>>,
}

struct State {
    available: u32,
    closed: bool,
    /// Each waits for that many permits, and for nobody behind it.
    queue: WaitQueue<u32>,
}

/// Nothing can be taken any more.
pub(super) struct Closed;

/// Waits for permits. Given by value to whoever asked: dropping the output
/// gives nothing back, dropping the future unfinished does.
pub(super) struct Acquire {
    permits: Permits,
    count: u32,
    state: Acquiring,
}

enum Acquiring {
    New,
    Queued(Ticket),
    Done,
}

impl Permits {
    pub(super) fn new(available: u32) -> Self {
        Self { state: Rc::new(RefCell::new(State { available, closed: false, queue: WaitQueue::default() })) }
    }

    pub(super) fn available(&self) -> u32 {
        self.state.borrow().available
    }

    /// Takes `count` permits if nobody waits and they are there.
    pub(super) fn try_acquire(&self, count: u32) -> bool {
        let mut state = self.state.borrow_mut();
        let granted = !state.closed && state.queue.first().is_none() && state.available >= count;
        if granted {
            state.available -= count;
        }
        granted
    }

    /// Takes `count` permits when its turn comes; queues at the first poll.
    pub(super) fn acquire(&self, count: u32) -> Acquire {
        Acquire { permits: self.clone(), count, state: Acquiring::New }
    }

    /// Gives `count` permits back.
    pub(super) fn release(&self, count: u32) {
        let mut state = self.state.borrow_mut();
        state.available += count;
        drop(state);
        self.grant();
    }

    /// Turns away those who wait and those who come.
    pub(super) fn close(&self) {
        self.state.borrow_mut().closed = true;
        self.grant();
    }

    /// Serves from the front of the queue for as long as permits suffice.
    fn grant(&self) {
        loop {
            let mut state = self.state.borrow_mut();
            let Some(count) = state.queue.first() else { return };
            if !state.closed {
                if count > state.available {
                    return;
                }
                state.available -= count;
            }
            let waker = state.queue.serve_first().flatten();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl Future for Acquire {
    type Output = Result<(), Closed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if matches!(this.state, Acquiring::New) {
            if this.permits.try_acquire(this.count) {
                this.state = Acquiring::Done;
                return Poll::Ready(Ok(()));
            }
            let mut state = this.permits.state.borrow_mut();
            if state.closed {
                return Poll::Ready(Err(Closed));
            }
            this.state = Acquiring::Queued(state.queue.push(this.count));
        }
        let mut state = this.permits.state.borrow_mut();
        if let Acquiring::Queued(ticket) = &this.state {
            std::task::ready!(state.queue.poll(ticket, cx));
        }
        if let Acquiring::Queued(ticket) = std::mem::replace(&mut this.state, Acquiring::Done) {
            state.queue.leave(ticket);
        }
        Poll::Ready(if state.closed { Err(Closed) } else { Ok(()) })
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let Acquiring::Queued(ticket) = std::mem::replace(&mut self.state, Acquiring::Done) {
            let mut state = self.permits.state.borrow_mut();
            if state.queue.leave(ticket) && !state.closed {
                state.available += self.count;
            }
            drop(state);
            // Whoever stood behind may be served now.
            self.permits.grant();
        }
    }
}
