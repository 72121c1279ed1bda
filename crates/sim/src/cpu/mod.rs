//! The host's processors, so that host time is modelled.
//!
//! A task of the executor that stands for a thread of the modelled host holds a
//! [`Thread`] and says when it computes; it blocks by awaiting anything else.
//! The rules, after kernel/sched of Linux 6.12:
//!
//! - A thread that computes again at the instant at which its last computation
//!   ended has not blocked: it still holds its core and goes on at no cost.
//! - A thread that comes back from blocking pays one context switch, since
//!   `__schedule` (core.c) gave its core to another thread or to the idle
//!   thread in between.
//! - It wakes on the core it last ran on if that idles, else on the next idle
//!   core, else in the queue of its last core (fair.c, `select_idle_sibling`).
//!   A pinned thread wakes on its own core.
//! - A core that would go idle first takes the thread that has waited longest
//!   in the longest queue (fair.c, `sched_balance_newidle`). Running on a core
//!   other than the last costs a migration.
//! - While others wait for its core a thread runs for at most a time slice and
//!   then goes to the end of the queue; a woken thread does not preempt.
//! - An interrupt runs at once on its core and delays whoever runs there.

mod compute;
mod config;
mod schedule;

use std::cell::RefCell;
use std::rc::Rc;

use trace::{Recorder, RequestId};
use units::Nanos;

use crate::Handle;
pub use compute::Compute;
pub use config::CpuConfig;
pub use schedule::Usage;
use schedule::{Scheduler, ThreadId};

/// A modelled host's processors; clones are the same processors.
#[derive(Clone)]
pub struct Cpus {
    handle: Handle,
    scheduler: Rc<RefCell<Scheduler>>,
}

/// A thread of the modelled host. It computes one thing at a time.
pub struct Thread {
    cpus: Cpus,
    id: ThreadId,
    syscall: Nanos,
}

impl Cpus {
    /// Processors on an executor's clock. Busy spans go to `recorder`.
    pub fn new(handle: &Handle, config: CpuConfig, recorder: Recorder) -> Self {
        let scheduler = Rc::new(RefCell::new(Scheduler::new(config, recorder)));
        handle.add_source(scheduler.clone());
        Self { handle: handle.clone(), scheduler }
    }

    /// Number of cores.
    pub fn cores(&self) -> u16 {
        self.scheduler.borrow().config().cores.get()
    }

    /// A new thread, which may run on any core or only on core `affinity`.
    /// Threads without affinity start out spread over the cores in turn.
    ///
    /// # Panics
    ///
    /// If there is no core `affinity`.
    pub fn thread(&self, name: impl Into<String>, affinity: Option<u16>) -> Thread {
        let mut scheduler = self.scheduler.borrow_mut();
        let syscall = scheduler.config().syscall;
        let id = scheduler.add_thread(name.into(), affinity);
        drop(scheduler);
        Thread { cpus: self.clone(), id, syscall }
    }

    /// Runs an interrupt handler of length `cost` on `core`, delaying what runs
    /// there; gives the time at which the handler returns. Handlers on one core
    /// run one after the other.
    ///
    /// # Panics
    ///
    /// If there is no such core.
    pub fn interrupt(&self, core: u16, cost: Nanos) -> Nanos {
        self.interrupt_for(RequestId::default(), core, cost)
    }

    /// As [`Cpus::interrupt`], on behalf of a request, which the trace then names.
    pub fn interrupt_for(&self, request: RequestId, core: u16, cost: Nanos) -> Nanos {
        let now = self.handle.now();
        if cost == Nanos::ZERO {
            return now;
        }
        self.scheduler.borrow_mut().interrupt(now, core, cost, request)
    }

    /// How long a core has been busy so far, interrupts included.
    ///
    /// # Panics
    ///
    /// If there is no such core.
    pub fn busy(&self, core: u16) -> Nanos {
        self.scheduler.borrow().busy(core, self.handle.now())
    }

    /// Counters so far, in a fixed order: (name, value). Names end in their
    /// unit (`cpu3_busy_ns`) where they have one.
    pub fn counters(&self) -> Vec<(String, u64)> {
        self.scheduler.borrow().counters(self.handle.now())
    }
}

impl Thread {
    /// Computes for `span`: waits for a core, holds it that long and returns.
    /// A span of zero needs no core and costs nothing.
    pub fn compute(&self, span: Nanos) -> Compute<'_> {
        self.compute_for(RequestId::default(), span)
    }

    /// Computes for `span` on behalf of a request, which the trace then names.
    pub fn compute_for(&self, request: RequestId, span: Nanos) -> Compute<'_> {
        Compute::new(self, request, span)
    }

    /// What entering and leaving the kernel once takes, for a thread that polls
    /// and so never gives up its core.
    pub fn syscall_cost(&self) -> Nanos {
        self.syscall
    }

    /// Enters and leaves the kernel once.
    pub fn syscall(&self) -> Compute<'_> {
        self.compute(self.syscall)
    }

    /// Enters and leaves the kernel once and computes for `span` there, on
    /// behalf of a request.
    pub fn syscall_for(&self, request: RequestId, span: Nanos) -> Compute<'_> {
        self.compute_for(request, self.syscall + span)
    }

    /// The core it runs on, or ran on last.
    pub fn core(&self) -> u16 {
        self.cpus.scheduler.borrow().core_of(self.id)
    }

    /// What it has used so far.
    pub fn usage(&self) -> Usage {
        self.cpus.scheduler.borrow().usage(self.id)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.cpus.scheduler.borrow_mut().remove_thread(self.id, self.cpus.handle.now());
    }
}
