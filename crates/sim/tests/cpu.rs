//! The CPU model against what can be worked out by hand.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::future::Future;
use std::num::NonZeroU16;
use std::pin::pin;
use std::rc::Rc;

use proptest::prelude::*;
use rand_distr::{Distribution, Exp};
use sim::cpu::{CpuConfig, Cpus, Thread};
use sim::{Executor, Handle, rng};
use trace::{Recorder, RequestId, Track};
use units::Nanos;

fn free(cores: u16) -> CpuConfig {
    CpuConfig::free(NonZeroU16::new(cores).unwrap())
}

/// Costs that are easy to tell apart in a sum.
fn costly(cores: u16) -> CpuConfig {
    CpuConfig { context_switch: Nanos(1_000), syscall: Nanos(10), migration: Nanos(100_000), ..free(cores) }
}

struct Host {
    executor: Executor,
    handle: Handle,
    cpus: Cpus,
    recorder: Recorder,
    log: Rc<RefCell<Vec<(&'static str, u64)>>>,
}

fn host(config: CpuConfig) -> Host {
    let executor = Executor::new_virtual();
    let handle = executor.handle();
    let recorder = Recorder::bounded(100_000);
    let cpus = Cpus::new(&handle, config, recorder.clone());
    Host { executor, handle, cpus, recorder, log: Rc::default() }
}

impl Host {
    /// A thread that first sleeps until `at`, then does `work`; logs its end.
    fn thread<F: Future<Output = ()> + 'static>(
        &self,
        name: &'static str,
        affinity: Option<u16>,
        at: u64,
        work: impl FnOnce(Rc<Thread>, Handle) -> F + 'static,
    ) -> Rc<Thread> {
        let thread = Rc::new(self.cpus.thread(name, affinity));
        let (inner, handle, log) = (thread.clone(), self.handle.clone(), self.log.clone());
        self.handle.spawn_named(name, async move {
            handle.sleep_until(Nanos(at)).await;
            work(inner, handle.clone()).await;
            log.borrow_mut().push((name, handle.now().0));
        });
        thread
    }

    fn run(mut self) -> Vec<(&'static str, u64)> {
        assert_eq!(self.executor.run(), 0);
        self.log.take()
    }
}

#[test]
fn one_core_serves_one_after_the_other() {
    let host = host(free(1));
    for name in ["a", "b", "c"] {
        host.thread(name, None, 0, |t, _| async move { t.compute(Nanos(100)).await });
    }
    assert_eq!(host.run(), [("a", 100), ("b", 200), ("c", 300)]);
}

#[test]
fn going_on_is_free_and_coming_back_is_a_switch() {
    let host = host(costly(1));
    let thread = host.thread("a", None, 0, |t, handle| async move {
        t.compute(Nanos(50)).await;
        t.syscall().await;
        t.compute(Nanos(40)).await;
        assert_eq!(handle.now(), Nanos(1_000 + 100));
        handle.sleep(Nanos(500)).await;
        t.compute(Nanos(100)).await;
    });
    let cpus = host.cpus.clone();
    assert_eq!(host.run(), [("a", 1_100 + 500 + 1_100)]);
    assert_eq!(thread.usage().voluntary_switches, 2);
    assert_eq!((thread.usage().busy, cpus.busy(0)), (Nanos(2_200), Nanos(2_200)));
}

#[test]
fn a_thread_that_goes_on_keeps_its_core_from_those_that_wait() {
    let host = host(costly(1));
    host.thread("a", None, 0, |t, _| async move {
        for _ in 0..10 {
            t.compute(Nanos(100)).await;
        }
    });
    host.thread("b", None, 1, |t, _| async move { t.compute(Nanos(100)).await });
    assert_eq!(host.run(), [("a", 2_000), ("b", 3_100)]);
}

#[test]
fn time_slices_share_a_core() {
    let mut config = costly(1);
    config.time_slice = Nanos(10_000);
    let host = host(config);
    let a = host.thread("a", None, 0, |t, _| async move { t.compute(Nanos(25_000)).await });
    let b = host.thread("b", None, 0, |t, _| async move { t.compute(Nanos(12_000)).await });
    // a 10, b 10, a 10, b 2, a 5, each with its switch of 1.
    assert_eq!(host.run(), [("b", 36_000), ("a", 42_000)]);
    assert_eq!((a.usage().involuntary_switches, b.usage().involuntary_switches), (2, 1));
}

#[test]
fn a_thread_alone_is_not_interrupted_by_its_slice() {
    let mut config = costly(1);
    config.time_slice = Nanos(10_000);
    let host = host(config);
    host.thread("a", None, 0, |t, _| async move { t.compute(Nanos(1_000_000)).await });
    // Comes amid a's third slice, which began at 21 us: waits until 31 us.
    host.thread("b", None, 25_000, |t, _| async move { t.compute(Nanos(500)).await });
    assert_eq!(host.run(), [("b", 32_500), ("a", 1_000_000 + 3 * 1_000 + 500)]);
}

#[test]
fn waking_threads_find_an_idle_core_and_idle_cores_find_threads() {
    let host = host(costly(2));
    // Both start at home; the third queues behind a on core 0.
    let a = host.thread("a", Some(0), 0, |t, _| async move { t.compute(Nanos(1_000_000)).await });
    host.thread("b", Some(1), 0, |t, _| async move { t.compute(Nanos(200_000)).await });
    let c = host.thread("c", None, 10, |t, _| async move { t.compute(Nanos(50)).await });
    assert_eq!((a.core(), c.core()), (0, 0));
    // b ends at 201 us; core 1 takes c over: a switch and a migration.
    let log = host.run();
    assert_eq!(log, [("b", 201_000), ("c", 201_000 + 1_000 + 100_000 + 50), ("a", 1_001_000)]);
    assert_eq!((c.core(), c.usage().migrations), (1, 1));
}

#[test]
fn interrupts_steal_time() {
    let mut host = host(free(2));
    host.thread("a", Some(0), 0, |t, _| async move { t.compute(Nanos(100)).await });
    host.thread("late", Some(1), 55, |t, _| async move { t.compute(Nanos(10)).await });
    host.executor.run_until(Nanos(50));
    assert_eq!(host.cpus.interrupt(0, Nanos(30)), Nanos(80));
    assert_eq!(host.cpus.interrupt(0, Nanos(5)), Nanos(85), "handlers queue");
    assert_eq!(host.cpus.interrupt(1, Nanos(20)), Nanos(70), "also where nothing runs");
    assert_eq!(host.cpus.busy(0), Nanos(50));
    let cpus = host.cpus.clone();
    assert_eq!(host.run(), [("late", 80), ("a", 135)]);
    assert_eq!((cpus.busy(0), cpus.busy(1)), (Nanos(135), Nanos(30)));
}

#[test]
fn a_slice_that_ends_amid_an_interrupt_ends_after_it() {
    let mut host = host(CpuConfig { time_slice: Nanos(10_000), ..free(1) });
    // Alone past the end of its slice at 19 930, which the interrupt puts off to 20 030.
    host.thread("a", None, 9_930, |t, _| async move { t.compute(Nanos(30_000)).await });
    host.thread("b", None, 20_000, |t, _| async move { t.compute(Nanos(500)).await });
    host.executor.run_until(Nanos(19_990));
    assert_eq!(host.cpus.interrupt(0, Nanos(100)), Nanos(20_090));
    assert_eq!(host.run(), [("b", 20_590), ("a", 9_930 + 30_000 + 100 + 500)]);
}

#[test]
fn a_dropped_computation_gives_its_core_up() {
    let host = host(free(1));
    host.thread("a", None, 0, |t, handle| async move {
        let mut work = Box::pin(t.compute(Nanos(1_000)));
        let mut patience = pin!(handle.sleep(Nanos(300)));
        std::future::poll_fn(|cx| {
            assert!(work.as_mut().poll(cx).is_pending());
            patience.as_mut().poll(cx)
        })
        .await;
        drop(work);
        handle.sleep(Nanos(50)).await;
    });
    host.thread("b", None, 10, |t, _| async move { t.compute(Nanos(100)).await });
    assert_eq!(host.run(), [("a", 350), ("b", 400)]);
}

#[test]
fn free_system_calls_take_no_events() {
    let host = host(free(1));
    host.thread("a", None, 0, |t, _| async move {
        for _ in 0..1_000 {
            t.syscall().await;
        }
    });
    let cpus = host.cpus.clone();
    assert_eq!(host.run(), [("a", 0)]);
    assert_eq!(
        cpus.counters(),
        [("cpu0_busy_ns".to_owned(), 0), ("context_switches".to_owned(), 0), ("migrations".to_owned(), 0)]
    );
}

#[test]
#[should_panic(expected = "thread `a` computes two things at a time")]
fn one_thread_computes_one_thing() {
    let host = host(free(2));
    host.thread("a", None, 0, |t, _| async move {
        let (mut one, mut two) = (pin!(t.compute(Nanos(5))), pin!(t.compute(Nanos(5))));
        std::future::poll_fn(|cx| {
            let _ = one.as_mut().poll(cx);
            two.as_mut().poll(cx)
        })
        .await;
    });
    host.run();
}

/// M/D/1: Poisson arrivals, constant service. The mean wait in the queue is
/// rho * s / (2 * (1 - rho)) (Pollaczek-Khinchine).
#[test]
fn m_d_1_waits_as_pollaczek_and_khinchine_say() {
    let service = Nanos(10_000);
    let rho = 0.5;
    let customers = 400_000;
    let mut host = host(CpuConfig { time_slice: Nanos::ZERO, ..free(1) });
    let total_wait = Rc::new(RefCell::new(0_u64));
    let (cpus, handle, total) = (host.cpus.clone(), host.handle.clone(), total_wait.clone());
    host.handle.spawn(async move {
        let mut rng = rng::stream(1, "arrivals");
        let gap = Exp::new(rho / service.0 as f64).unwrap();
        for _ in 0..customers {
            handle.sleep(Nanos(gap.sample(&mut rng).round() as u64)).await;
            let (thread, handle, total) = (cpus.thread("customer", Some(0)), handle.clone(), total.clone());
            handle.clone().spawn(async move {
                let came = handle.now();
                thread.compute(service).await;
                *total.borrow_mut() += (handle.now() - came - service).0;
            });
        }
    });
    assert_eq!(host.executor.run(), 0);
    let wait = *total_wait.borrow() as f64 / f64::from(customers);
    let formula = rho * service.0 as f64 / (2.0 * (1.0 - rho));
    assert!((wait / formula - 1.0).abs() < 0.03, "mean wait {wait:.0} ns, formula {formula:.0} ns");
    let busy = host.cpus.busy(0).as_secs_f64() / host.handle.now().as_secs_f64();
    assert!((busy / rho - 1.0).abs() < 0.01, "busy {busy:.3} of the time");
}

proptest! {
    /// Nothing is lost: cores are busy for exactly the work, the switches, the
    /// migrations and the interrupts; the trace shows the same time, and no
    /// core does two things at once.
    #[test]
    fn time_is_conserved(
        cores in 1_u16..5,
        slice in prop_oneof![Just(0_u64), 500_u64..5_000],
        threads in prop::collection::vec((any::<bool>(), prop::collection::vec((0_u64..3_000, 0_u64..3_000), 1..20)), 1..12),
        interrupts in prop::collection::vec((0_u64..4_000, 0_u16..5, 1_u64..500), 0..20),
    ) {
        let config = CpuConfig { time_slice: Nanos(slice), context_switch: Nanos(70), migration: Nanos(30), ..free(cores) };
        let host = host(config);
        let mut work = 0;
        let mut all = Vec::new();
        for (index, (pinned, steps)) in threads.into_iter().enumerate() {
            work += steps.iter().map(|s| s.0).sum::<u64>();
            let affinity = pinned.then_some(index as u16 % cores);
            all.push(host.thread("t", affinity, 0, move |t, handle| async move {
                for (compute, sleep) in steps {
                    t.compute(Nanos(compute)).await;
                    handle.sleep(Nanos(sleep)).await;
                }
                if let Some(core) = affinity {
                    assert_eq!(t.core(), core);
                }
            }));
        }
        let stolen: u64 = interrupts.iter().map(|i| i.2).sum();
        let (cpus, handle, recorder) = (host.cpus.clone(), host.handle.clone(), host.recorder.clone());
        host.handle.spawn({
            let (cpus, handle) = (cpus.clone(), handle.clone());
            async move {
                for (gap, core, cost) in interrupts {
                    handle.sleep(Nanos(gap)).await;
                    let returns = cpus.interrupt_for(RequestId(7), core % cores, Nanos(cost));
                    assert!(returns >= handle.now() + Nanos(cost));
                }
                handle.sleep(Nanos(100_000)).await;
            }
        });
        host.run();
        let counters = cpus.counters();
        let count = |name: &str| counters.iter().find(|c| c.0 == name).unwrap().1;
        let busy: u64 = (0..cores).map(|core| cpus.busy(core).0).sum();
        let overhead = 70 * count("context_switches") + 30 * count("migrations");
        prop_assert_eq!(busy, work + overhead + stolen);
        let used: u64 = all.iter().map(|t| t.usage().busy.0).sum();
        prop_assert_eq!(used, work + overhead);
        let switches: u64 = all.iter().map(|t| t.usage().voluntary_switches + t.usage().involuntary_switches).sum();
        prop_assert_eq!(switches, count("context_switches"));
        let (spans, dropped) = recorder.take();
        prop_assert_eq!(dropped, 0);
        for core in 0..cores {
            let mut own: Vec<_> = spans.iter().filter(|s| s.track == Track::Cpu(core) && s.request == RequestId(0)).collect();
            own.sort_by_key(|s| s.start);
            prop_assert!(own.windows(2).all(|w| w[0].end <= w[1].start));
            prop_assert!(cpus.busy(core) <= handle.now());
        }
    }
}
