//! A value sent once.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A value sent once.
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Rc::new(RefCell::new(Slot { value: Value::Awaited, waker: None }));
    (Sender { slot: slot.clone() }, Receiver { slot })
}

/// The sender was dropped without sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the sender was dropped without sending")]
pub struct Dropped;

struct Slot<T> {
    value: Value<T>,
    waker: Option<Waker>,
}

enum Value<T> {
    Awaited,
    Sent(T),
    /// Received already, or never to come.
    Gone,
}

/// The sending end of a one-shot.
pub struct Sender<T> {
    slot: Rc<RefCell<Slot<T>>>,
}

/// The receiving end of a one-shot; a future.
///
/// As a future it panics when the sender was dropped without sending;
/// [`Receiver::recv`] gives an error instead.
pub struct Receiver<T> {
    slot: Rc<RefCell<Slot<T>>>,
}

impl<T> Sender<T> {
    /// Sends the value and wakes the receiver.
    pub fn send(self, value: T) {
        self.end(Value::Sent(value));
    }

    fn end(&self, value: Value<T>) {
        let mut slot = self.slot.borrow_mut();
        if matches!(slot.value, Value::Awaited) {
            slot.value = value;
            let waker = slot.waker.take();
            drop(slot);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.end(Value::Gone);
    }
}

impl<T> Receiver<T> {
    /// Waits for the value, or for the sender to be dropped.
    pub async fn recv(mut self) -> Result<T, Dropped> {
        std::future::poll_fn(|cx| self.poll_value(cx)).await
    }

    fn poll_value(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, Dropped>> {
        let mut slot = self.slot.borrow_mut();
        match std::mem::replace(&mut slot.value, Value::Gone) {
            Value::Sent(value) => Poll::Ready(Ok(value)),
            Value::Gone => Poll::Ready(Err(Dropped)),
            Value::Awaited => {
                slot.value = Value::Awaited;
                if !slot.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                    slot.waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = T;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.poll_value(cx).map(|value| value.unwrap_or_else(|e| panic!("awaited a value in vain: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Executor;

    #[test]
    fn brings_the_value_or_the_news() {
        let mut executor = Executor::new_virtual();
        let (sender, receiver) = oneshot();
        sender.send(5);
        assert_eq!(executor.block_on(receiver), 5);

        let (sender, receiver) = oneshot::<u8>();
        let waits = executor.handle().spawn(receiver.recv());
        assert_eq!(executor.run(), 1);
        drop(sender);
        assert_eq!(executor.block_on(waits), Err(Dropped));

        let (sender, receiver) = oneshot();
        drop(receiver);
        sender.send(1);
    }

    #[test]
    #[should_panic(expected = "the sender was dropped without sending")]
    fn a_receiver_that_cannot_end_panics() {
        let (sender, receiver) = oneshot::<u8>();
        drop(sender);
        Executor::new_virtual().block_on(receiver);
    }
}
