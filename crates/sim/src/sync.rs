//! Waiting for other tasks: notify, one-shot values.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Wakes waiting tasks in the order in which they began to wait.
#[derive(Clone, Default)]
pub struct Notify {
    waiters: Rc<RefCell<VecDeque<Rc<RefCell<Waiter>>>>>,
}

#[derive(Default)]
struct Waiter {
    notified: bool,
    waker: Option<Waker>,
}

impl Notify {
    /// Waits for the next notification.
    pub fn notified(&self) -> impl Future<Output = ()> + use<> {
        let waiter = Rc::new(RefCell::new(Waiter::default()));
        self.waiters.borrow_mut().push_back(waiter.clone());
        std::future::poll_fn(move |cx| {
            let mut waiter = waiter.borrow_mut();
            if waiter.notified {
                return Poll::Ready(());
            }
            waiter.waker = Some(cx.waker().clone());
            Poll::Pending
        })
    }

    /// Wakes the task that has waited longest; whether there was one.
    pub fn notify_one(&self) -> bool {
        let Some(waiter) = self.waiters.borrow_mut().pop_front() else { return false };
        wake(&waiter);
        true
    }

    /// Wakes every waiting task.
    pub fn notify_all(&self) {
        for waiter in std::mem::take(&mut *self.waiters.borrow_mut()) {
            wake(&waiter);
        }
    }
}

fn wake(waiter: &RefCell<Waiter>) {
    let mut waiter = waiter.borrow_mut();
    waiter.notified = true;
    if let Some(waker) = waiter.waker.take() {
        waker.wake();
    }
}

/// A value sent once.
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Rc::new(RefCell::new((None, None)));
    (Sender { slot: slot.clone() }, Receiver { slot })
}

type Slot<T> = Rc<RefCell<(Option<T>, Option<Waker>)>>;

/// The sending end of a one-shot.
pub struct Sender<T> {
    slot: Slot<T>,
}

/// The receiving end of a one-shot; a future.
pub struct Receiver<T> {
    slot: Slot<T>,
}

impl<T> Sender<T> {
    /// Sends the value and wakes the receiver.
    pub fn send(self, value: T) {
        let mut slot = self.slot.borrow_mut();
        slot.0 = Some(value);
        if let Some(waker) = slot.1.take() {
            waker.wake();
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut slot = self.slot.borrow_mut();
        match slot.0.take() {
            Some(value) => Poll::Ready(value),
            None => {
                slot.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
