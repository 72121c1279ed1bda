//! Who runs on which core, and until when.

use std::cell::Cell;
use std::collections::VecDeque;
use std::task::Waker;

use trace::{Recorder, RequestId, Span, Step, Track};
use units::Nanos;

use super::CpuConfig;
use crate::EventSource;

/// A thread's place in the table; valid while the thread lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ThreadId(u32);

/// What a thread has used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Time on a core, context switches and migrations included, interrupts not.
    pub busy: Nanos,
    /// Switches to this thread after it had blocked (`nvcsw` of getrusage(2)).
    pub voluntary_switches: u64,
    /// Times its core was taken from it at the end of a time slice (`nivcsw`).
    pub involuntary_switches: u64,
    /// Times it ran on another core than before.
    pub migrations: u64,
}

struct Thread {
    name: String,
    pinned: bool,
    core: u16,
    state: State,
    /// Work still to do, switches not counted.
    left: Nanos,
    request: RequestId,
    waker: Option<Waker>,
    usage: Usage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Blocked,
    Queued,
    Running,
    /// Its computation ended; it holds its core until this instant is over.
    Holding,
}

struct Core {
    queue: VecDeque<ThreadId>,
    running: Option<Running>,
    /// When the interrupt handlers now due on this core have all returned.
    interrupts_until: Nanos,
    interrupt_busy: Nanos,
    /// Time given to threads, up to the start of the present span.
    thread_busy: Nanos,
}

/// The thread that has a core.
#[derive(Clone, Copy)]
struct Running {
    thread: ThreadId,
    /// Start of the span being spent, with its switch; later than now while
    /// interrupts keep it from starting.
    since: Nanos,
    /// Interrupts within that span.
    stolen: Nanos,
    /// When its computation ends as things stand, or ended if it holds the core.
    ends: Nanos,
    slice_ends: Nanos,
}

impl Core {
    /// What a thread has spent of its span by `end`: interrupts still due then
    /// have stolen nothing yet.
    fn spent(&self, running: &Running, end: Nanos) -> Nanos {
        end.since(running.since).since(running.stolen.since(self.interrupts_until.since(end)))
    }
}

/// The scheduler of all cores; on the clock as an event source, so that what
/// it does at an instant comes after everything the tasks do there.
pub(super) struct Scheduler {
    config: CpuConfig,
    recorder: Recorder,
    threads: Vec<Option<Thread>>,
    free: Vec<u32>,
    /// Where the next thread without affinity starts out.
    next_home: u16,
    cores: Vec<Core>,
    /// When each core next changes by itself.
    events: Vec<Nanos>,
    /// The earliest of `events`, or none if it has to be looked for.
    earliest: Cell<Option<Nanos>>,
    idle: usize,
    /// Threads that queue and may run on any core.
    movable: usize,
    context_switches: u64,
    migrations: u64,
}

impl Scheduler {
    pub(super) fn new(config: CpuConfig, recorder: Recorder) -> Self {
        let count = usize::from(config.cores.get());
        let core = || Core {
            queue: VecDeque::new(),
            running: None,
            interrupts_until: Nanos::ZERO,
            interrupt_busy: Nanos::ZERO,
            thread_busy: Nanos::ZERO,
        };
        Self {
            config,
            recorder,
            threads: Vec::new(),
            free: Vec::new(),
            next_home: 0,
            cores: std::iter::repeat_with(core).take(count).collect(),
            events: vec![Nanos::MAX; count],
            earliest: Cell::new(Some(Nanos::MAX)),
            idle: count,
            movable: 0,
            context_switches: 0,
            migrations: 0,
        }
    }

    pub(super) fn config(&self) -> &CpuConfig {
        &self.config
    }

    pub(super) fn add_thread(&mut self, name: String, affinity: Option<u16>) -> ThreadId {
        let cores = self.config.cores.get();
        let core = affinity.unwrap_or_else(|| {
            let home = self.next_home;
            self.next_home = (home + 1) % cores;
            home
        });
        assert!(core < cores, "thread `{name}` is pinned to core {core}, but cores are numbered 0 to {}", cores - 1);
        let thread = Thread {
            name,
            pinned: affinity.is_some(),
            core,
            state: State::Blocked,
            left: Nanos::ZERO,
            request: RequestId::default(),
            waker: None,
            usage: Usage::default(),
        };
        match self.free.pop() {
            Some(slot) => {
                self.threads[slot as usize] = Some(thread);
                ThreadId(slot)
            }
            None => {
                self.threads.push(Some(thread));
                ThreadId(self.threads.len() as u32 - 1)
            }
        }
    }

    /// Forgets a thread, which does not compute.
    pub(super) fn remove_thread(&mut self, id: ThreadId, now: Nanos) {
        let Thread { state, core, .. } = *self.thread(id);
        assert!(matches!(state, State::Blocked | State::Holding), "a thread ended amid a computation");
        if state == State::Holding {
            self.release(core.into(), now);
        }
        self.threads[id.0 as usize] = None;
        self.free.push(id.0);
    }

    pub(super) fn core_of(&self, id: ThreadId) -> u16 {
        self.thread(id).core
    }

    pub(super) fn usage(&self, id: ThreadId) -> Usage {
        self.thread(id).usage
    }

    pub(super) fn busy(&self, core: u16, now: Nanos) -> Nanos {
        let core = &self.cores[usize::from(core)];
        let interrupts = core.interrupt_busy.since(core.interrupts_until.since(now));
        let spending = core.running.map_or(Nanos::ZERO, |running| core.spent(&running, running.ends.min(now)));
        core.thread_busy + interrupts + spending
    }

    pub(super) fn counters(&self, now: Nanos) -> Vec<(String, u64)> {
        let busy = (0..self.config.cores.get()).map(|core| (format!("cpu{core}_busy_ns"), self.busy(core, now).0));
        let totals = [("context_switches", self.context_switches), ("migrations", self.migrations)];
        busy.chain(totals.map(|(name, count)| (name.to_owned(), count))).collect()
    }

    /// Has a thread compute for `span`, now if it has or gets a core, else when
    /// its turn comes.
    pub(super) fn start(&mut self, id: ThreadId, now: Nanos, span: Nanos, request: RequestId) {
        let thread = self.thread_mut(id);
        let state = thread.state;
        assert!(
            matches!(state, State::Blocked | State::Holding),
            "thread `{}` computes two things at a time",
            thread.name
        );
        (thread.left, thread.request) = (span, request);
        if state == State::Holding {
            thread.state = State::Running;
            let core = usize::from(thread.core);
            let Core { running: Some(running), interrupts_until, .. } = &mut self.cores[core] else {
                unreachable!("a thread holds a core that runs nothing")
            };
            running.since = now.max(*interrupts_until);
            running.stolen = Nanos::ZERO;
            running.ends = running.since + span;
            self.renew_slice(core, now);
            return;
        }
        thread.usage.voluntary_switches += 1;
        let core = self.place(id);
        if self.cores[core].running.is_none() {
            self.idle -= 1;
            self.dispatch(core, id, now);
        } else {
            self.thread_mut(id).state = State::Queued;
            self.cores[core].queue.push_back(id);
            self.movable += self.is_movable(id);
            if self.cores[core].queue.len() == 1 {
                self.renew_slice(core, now);
            }
        }
    }

    /// Whether a thread's computation has ended; wakes `waker` when it does.
    pub(super) fn poll(&mut self, id: ThreadId, waker: &Waker) -> bool {
        let thread = self.thread_mut(id);
        let done = matches!(thread.state, State::Blocked | State::Holding);
        if !done && !thread.waker.as_ref().is_some_and(|w| w.will_wake(waker)) {
            thread.waker = Some(waker.clone());
        }
        done
    }

    /// Takes back a computation that nobody waits for any more.
    pub(super) fn cancel(&mut self, id: ThreadId, now: Nanos) {
        let Thread { state, core, .. } = *self.thread(id);
        let core = usize::from(core);
        match state {
            State::Blocked | State::Holding => {}
            State::Queued => {
                // A thread queues for the core it ran on last.
                self.cores[core].queue.retain(|&queued| queued != id);
                self.movable -= self.is_movable(id);
                self.thread_mut(id).state = State::Blocked;
                self.refresh(core);
            }
            State::Running => {
                self.account(core, now);
                self.release(core, now);
            }
        }
    }

    pub(super) fn interrupt(&mut self, now: Nanos, core: u16, cost: Nanos, request: RequestId) -> Nanos {
        let index = usize::from(core);
        let holding = self.holder(index).is_some();
        let Core { running, interrupts_until, interrupt_busy, .. } = &mut self.cores[index];
        let begins = now.max(*interrupts_until);
        let returns = begins + cost;
        *interrupts_until = returns;
        *interrupt_busy += cost;
        if let Some(running) = running
            && !holding
        {
            if running.since >= begins {
                running.since += cost;
            } else {
                running.stolen += cost;
            }
            running.ends += cost;
            running.slice_ends += cost;
        }
        self.refresh(index);
        self.record(index, begins, returns, request);
        returns
    }

    /// The core on which a thread that wakes is to run or to queue.
    fn place(&self, id: ThreadId) -> usize {
        let Thread { core: last, pinned, .. } = *self.thread(id);
        let last = usize::from(last);
        if pinned || self.idle == 0 || self.cores[last].running.is_none() {
            return last;
        }
        let count = self.cores.len();
        let mut others = (1..count).map(|step| (last + step) % count);
        others.find(|&core| self.cores[core].running.is_none()).unwrap_or(last)
    }

    /// Puts a thread on a core that runs nothing.
    fn dispatch(&mut self, core: usize, id: ThreadId, now: Nanos) {
        let CpuConfig { context_switch, migration, time_slice, .. } = self.config;
        let since = now.max(self.cores[core].interrupts_until);
        let thread = self.thread_mut(id);
        let migrates = usize::from(thread.core) != core;
        thread.core = core as u16;
        thread.state = State::Running;
        thread.usage.migrations += u64::from(migrates);
        let runs_from = since + context_switch + if migrates { migration } else { Nanos::ZERO };
        let ends = runs_from + thread.left;
        let slice_ends = if time_slice == Nanos::ZERO { Nanos::MAX } else { runs_from + time_slice };
        self.cores[core].running = Some(Running { thread: id, since, stolen: Nanos::ZERO, ends, slice_ends });
        self.context_switches += 1;
        self.migrations += u64::from(migrates);
        self.refresh(core);
    }

    /// Takes a core from its thread, which blocks, and gives it to the next.
    fn release(&mut self, core: usize, now: Nanos) {
        if let Some(running) = self.cores[core].running.take() {
            self.thread_mut(running.thread).state = State::Blocked;
        }
        let next = match self.cores[core].queue.pop_front() {
            None if self.movable > 0 => self.steal(),
            next => next,
        };
        match next {
            Some(next) => {
                self.movable -= self.is_movable(next);
                self.dispatch(core, next, now);
            }
            None => {
                self.idle += 1;
                self.refresh(core);
            }
        }
    }

    /// Takes the first thread that may move out of the longest queue that has one.
    fn steal(&mut self) -> Option<ThreadId> {
        let mut best: Option<(usize, usize, usize)> = None;
        for (index, core) in self.cores.iter().enumerate() {
            if best.is_some_and(|(length, ..)| core.queue.len() <= length) {
                continue;
            }
            if let Some(position) = core.queue.iter().position(|&id| !self.thread(id).pinned) {
                best = Some((core.queue.len(), index, position));
            }
        }
        let (_, core, position) = best?;
        let id = self.cores[core].queue.remove(position);
        self.refresh(core);
        id
    }

    /// 1 for a thread that may run on any core, else 0.
    fn is_movable(&self, id: ThreadId) -> usize {
        usize::from(!self.thread(id).pinned)
    }

    /// The thread that holds a core with its computation at an end.
    fn holder(&self, core: usize) -> Option<ThreadId> {
        self.cores[core].running.map(|r| r.thread).filter(|&id| self.thread(id).state == State::Holding)
    }

    /// Grants a thread that ran on alone past its slice a new one, as
    /// `update_deadline` does (fair.c), now that another waits.
    fn renew_slice(&mut self, core: usize, now: Nanos) {
        let slice = self.config.time_slice;
        if let Some(running) = &mut self.cores[core].running
            && running.slice_ends < now
        {
            running.slice_ends += slice * now.since(running.slice_ends).0.div_ceil(slice.0);
        }
        self.refresh(core);
    }

    /// Sets down the time that a core's thread has spent up to `now`.
    fn account(&mut self, core: usize, now: Nanos) {
        let Some(running) = self.cores[core].running else { return };
        let Running { thread: id, since, .. } = running;
        let end = now.max(since);
        let spent = self.cores[core].spent(&running, end);
        self.cores[core].thread_busy += spent;
        self.cores[core].running = Some(Running { since: end, stolen: Nanos::ZERO, ..running });
        let thread = self.thread_mut(id);
        thread.usage.busy += spent;
        let request = thread.request;
        self.record(core, since, end, request);
    }

    fn record(&self, core: usize, start: Nanos, end: Nanos, request: RequestId) {
        if self.recorder.is_on() && end > start {
            let track = Track::Cpu(core as u16);
            self.recorder.record(Span { start, end, track, step: Step::CpuBusy, request, offset: 0, bytes: 0 });
        }
    }

    /// Does what is due on a core.
    fn step(&mut self, core: usize, now: Nanos) {
        let Some(running) = self.cores[core].running else { return };
        let id = running.thread;
        if self.thread(id).state == State::Holding {
            // Everything at this instant has been done, and the thread did not
            // compute again: it has blocked.
            self.release(core, now);
        } else if running.ends <= now {
            self.account(core, running.ends);
            let thread = self.thread_mut(id);
            thread.state = State::Holding;
            thread.left = Nanos::ZERO;
            if let Some(waker) = thread.waker.take() {
                waker.wake();
            }
            self.refresh(core);
        } else {
            debug_assert!(running.slice_ends <= now && !self.cores[core].queue.is_empty());
            self.account(core, now);
            let thread = self.thread_mut(id);
            thread.left = thread.left.min(running.ends - now);
            thread.state = State::Queued;
            thread.usage.involuntary_switches += 1;
            self.movable += self.is_movable(id);
            let queue = &mut self.cores[core].queue;
            queue.push_back(id);
            if let Some(next) = queue.pop_front() {
                self.movable -= self.is_movable(next);
                self.dispatch(core, next, now);
            }
        }
    }

    /// Finds out again when a core next changes by itself.
    fn refresh(&mut self, core: usize) {
        let Core { running, queue, interrupts_until, .. } = &self.cores[core];
        let at = match running {
            None => Nanos::MAX,
            Some(running) if queue.is_empty() => running.ends,
            // A slice that ends amid an interrupt is noticed when the handler returns.
            Some(running) => running.ends.min(running.slice_ends.max(*interrupts_until)),
        };
        let before = std::mem::replace(&mut self.events[core], at);
        match self.earliest.get() {
            Some(earliest) if at <= earliest => self.earliest.set(Some(at)),
            Some(earliest) if before == earliest => self.earliest.set(None),
            _ => {}
        }
    }

    fn thread(&self, id: ThreadId) -> &Thread {
        match &self.threads[id.0 as usize] {
            Some(thread) => thread,
            None => unreachable!("a thread is in use after its end"),
        }
    }

    fn thread_mut(&mut self, id: ThreadId) -> &mut Thread {
        match &mut self.threads[id.0 as usize] {
            Some(thread) => thread,
            None => unreachable!("a thread is in use after its end"),
        }
    }
}

impl EventSource for Scheduler {
    fn next_event(&self) -> Option<Nanos> {
        let earliest = self.earliest.get().unwrap_or_else(|| {
            let earliest = self.events.iter().copied().min().unwrap_or(Nanos::MAX);
            self.earliest.set(Some(earliest));
            earliest
        });
        (earliest != Nanos::MAX).then_some(earliest)
    }

    fn advance(&mut self, now: Nanos) {
        // Each core takes one step: a thread that ends its computation in this
        // step holds its core until the next, when the tasks have had their say.
        for core in 0..self.events.len() {
            if self.events[core] <= now {
                self.step(core, now);
            }
        }
    }
}
