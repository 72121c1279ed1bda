//! Channels: many senders, one receiver, values in the order sent.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::permits::Permits;

/// The receiver is gone; here is the value back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the receiver was dropped")]
pub struct SendError<T>(pub T);

struct Channel<T> {
    values: VecDeque<T>,
    senders: usize,
    receiver_gone: bool,
    waker: Option<Waker>,
}

impl<T> Channel<T> {
    fn new() -> Rc<RefCell<Self>> {
        let channel = Self { values: VecDeque::new(), senders: 1, receiver_gone: false, waker: None };
        Rc::new(RefCell::new(channel))
    }
}

fn push<T>(channel: &RefCell<Channel<T>>, value: T) -> Result<(), SendError<T>> {
    let mut channel = channel.borrow_mut();
    if channel.receiver_gone {
        return Err(SendError(value));
    }
    channel.values.push_back(value);
    let waker = channel.waker.take();
    drop(channel);
    if let Some(waker) = waker {
        waker.wake();
    }
    Ok(())
}

fn sender_gone<T>(channel: &RefCell<Channel<T>>) {
    let mut channel = channel.borrow_mut();
    channel.senders -= 1;
    if channel.senders == 0 {
        let waker = channel.waker.take();
        drop(channel);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A channel that holds at most `capacity` values (at least one); senders wait
/// for room in the order in which they came.
pub fn bounded<T>(capacity: u32) -> (Sender<T>, Receiver<T>) {
    let (channel, room) = (Channel::new(), Permits::new(capacity.max(1)));
    (Sender { channel: channel.clone(), room: room.clone() }, Receiver { channel, room: Some(room) })
}

/// A channel without a bound, for senders that cannot wait and are bounded by
/// other means.
pub fn unbounded<T>() -> (UnboundedSender<T>, Receiver<T>) {
    let channel = Channel::new();
    (UnboundedSender { channel: channel.clone() }, Receiver { channel, room: None })
}

/// A sending end of a bounded channel.
pub struct Sender<T> {
    channel: Rc<RefCell<Channel<T>>>,
    room: Permits,
}

/// A sending end of an unbounded channel.
pub struct UnboundedSender<T> {
    channel: Rc<RefCell<Channel<T>>>,
}

/// The receiving end of a channel.
pub struct Receiver<T> {
    channel: Rc<RefCell<Channel<T>>>,
    room: Option<Permits>,
}

impl<T> Sender<T> {
    /// Sends a value, waiting for room.
    pub async fn send(&self, value: T) -> Result<(), SendError<T>> {
        match self.room.acquire(1).await {
            Ok(()) => push(&self.channel, value),
            Err(_) => Err(SendError(value)),
        }
    }

    /// Sends a value if there is room and nobody waits for it; else gives it back.
    pub fn try_send(&self, value: T) -> Result<(), T> {
        if !self.room.try_acquire(1) {
            return Err(value);
        }
        push(&self.channel, value).map_err(|SendError(value)| value)
    }
}

impl<T> UnboundedSender<T> {
    /// Sends a value.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        push(&self.channel, value)
    }
}

impl<T> Receiver<T> {
    /// The next value, or `None` when none is left and every sender is gone.
    pub fn recv(&mut self) -> impl Future<Output = Option<T>> + '_ {
        std::future::poll_fn(|cx| self.poll_recv(cx))
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(value) = self.try_recv() {
            return Poll::Ready(Some(value));
        }
        let mut channel = self.channel.borrow_mut();
        if channel.senders == 0 {
            return Poll::Ready(None);
        }
        if !channel.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            channel.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// The next value, if one is there.
    pub fn try_recv(&mut self) -> Option<T> {
        let value = self.channel.borrow_mut().values.pop_front()?;
        if let Some(room) = &self.room {
            room.release(1);
        }
        Some(value)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.channel.borrow_mut().senders += 1;
        Self { channel: self.channel.clone(), room: self.room.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        sender_gone(&self.channel);
    }
}

impl<T> Clone for UnboundedSender<T> {
    fn clone(&self) -> Self {
        self.channel.borrow_mut().senders += 1;
        Self { channel: self.channel.clone() }
    }
}

impl<T> Drop for UnboundedSender<T> {
    fn drop(&mut self) {
        sender_gone(&self.channel);
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut channel = self.channel.borrow_mut();
        channel.receiver_gone = true;
        let left = std::mem::take(&mut channel.values);
        drop(channel);
        drop(left);
        if let Some(room) = &self.room {
            room.close();
        }
    }
}
