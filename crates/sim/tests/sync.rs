//! Semaphore and channels against simple models.
#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use sim::Executor;
use sim::sync::{Permit, Semaphore, mpsc};
use units::Nanos;

type Acquiring = Pin<Box<dyn Future<Output = Permit>>>;

#[derive(Clone, Debug)]
enum Op {
    /// Ask for so many permits and wait.
    Acquire(u32),
    /// Ask without waiting.
    Try(u32),
    /// The n-th holder gives back.
    Release(usize),
    /// The n-th waiter gives up.
    Cancel(usize),
    /// The n-th waiter is polled.
    Poll(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (1_u32..5).prop_map(Op::Acquire),
        1 => (1_u32..5).prop_map(Op::Try),
        3 => any::<usize>().prop_map(Op::Release),
        1 => any::<usize>().prop_map(Op::Cancel),
        2 => any::<usize>().prop_map(Op::Poll),
    ]
}

proptest! {
    /// Grants go out strictly in order of asking, as soon as the permits for
    /// the first in the queue are there; nothing is lost when one gives up.
    #[test]
    fn semaphore_is_fair(total in 1_u32..8, ops in prop::collection::vec(op(), 1..200)) {
        let semaphore = Semaphore::new(total);
        let mut cx = Context::from_waker(Waker::noop());
        // The model: free permits, the queue (id, wanted), and who was granted
        // but has not looked yet.
        let mut free = total;
        let mut queue: VecDeque<(u32, u32)> = VecDeque::new();
        let mut granted: Vec<(u32, u32)> = Vec::new();
        let mut waiting: Vec<(u32, Acquiring)> = Vec::new();
        let mut held: Vec<(u32, Permit)> = Vec::new();
        let mut next = 0;
        for op in ops {
            match op {
                Op::Acquire(count) => {
                    let own = semaphore.clone();
                    let mut future: Acquiring = Box::pin(async move { own.acquire(count).await });
                    let at_once = queue.is_empty() && free >= count;
                    match future.as_mut().poll(&mut cx) {
                        Poll::Ready(permit) => {
                            prop_assert!(at_once);
                            free -= count;
                            held.push((count, permit));
                        }
                        Poll::Pending => {
                            prop_assert!(!at_once);
                            queue.push_back((next, count));
                            waiting.push((next, future));
                        }
                    }
                    next += 1;
                }
                Op::Try(count) => {
                    let at_once = queue.is_empty() && free >= count;
                    let permit = semaphore.try_acquire(count);
                    prop_assert_eq!(permit.is_some(), at_once);
                    if let Some(permit) = permit {
                        free -= count;
                        held.push((count, permit));
                    }
                }
                Op::Release(n) if !held.is_empty() => {
                    let (count, permit) = held.swap_remove(n % held.len());
                    drop(permit);
                    free += count;
                }
                Op::Cancel(n) if !waiting.is_empty() => {
                    let (id, future) = waiting.swap_remove(n % waiting.len());
                    drop(future);
                    queue.retain(|w| w.0 != id);
                    if let Some(at) = granted.iter().position(|g| g.0 == id) {
                        free += granted.remove(at).1;
                    }
                }
                Op::Poll(n) if !waiting.is_empty() => {
                    let n = n % waiting.len();
                    let id = waiting[n].0;
                    let at = granted.iter().position(|g| g.0 == id);
                    match waiting[n].1.as_mut().poll(&mut cx) {
                        Poll::Ready(permit) => {
                            let count = granted.remove(at.unwrap()).1;
                            held.push((count, permit));
                            drop(waiting.swap_remove(n));
                        }
                        Poll::Pending => prop_assert!(at.is_none()),
                    }
                }
                _ => {}
            }
            while queue.front().is_some_and(|w| w.1 <= free) {
                let (id, count) = queue.pop_front().unwrap();
                free -= count;
                granted.push((id, count));
            }
            prop_assert_eq!(semaphore.available(), free);
        }
    }

    /// Values of each sender arrive in order, none is lost, and the channel
    /// never holds more than it may.
    #[test]
    fn channels_keep_order(
        capacity in prop::option::of(1_u32..6),
        senders in prop::collection::vec(prop::collection::vec(0_u64..40, 0..30), 1..6),
        pauses in prop::collection::vec(0_u64..40, 1..20),
    ) {
        let mut executor = Executor::new_virtual();
        let handle = executor.handle();
        let expected: usize = senders.iter().map(Vec::len).sum();
        let inside = Rc::new(Cell::new(0_u32));
        let received: Rc<RefCell<Vec<(usize, usize)>>> = Rc::default();
        let mut receiver = match capacity {
            Some(capacity) => {
                let (sender, receiver) = mpsc::bounded(capacity);
                for (who, gaps) in senders.iter().cloned().enumerate() {
                    let (sender, inner, inside) = (sender.clone(), handle.clone(), inside.clone());
                    handle.spawn(async move {
                        for (n, gap) in gaps.into_iter().enumerate() {
                            inner.sleep(Nanos(gap)).await;
                            sender.send((who, n)).await.unwrap();
                            inside.set(inside.get() + 1);
                            assert!(inside.get() <= capacity);
                        }
                    });
                }
                receiver
            }
            None => {
                let (sender, receiver) = mpsc::unbounded();
                for (who, gaps) in senders.iter().cloned().enumerate() {
                    let (sender, inner, inside) = (sender.clone(), handle.clone(), inside.clone());
                    handle.spawn(async move {
                        for (n, gap) in gaps.into_iter().enumerate() {
                            inner.sleep(Nanos(gap)).await;
                            sender.send((who, n)).unwrap();
                            inside.set(inside.get() + 1);
                        }
                    });
                }
                receiver
            }
        };
        let (log, inner) = (received.clone(), handle.clone());
        handle.spawn(async move {
            let mut pauses = pauses.into_iter().cycle();
            while let Some(value) = receiver.recv().await {
                inside.set(inside.get().wrapping_sub(1));
                log.borrow_mut().push(value);
                inner.sleep(Nanos(pauses.next().unwrap())).await;
            }
        });
        prop_assert_eq!(executor.run(), 0);
        let received = received.borrow();
        prop_assert_eq!(received.len(), expected);
        for (who, gaps) in senders.iter().enumerate() {
            let own: Vec<usize> = received.iter().filter(|v| v.0 == who).map(|v| v.1).collect();
            prop_assert_eq!(own, (0..gaps.len()).collect::<Vec<_>>());
        }
    }
}

#[test]
fn senders_wait_in_order_and_learn_of_the_receivers_end() {
    let mut executor = Executor::new_virtual();
    let handle = executor.handle();
    let (sender, mut receiver) = mpsc::bounded(1);
    let results: Rc<RefCell<Vec<(u32, bool)>>> = Rc::default();
    for i in 0..4 {
        let (sender, results) = (sender.clone(), results.clone());
        handle.spawn(async move {
            let sent = sender.send(i).await;
            results.borrow_mut().push((i, sent.is_ok()));
        });
    }
    assert_eq!(executor.run(), 3);
    assert_eq!(sender.try_send(9), Err(9), "nobody overtakes those who wait");
    assert_eq!(receiver.try_recv(), Some(0));
    assert_eq!(executor.run(), 2);
    drop(receiver);
    assert_eq!(executor.run(), 0);
    assert_eq!(*results.borrow(), [(0, true), (1, true), (2, false), (3, false)]);
    assert_eq!(executor.block_on(sender.send(5)), Err(mpsc::SendError(5)));
}

#[test]
fn a_receiver_ends_when_every_sender_is_gone() {
    let mut executor = Executor::new_virtual();
    let (sender, mut receiver) = mpsc::unbounded();
    sender.send(1).unwrap();
    let last = sender.clone();
    drop(sender);
    let join = executor.handle().spawn(async move {
        let mut all = Vec::new();
        while let Some(value) = receiver.recv().await {
            all.push(value);
        }
        all
    });
    assert_eq!(executor.run(), 1);
    last.send(2).unwrap();
    drop(last);
    assert_eq!(executor.block_on(join), [1, 2]);
}
