//! The steady state of tasks, timers, channels and processors allocates nothing
//! per wake-up or timer.
//!
//! A test binary of its own, since it replaces the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::num::NonZeroU16;
use std::rc::Rc;

use rand::RngExt;
use sim::cpu::{CpuConfig, Cpus};
use sim::sync::{Semaphore, mpsc};
use sim::{Executor, rng};
use trace::Recorder;
use units::Nanos;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // While a thread ends its counter is gone; nothing is measured then.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed to the system's allocator unchanged; counting
// neither allocates (the counter is const-initialised and needs no destructor)
// nor touches the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System`, as all of this allocator's do.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as for `dealloc`, and the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_steady_state_does_not_allocate_as_it_goes() {
    let mut executor = Executor::new_virtual();
    let handle = executor.handle();
    let config = CpuConfig { cores: NonZeroU16::MIN.saturating_add(3), ..CpuConfig::default() };
    let cpus = Cpus::new(&handle, config, Recorder::default());
    let semaphore = Semaphore::new(8);
    let (sender, mut receiver) = mpsc::bounded::<u64>(4);
    let served = Rc::new(Cell::new(0_u64));
    for task in 0..48 {
        let (handle, semaphore, sender) = (handle.clone(), semaphore.clone(), sender.clone());
        let thread = cpus.thread("worker", None);
        let mut rng = rng::stream(1, &format!("worker {task}"));
        handle.clone().spawn(async move {
            loop {
                handle.sleep(Nanos(rng.random_range(1..200_000))).await;
                let permit = semaphore.acquire(1).await;
                thread.syscall().await;
                thread.compute(Nanos(rng.random_range(1..1_000))).await;
                drop(permit);
                if sender.send(task).await.is_err() {
                    return;
                }
            }
        });
    }
    let (total, inner) = (served.clone(), handle.clone());
    handle.spawn(async move {
        while receiver.recv().await.is_some() {
            inner.sleep(Nanos(100)).await;
            total.set(total.get() + 1);
        }
    });
    // Only a queue longer than it ever was, or a digit of the clock that never
    // moved before, takes memory.
    executor.run_until(Nanos::from_millis(1_000));
    let (allocations, before) = (ALLOCATIONS.get(), served.get());
    executor.run_until(Nanos::from_millis(1_500));
    let (allocations, served) = (ALLOCATIONS.get() - allocations, served.get() - before);
    assert!(served > 100_000, "only {served} served");
    assert!(allocations * 10_000 <= served, "{allocations} allocations while {served} were served");
}
