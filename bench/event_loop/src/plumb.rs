//! Plumb's executor.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use sim::Executor;
use sim::sync::mpsc;
use units::Nanos;

use crate::Delays;

/// The hold model: each pending timer is a task that sleeps again and again.
pub struct Hold {
    executor: Executor,
    fired: Rc<Cell<u64>>,
}

impl Hold {
    /// With `timeouts`, every sleep is guarded by a time-out that never strikes.
    pub fn new(pending: usize, timeouts: bool) -> Self {
        let executor = Executor::new_virtual();
        let fired = Rc::new(Cell::new(0));
        let delays = Rc::new(RefCell::new(Delays::new()));
        for _ in 0..pending {
            let (handle, fired, delays) = (executor.handle(), fired.clone(), delays.clone());
            executor.handle().spawn(async move {
                loop {
                    let delay = Nanos(delays.borrow_mut().next_ns());
                    if timeouts {
                        let mut timeout = handle.sleep(Nanos::from_secs(30));
                        let mut sleep = handle.sleep(delay);
                        std::future::poll_fn(|cx| {
                            assert!(Pin::new(&mut timeout).poll(cx).is_pending());
                            Pin::new(&mut sleep).poll(cx)
                        })
                        .await;
                    } else {
                        handle.sleep(delay).await;
                    }
                    fired.set(fired.get() + 1);
                }
            });
        }
        Self { executor, fired }
    }

    /// Runs for as long as `events` timers take on average.
    pub fn run(&mut self, events: u64) -> u64 {
        let before = self.fired.get();
        let mut until = self.executor.handle().now();
        while self.fired.get() - before < events {
            until += Nanos::from_micros(100);
            self.executor.run_until(until);
        }
        self.fired.get() - before
    }
}

/// A ring of tasks, each with a channel to the next.
pub struct Ring {
    executor: Executor,
    first: mpsc::UnboundedSender<u64>,
}

impl Ring {
    pub fn new(members: usize) -> Self {
        let executor = Executor::new_virtual();
        let (first, mut receiver) = mpsc::unbounded();
        for member in 0..members {
            let (sender, next) =
                if member + 1 == members { (first.clone(), None) } else { (|(s, r)| (s, Some(r)))(mpsc::unbounded()) };
            executor.handle().spawn(async move {
                while let Some(hops) = receiver.recv().await {
                    // A token that has made all its hops stays here.
                    if hops > 0 && sender.send(hops - 1).is_err() {
                        return;
                    }
                }
            });
            match next {
                Some(next) => receiver = next,
                None => break,
            }
        }
        Self { executor, first }
    }

    pub fn run(&mut self, events: u64) -> u64 {
        self.first.send(events).expect("the ring has a first member");
        self.executor.run();
        events
    }
}
