//! Being told that something happened.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::wait::{Ticket, WaitQueue};

/// Wakes waiting tasks in the order in which they began to wait. It remembers
/// nothing: a notification that finds nobody is gone.
#[derive(Clone, Default)]
pub struct Notify {
    state: Rc<RefCell<State>>,
}

#[derive(Default)]
struct State {
    queue: WaitQueue<()>,
    /// Calls of `notify_all`, which are not passed on.
    broadcasts: u64,
}

/// Waits for a notification; made by [`Notify::notified`].
pub struct Notified {
    state: Rc<RefCell<State>>,
    ticket: Option<Ticket>,
    broadcasts: u64,
}

impl Notify {
    /// Waits for the next notification, counting from this call.
    pub fn notified(&self) -> Notified {
        let mut state = self.state.borrow_mut();
        let ticket = Some(state.queue.push(()));
        Notified { state: self.state.clone(), ticket, broadcasts: state.broadcasts }
    }

    /// Wakes the task that has waited longest; whether there was one.
    pub fn notify_one(&self) -> bool {
        let served = self.state.borrow_mut().queue.serve_first();
        match served {
            None => false,
            Some(waker) => {
                if let Some(waker) = waker {
                    waker.wake();
                }
                true
            }
        }
    }

    /// Wakes every waiting task.
    pub fn notify_all(&self) {
        self.state.borrow_mut().broadcasts += 1;
        while self.notify_one() {}
    }
}

impl Future for Notified {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(ticket) = &this.ticket else { return Poll::Ready(()) };
        let mut state = this.state.borrow_mut();
        std::task::ready!(state.queue.poll(ticket, cx));
        if let Some(ticket) = this.ticket.take() {
            state.queue.leave(ticket);
        }
        Poll::Ready(())
    }
}

impl Drop for Notified {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let mut state = self.state.borrow_mut();
        // A notification meant for one task must reach one that still waits.
        if state.queue.leave(ticket) && state.broadcasts == self.broadcasts {
            let waker = state.queue.serve_first().flatten();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Executor;

    #[test]
    fn wakes_in_order_and_counts_from_the_call() {
        let mut executor = Executor::new_virtual();
        let notify = Notify::default();
        let log: Rc<RefCell<Vec<u32>>> = Rc::default();
        assert!(!notify.notify_one());
        for i in 0..4 {
            let (notified, log) = (notify.notified(), log.clone());
            executor.handle().spawn(async move {
                notified.await;
                log.borrow_mut().push(i);
            });
        }
        // Before anyone was polled.
        assert!(notify.notify_one());
        assert_eq!(executor.run(), 3);
        assert!(notify.notify_one());
        assert_eq!(executor.run(), 2);
        notify.notify_all();
        assert_eq!(executor.run(), 0);
        assert_eq!(*log.borrow(), [0, 1, 2, 3]);
        assert!(!notify.notify_one());
    }

    #[test]
    fn a_dropped_waiter_passes_its_notification_on() {
        let mut executor = Executor::new_virtual();
        let notify = Notify::default();
        let (first, second, third) = (notify.notified(), notify.notified(), notify.notified());
        notify.notify_one();
        drop(first);
        executor.block_on(second);
        drop(third);
        assert!(!notify.notify_one(), "a waiter that left takes no notification");
        let (first, second) = (notify.notified(), notify.notified());
        notify.notify_all();
        let late = notify.notified();
        drop(first);
        executor.block_on(second);
        assert!(notify.notify_one(), "a broadcast is not passed on to those who come later");
        executor.block_on(late);
    }
}
