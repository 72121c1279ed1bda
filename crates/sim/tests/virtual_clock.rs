//! The executor in virtual time.
#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use rand::RngExt;
use sim::{self as sim, Aborted, EventSource, Executor, Handle};
use units::Nanos;

type Log = Rc<RefCell<Vec<(u64, &'static str)>>>;

fn message(panic: Box<dyn std::any::Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().unwrap()).to_owned(),
    }
}

#[test]
fn jumps_to_timers_in_order_of_time_then_setting() {
    let mut executor = Executor::new_virtual();
    let log = Log::default();
    for (name, at) in [("c", 30), ("a", 10), ("a2", 10), ("b", 20), ("zero", 0)] {
        let (handle, log) = (executor.handle(), log.clone());
        executor.handle().spawn(async move {
            handle.sleep_until(Nanos(at)).await;
            log.borrow_mut().push((handle.now().0, name));
        });
    }
    assert_eq!(executor.run(), 0);
    assert_eq!(*log.borrow(), [(0, "zero"), (10, "a"), (10, "a2"), (20, "b"), (30, "c")]);
    assert_eq!(executor.handle().now(), Nanos(30));
}

#[test]
fn a_dropped_sleep_neither_wakes_nor_moves_the_clock() {
    let mut executor = Executor::new_virtual();
    let handle = executor.handle();
    let polls = Rc::new(Cell::new(0));
    let counted = polls.clone();
    executor.handle().spawn(async move {
        let mut long = Some(handle.sleep(Nanos::from_secs(30)));
        let mut short = handle.sleep(Nanos(5));
        std::future::poll_fn(|cx| {
            counted.set(counted.get() + 1);
            if let Some(long) = &mut long {
                assert!(Pin::new(long).poll(cx).is_pending());
            }
            let done = Pin::new(&mut short).poll(cx);
            if done.is_ready() {
                long = None;
            }
            done
        })
        .await;
    });
    assert_eq!(executor.run(), 0);
    assert_eq!(executor.handle().now(), Nanos(5));
    assert_eq!(polls.get(), 2);
}

#[test]
fn never_is_never() {
    let mut executor = Executor::new_virtual();
    let handle = executor.handle();
    executor.handle().spawn_named("sleeper", async move { handle.sleep_until(Nanos::MAX).await });
    assert_eq!(executor.run(), 1);
    assert_eq!(executor.waiting(), ["sleeper"]);
    assert_eq!(executor.handle().now(), Nanos::ZERO);
}

#[test]
fn run_tasks_leaves_a_source_alone_after_the_last_task() {
    /// Has something to do every 10 ns, for ever.
    struct Ticker(Nanos);
    impl EventSource for Ticker {
        fn next_event(&self) -> Option<Nanos> {
            Some(self.0)
        }
        fn advance(&mut self, now: Nanos) {
            self.0 = now + Nanos(10);
        }
    }
    let mut executor = Executor::new_virtual();
    let handle = executor.handle();
    handle.add_source(Rc::new(RefCell::new(Ticker(Nanos(10)))));
    drop(handle.spawn(handle.sleep_until(Nanos(25))));
    assert_eq!((executor.run_tasks(Nanos(15)), handle.now()), (1, Nanos(10)));
    assert_eq!((executor.run_tasks(Nanos(100)), handle.now()), (0, Nanos(25)));
}

#[test]
fn run_until_stops_between_events() {
    let mut executor = Executor::new_virtual();
    let handle = executor.handle();
    let join = executor.handle().spawn(async move {
        handle.sleep(Nanos(10)).await;
        handle.sleep(Nanos(10)).await;
        handle.now()
    });
    assert_eq!(executor.run_until(Nanos(15)), 1);
    assert_eq!(executor.handle().now(), Nanos(15));
    // A timer set now goes before the one that the run did not reach.
    let handle = executor.handle();
    let early = executor.handle().spawn(async move {
        handle.sleep(Nanos(1)).await;
        handle.now()
    });
    assert_eq!(executor.run_until(Nanos(20)), 0);
    assert_eq!(executor.block_on(early), Nanos(16));
    assert_eq!(executor.block_on(join), Nanos(20));
}

#[test]
fn block_on_borrows_and_leaves_other_tasks_where_they_are() {
    let mut executor = Executor::new_virtual();
    let handle = executor.handle();
    let other = handle.spawn({
        let handle = handle.clone();
        async move {
            handle.sleep(Nanos(100)).await;
            7
        }
    });
    let local = String::from("borrowed");
    let length = executor.block_on(async {
        handle.sleep(Nanos(10)).await;
        local.len()
    });
    assert_eq!((length, handle.now()), (8, Nanos(10)));
    assert!(!other.is_finished());
    assert_eq!(executor.block_on(other), 7);
}

#[test]
fn deadlock_names_who_waits() {
    let mut executor = Executor::new_virtual();
    executor.handle().spawn_named("journal", std::future::pending::<()>());
    let panic = catch_unwind(AssertUnwindSafe(|| executor.block_on(std::future::pending::<()>()))).unwrap_err();
    let text = message(panic);
    assert!(text.contains("deadlock") && text.contains("journal"), "{text}");
}

#[test]
fn a_task_aborted_by_another_is_dropped_at_once() {
    let mut executor = Executor::new_virtual();
    let handle = executor.handle();
    let alive = Rc::new(());
    let held = alive.clone();
    let join = handle.spawn({
        let handle = handle.clone();
        async move {
            handle.sleep(Nanos(1_000)).await;
            drop(held);
        }
    });
    executor.run_until(Nanos(10));
    assert_eq!(Rc::strong_count(&alive), 2);
    join.abort();
    assert_eq!(Rc::strong_count(&alive), 1);
    assert!(join.is_finished());
    assert_eq!(executor.block_on(join.join()), Err(Aborted));
    assert_eq!(executor.run(), 0);
    assert_eq!(executor.handle().now(), Nanos(10), "the aborted task's timer is gone");
}

#[test]
fn a_task_may_abort_itself() {
    let mut executor = Executor::new_virtual();
    let handle = executor.handle();
    let own: Rc<RefCell<Option<sim::JoinHandle<()>>>> = Rc::default();
    let inner = own.clone();
    let after = Rc::new(Cell::new(false));
    let reached = after.clone();
    let join = handle.spawn({
        let handle = handle.clone();
        async move {
            if let Some(join) = &*inner.borrow() {
                join.abort();
            }
            handle.sleep(Nanos(1)).await;
            reached.set(true);
        }
    });
    *own.borrow_mut() = Some(join);
    assert_eq!(executor.run(), 0);
    assert!(!after.get());
    assert!(own.borrow().as_ref().unwrap().is_finished());
}

#[test]
fn slots_are_used_again_and_stale_wakers_wake_nobody() {
    let mut executor = Executor::new_virtual();
    let stale = Rc::new(RefCell::new(None));
    let kept = stale.clone();
    executor.handle().spawn(std::future::poll_fn(move |cx| {
        *kept.borrow_mut() = Some(cx.waker().clone());
        Poll::Ready(())
    }));
    executor.run();
    let polls = Rc::new(Cell::new(0));
    let counted = polls.clone();
    executor.handle().spawn_named(
        "second",
        std::future::poll_fn(move |_| {
            counted.set(counted.get() + 1);
            Poll::<()>::Pending
        }),
    );
    executor.run();
    stale.borrow_mut().take().unwrap().wake();
    assert_eq!(executor.run(), 1);
    assert_eq!(polls.get(), 1);
}

#[test]
fn a_panic_comes_out_and_the_rest_goes_on() {
    let mut executor = Executor::new_virtual();
    let handle = executor.handle();
    let failed = handle.spawn(async { panic!("disk on fire") });
    let sound = handle.spawn(async { 1 });
    let panic = catch_unwind(AssertUnwindSafe(|| executor.run())).unwrap_err();
    assert_eq!(message(panic), "disk on fire");
    assert_eq!(executor.run(), 0);
    assert_eq!(executor.block_on(sound), 1);
    assert_eq!(executor.block_on(failed.join()), Err::<(), _>(Aborted));
}

#[test]
fn dropping_the_executor_drops_its_tasks() {
    let alive = Rc::new(());
    let executor = Executor::new_virtual();
    let handle = executor.handle();
    let (held, inner) = (alive.clone(), handle.clone());
    handle.spawn(async move {
        inner.sleep(Nanos(1)).await;
        drop(held);
    });
    drop(executor);
    assert_eq!(Rc::strong_count(&alive), 1);
    let late = handle.spawn(async {});
    assert!(late.is_finished(), "a task for a dropped executor is aborted at once");
}

/// Fires at each of a list of times and logs it.
struct Ticks {
    at: Vec<Nanos>,
    log: Log,
    name: &'static str,
}

impl EventSource for Ticks {
    fn next_event(&self) -> Option<Nanos> {
        self.at.first().copied()
    }
    fn advance(&mut self, now: Nanos) {
        while self.at.first().is_some_and(|&t| t <= now) {
            self.at.remove(0);
            self.log.borrow_mut().push((now.0, self.name));
        }
    }
}

/// Has something to do every 10 ns, and wakes somebody with every fifth.
struct Quiet {
    at: Nanos,
    limits: Rc<RefCell<Vec<u64>>>,
    log: Log,
}

impl EventSource for Quiet {
    fn next_event(&self) -> Option<Nanos> {
        Some(self.at)
    }
    fn advance(&mut self, now: Nanos) {
        assert_eq!(now, self.at);
        self.log.borrow_mut().push((now.0, "seen"));
        self.at += Nanos(10);
    }
    fn advance_unseen(&mut self, limit: Nanos) -> Option<Nanos> {
        self.limits.borrow_mut().push(limit.0);
        let mut reached = None;
        while self.at < limit && !self.at.0.is_multiple_of(50) {
            reached = Some(self.at);
            self.at += Nanos(10);
        }
        reached
    }
}

#[test]
fn sources_go_ahead_only_until_somebody_else_is_due() {
    let mut executor = Executor::new_virtual();
    let handle = executor.handle();
    let (log, limits) = (Log::default(), Rc::<RefCell<Vec<u64>>>::default());
    handle.add_source(Rc::new(RefCell::new(Quiet { at: Nanos(10), limits: limits.clone(), log: log.clone() })));
    handle.add_source(Rc::new(RefCell::new(Ticks { at: vec![Nanos(70)], log: log.clone(), name: "other" })));
    let (inner, logged) = (handle.clone(), log.clone());
    handle.spawn(async move {
        inner.sleep(Nanos(25)).await;
        logged.borrow_mut().push((inner.now().0, "task"));
        inner.sleep(Nanos(175)).await;
    });
    // To the timer at 25, to what it wakes somebody with at 50, to the other source at
    // 70 and after it, to 100, to 150, and to the end of what was asked for.
    assert_eq!((executor.run_tasks(Nanos(165)), handle.now()), (1, Nanos(160)));
    assert_eq!(*log.borrow(), [(25, "task"), (50, "seen"), (70, "seen"), (70, "other"), (100, "seen"), (150, "seen")]);
    assert!(limits.borrow().iter().all(|limit| [25, 70, 166].contains(limit)), "{limits:?}");
}

#[test]
fn sources_go_before_timers_of_the_same_instant() {
    let mut executor = Executor::new_virtual();
    let handle = executor.handle();
    let log = Log::default();
    for (name, at) in [("ssd", vec![Nanos(5), Nanos(10)]), ("disk", vec![Nanos(10), Nanos(12)])] {
        handle.add_source(Rc::new(RefCell::new(Ticks { at, log: log.clone(), name })));
    }
    let (inner, logged) = (handle.clone(), log.clone());
    handle.spawn(async move {
        inner.sleep(Nanos(10)).await;
        logged.borrow_mut().push((inner.now().0, "task"));
    });
    assert_eq!(executor.run(), 0);
    assert_eq!(*log.borrow(), [(5, "ssd"), (10, "ssd"), (10, "disk"), (10, "task"), (12, "disk")]);
}

/// Wakes its own task for ever.
async fn spin() {
    std::future::poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    })
    .await
}

#[test]
fn standing_time_is_a_livelock() {
    let mut executor = Executor::new_virtual();
    executor.handle().spawn_named("spinner", spin());
    let panic = catch_unwind(AssertUnwindSafe(|| executor.run())).unwrap_err();
    let text = message(panic);
    assert!(text.contains("livelock") && text.contains("spinner"), "{text}");
}

/// A combinator with a waker of its own, as `FuturesUnordered` has.
#[test]
fn sleep_under_a_foreign_waker() {
    struct Flag(std::sync::atomic::AtomicBool, std::task::Waker);
    impl std::task::Wake for Flag {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
            self.1.wake_by_ref();
        }
    }
    let mut executor = Executor::new_virtual();
    let handle = executor.handle();
    let at = executor.block_on(async {
        let mut sleep = pin!(handle.sleep(Nanos(9)));
        let mut flag: Option<std::sync::Arc<Flag>> = None;
        std::future::poll_fn(|cx| {
            if flag.as_ref().is_none_or(|f| f.0.swap(false, std::sync::atomic::Ordering::Relaxed)) {
                let own = std::sync::Arc::new(Flag(false.into(), cx.waker().clone()));
                let waker = own.clone().into();
                flag = Some(own);
                return sleep.as_mut().poll(&mut std::task::Context::from_waker(&waker));
            }
            Poll::Pending
        })
        .await;
        handle.now()
    });
    assert_eq!(at, Nanos(9));
}

/// A small world of tasks that sleep, spawn and abort by dice; its history.
fn history(seed: u64) -> Vec<(u64, u64)> {
    async fn wander(handle: Handle, mut rng: sim::rng::Rng, depth: u32, log: Rc<RefCell<Vec<(u64, u64)>>>) {
        for _ in 0..20 {
            handle.sleep(Nanos(rng.random_range(0..50))).await;
            let draw: u64 = rng.random();
            log.borrow_mut().push((handle.now().0, draw));
            if depth > 0 && draw.is_multiple_of(3) {
                let name = format!("child {draw}");
                let child = wander(handle.clone(), sim::rng::stream(draw, "child"), depth - 1, log.clone());
                let join = handle.spawn_named(name, Box::pin(child) as Pin<Box<dyn Future<Output = ()>>>);
                match draw % 5 {
                    0 => join.abort(),
                    1 => join.await,
                    _ => {}
                }
            }
        }
    }
    let mut executor = Executor::new_virtual();
    let log: Rc<RefCell<Vec<(u64, u64)>>> = Rc::default();
    for i in 0..8 {
        let rng = sim::rng::stream(seed, &format!("task {i}"));
        executor.handle().spawn(wander(executor.handle(), rng, 2, Rc::clone(&log)));
    }
    assert_eq!(executor.run(), 0);
    log.take()
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let first = history(42);
    assert!(first.len() > 160);
    assert_eq!(first, history(42));
    assert_ne!(first, history(43));
}
