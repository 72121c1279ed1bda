//! The executor on the wall clock.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use sim::{Closed, Executor, WallConfig};
use units::Nanos;

/// CPU time of this thread so far (`man 5 proc_pid_stat`), in clock ticks of 10 ms.
#[cfg(target_os = "linux")]
fn thread_cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn timers_take_their_time_and_never_fire_early() {
    let mut executor = Executor::new_wall();
    let handle = executor.handle();
    let began = Instant::now();
    executor.block_on(async {
        for _ in 0..50 {
            let at = handle.now() + Nanos::from_micros(400);
            handle.sleep_until(at).await;
            assert!(handle.now() >= at);
        }
    });
    assert!(began.elapsed() >= Duration::from_millis(20));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[cfg(target_os = "linux")]
#[test]
fn waiting_sleeps() {
    let mut executor = Executor::new_wall();
    let handle = executor.handle();
    let before = thread_cpu_ticks();
    executor.block_on(async { handle.sleep(Nanos::from_millis(500)).await });
    assert!(thread_cpu_ticks() - before <= 10, "half a second of waiting used the processor");
}

#[test]
fn without_spin_timers_still_fire() {
    let mut executor = Executor::new_wall_with(WallConfig { spin_ns: Nanos::ZERO });
    let handle = executor.handle();
    executor.block_on(async {
        for _ in 0..20 {
            handle.sleep(Nanos::from_micros(100)).await;
        }
    });
    assert!(handle.now() >= Nanos::from_millis(2));
}

#[test]
fn other_threads_hand_work_in() {
    let mut executor = Executor::new_wall();
    let injector = executor.injector();
    let total = Rc::new(Cell::new(0_u64));
    let (results, received) = mpsc::channel();
    let threads: Vec<_> = (0..4_u64)
        .map(|i| {
            let (injector, results) = (injector.clone(), results.clone());
            thread::spawn(move || {
                for n in 0..100 {
                    let results = results.clone();
                    let sent = injector.inject(move |handle| {
                        let inner = handle.clone();
                        handle.spawn(async move {
                            inner.sleep(Nanos::from_micros(10)).await;
                            results.send(i * 1_000 + n).unwrap();
                        });
                    });
                    assert_eq!(sent, Ok(()));
                    if n % 10 == 0 {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            })
        })
        .collect();
    drop((injector, results));
    // Returns once every thread has dropped its injector and all tasks ended.
    assert_eq!(executor.run(), 0);
    threads.into_iter().for_each(|t| t.join().unwrap());
    for value in received {
        total.set(total.get() + value);
    }
    assert_eq!(total.get(), 4 * (0..100).sum::<u64>() + 100 * (1_000 + 2_000 + 3_000));
}

#[test]
fn a_waker_works_from_another_thread() {
    let mut executor = Executor::new_wall();
    let injector = executor.injector();
    let mut sent = false;
    executor.block_on(std::future::poll_fn(move |cx| {
        if sent {
            return std::task::Poll::Ready(());
        }
        sent = true;
        let (waker, injector) = (cx.waker().clone(), injector.clone());
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            waker.wake();
            drop(injector);
        });
        std::task::Poll::Pending
    }));
}

#[test]
fn run_until_returns_at_the_deadline_though_a_task_never_rests() {
    let mut executor = Executor::new_wall();
    executor.handle().spawn(async {
        std::future::poll_fn(|cx| {
            cx.waker().wake_by_ref();
            std::task::Poll::<()>::Pending
        })
        .await
    });
    assert_eq!(executor.run_until(Nanos::from_millis(20)), 1);
    assert!(executor.handle().now() >= Nanos::from_millis(20));
}

#[test]
fn a_dropped_executor_refuses_work() {
    let executor = Executor::new_wall();
    let injector = executor.injector();
    drop(executor);
    assert_eq!(injector.inject(|_| {}), Err(Closed));
}
