//! Tasks, timers and event sources on one clock.

mod clock;
mod handle;
mod injector;
mod join;
mod ready;
mod sleep;
mod tasks;
mod timers;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use units::Nanos;

use clock::Clock;
pub use clock::WallConfig;
pub use handle::Handle;
pub use injector::{Closed, Injector};
pub use join::{Aborted, JoinHandle};
use ready::{Injected, Ready, Unparked};
pub use sleep::Sleep;
use tasks::{Body, Current, TaskId, TaskWaker, Tasks};
use timers::{Timers, Waiter};

/// A sans-IO value that lives on the executor's clock.
///
/// The executor asks for the next event, moves the clock there and calls
/// `advance`; the source wakes tasks by whatever means it gave them. At one
/// instant sources go first, in the order in which they were added, then
/// timers in the order in which they were set.
pub trait EventSource {
    /// When the source next has something to do, if ever.
    fn next_event(&self) -> Option<Nanos>;
    /// Does everything due at or before `now`.
    fn advance(&mut self, now: Nanos);
    /// Does what is due before `limit` and wakes nobody, as far as it knows that
    /// beforehand: the executor, which has nothing else to do before `limit`, then
    /// need not stop at each of its instants. Returns the last of them. Asked in
    /// virtual time only.
    fn advance_unseen(&mut self, _limit: Nanos) -> Option<Nanos> {
        None
    }
}

/// Polls and events allowed at one instant of virtual time.
///
/// Past it, tasks are taken to wake each other in a circle: no modelled host
/// does this much in no time.
const LIVELOCK_STEPS: u64 = 100_000_000;

/// What the executor and its handles share.
struct Core {
    clock: Clock,
    timers: RefCell<Timers>,
    tasks: RefCell<Tasks>,
    sources: RefCell<Vec<Rc<RefCell<dyn EventSource>>>>,
    ready: Arc<Ready>,
    current: Current,
    closed: Cell<bool>,
}

/// Runs tasks until none can go on.
pub struct Executor {
    core: Rc<Core>,
    /// Tasks to poll now, in order. Not empty after a `block_on` that ended amid a round.
    batch: Vec<TaskId>,
    injected: Vec<Injected>,
    /// Polls and events since the clock last moved.
    steps: u64,
    roots: u32,
}

/// Whether sources are driven on after the last task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    NothingDue,
    TasksEnded,
}

/// The future given to `block_on`, which is polled in place.
struct Root<'a> {
    future: Pin<&'a mut dyn Future<Output = ()>>,
    task: Arc<TaskWaker>,
    waker: Waker,
    done: bool,
}

impl Executor {
    /// An executor whose clock starts at zero and jumps.
    pub fn new_virtual() -> Self {
        Self::new(Clock::new_virtual())
    }

    /// An executor on the wall clock, which starts at zero now.
    ///
    /// While nothing is due it sleeps. Make and run it on the same thread: on
    /// Linux this sets the thread's timer slack to 1 ns.
    pub fn new_wall() -> Self {
        Self::new_wall_with(WallConfig::default())
    }

    /// As [`Executor::new_wall`], with a given way of waiting.
    pub fn new_wall_with(config: WallConfig) -> Self {
        Self::new(Clock::new_wall(config))
    }

    fn new(clock: Clock) -> Self {
        let ready = Arc::new(Ready::default());
        let core = Core {
            clock,
            timers: RefCell::new(Timers::new()),
            tasks: RefCell::new(Tasks::new(ready.clone())),
            sources: RefCell::default(),
            ready,
            current: Cell::new(None),
            closed: Cell::new(false),
        };
        Self { core: Rc::new(core), batch: Vec::new(), injected: Vec::new(), steps: 0, roots: 0 }
    }

    /// A handle for tasks.
    pub fn handle(&self) -> Handle {
        Handle { core: self.core.clone() }
    }

    /// A way for other threads to hand work to this executor. While an
    /// injector lives, a run waits for it.
    ///
    /// # Panics
    ///
    /// On virtual time, where the order of outside events would not be
    /// reproducible.
    pub fn injector(&self) -> Injector {
        let Clock::Wall(wall) = &self.core.clock else { panic!("an injector needs an executor on the wall clock") };
        Injector::new(self.core.ready.clone(), wall.start)
    }

    /// Runs until no task is ready, no timer is set and no source has an event
    /// (on the wall clock: and no [`Injector`] lives); returns the number of
    /// tasks that still wait (0 when all finished, otherwise see
    /// [`Executor::waiting`]).
    ///
    /// # Panics
    ///
    /// With a task's panic; or when virtual time stands still for 10^8 steps.
    pub fn run(&mut self) -> usize {
        self.drive(None, None, Stop::NothingDue);
        self.core.tasks.borrow().len()
    }

    /// Runs everything due at or before `deadline` and leaves the clock there;
    /// returns the number of tasks that have not ended. Panics as
    /// [`Executor::run`] does.
    pub fn run_until(&mut self, deadline: Nanos) -> usize {
        self.drive(None, Some(deadline), Stop::NothingDue);
        if let Clock::Virtual(now) = &self.core.clock
            && now.get() < deadline
        {
            now.set(deadline);
            self.steps = 0;
        }
        self.core.tasks.borrow().len()
    }

    /// Runs until every task has ended, or nothing more is due by `deadline`;
    /// returns the number of tasks that have not ended. Unlike
    /// [`Executor::run_until`] it leaves the clock at the last thing it did, so
    /// that a source's own work after the last task's end has not begun.
    pub fn run_tasks(&mut self, deadline: Nanos) -> usize {
        self.drive(None, Some(deadline), Stop::TasksEnded);
        self.core.tasks.borrow().len()
    }

    /// Runs until `future` is done; other tasks keep where they are then.
    ///
    /// # Panics
    ///
    /// As [`Executor::run`] does; and when `future` waits for what can never
    /// come, with the names of the tasks that wait too.
    pub fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        let mut output = None;
        {
            let future = pin!(async { output = Some(future.await) });
            let id = TaskId { slot: TaskId::ROOT_SLOT, generation: self.roots };
            self.roots = self.roots.wrapping_add(1);
            let task = Arc::new(TaskWaker::new(id, self.core.ready.clone()));
            self.core.ready.push(&task);
            self.drive(
                Some(Root { future, waker: Waker::from(task.clone()), task, done: false }),
                None,
                Stop::NothingDue,
            );
        }
        output.unwrap_or_else(|| {
            panic!(
                "deadlock: block_on's future waits for ever at {}; so do {:?}",
                self.core.clock.now(),
                self.waiting()
            )
        })
    }

    /// The names of the tasks that have not ended.
    pub fn waiting(&self) -> Vec<String> {
        self.core.tasks.borrow().names()
    }

    /// Runs until the root is done, everything waits for ever, nothing more is
    /// due by the deadline, or `stop` says so.
    fn drive(&mut self, mut root: Option<Root<'_>>, deadline: Option<Nanos>, stop: Stop) {
        let core = self.core.clone();
        loop {
            self.take_ready(&root);
            if !self.batch.is_empty() || !self.injected.is_empty() {
                self.poll_batch(&mut root);
                if root.as_ref().is_some_and(|r| r.done) {
                    return;
                }
                // On the wall clock time passes while tasks run, so timers
                // that came due meanwhile go before the next round.
                if matches!(core.clock, Clock::Virtual(_)) {
                    continue;
                }
            }
            if stop == Stop::TasksEnded && core.tasks.borrow().len() == 0 {
                return;
            }
            let (timer, source) = self.next_events(deadline);
            let next = timer.min(source);
            let now = match &core.clock {
                Clock::Virtual(clock) => {
                    if next == Nanos::MAX || deadline.is_some_and(|d| next > d) {
                        return;
                    }
                    let now = clock.get();
                    debug_assert!(next >= now, "an event source asks for {next:?}, before now ({now:?})");
                    if next > now {
                        clock.set(next);
                        self.steps = 0;
                    }
                    next.max(now)
                }
                Clock::Wall(wall) => {
                    let now = core.clock.now();
                    if next > now {
                        if deadline.is_some_and(|d| now >= d) {
                            return;
                        }
                        if core.ready.is_pending() {
                            continue;
                        }
                        let until = next.min(deadline.unwrap_or(Nanos::MAX));
                        let until = (until != Nanos::MAX).then_some(until);
                        if wall.park(&core.ready, until) == Unparked::Never {
                            return;
                        }
                        continue;
                    }
                    now
                }
            };
            if source <= now {
                self.advance_sources(now);
                // What the sources woke goes before what the timers wake.
                self.take_ready(&root);
            }
            if timer <= now {
                self.fire_timers(now, &root);
            }
        }
    }

    /// Moves woken tasks and injected work into this round's batch.
    #[inline]
    fn take_ready(&mut self, root: &Option<Root<'_>>) {
        if !self.core.ready.is_pending() {
            return;
        }
        let tasks = self.core.tasks.borrow();
        self.core.ready.take(&mut self.batch, &mut self.injected, |id| match root {
            Some(root) if root.task.id == id => root.task.queued.store(false, Ordering::Relaxed),
            _ => tasks.unqueue(id),
        });
    }

    /// Polls the batch in order, after running the injected work.
    fn poll_batch(&mut self, root: &mut Option<Root<'_>>) {
        if !self.injected.is_empty() {
            let handle = self.handle();
            self.injected.drain(..).for_each(|work| work(&handle));
        }
        let mut next = 0;
        while let Some(&id) = self.batch.get(next) {
            next += 1;
            self.step(|tasks| tasks.name(id));
            if id.slot == TaskId::ROOT_SLOT {
                if let Some(root) = root.as_mut().filter(|r| r.task.id == id && !r.done) {
                    root.poll(&self.core);
                }
            } else {
                poll_task(&self.core, id);
            }
            if root.as_ref().is_some_and(|r| r.done) {
                // The rest of the batch runs first in the next run.
                self.batch.drain(..next);
                return;
            }
        }
        self.batch.clear();
    }

    /// Counts a step at this instant.
    #[inline]
    fn step(&mut self, who: impl FnOnce(&Tasks) -> String) {
        self.steps += 1;
        if self.steps > LIVELOCK_STEPS {
            let (now, who) = (self.core.clock.now(), who(&self.core.tasks.borrow()));
            if matches!(self.core.clock, Clock::Virtual(_)) {
                panic!("livelock: {LIVELOCK_STEPS} steps at {now} without the clock moving; the last was {who}");
            }
            self.steps = 0;
        }
    }

    /// When the next timer and the next source event are due, or never. In virtual
    /// time, a source whose events are the only ones for a while goes ahead with
    /// those that nobody sees.
    #[inline]
    fn next_events(&mut self, deadline: Option<Nanos>) -> (Nanos, Nanos) {
        let timer = self.core.timers.borrow_mut().next_ns().map_or(Nanos::MAX, Nanos);
        let (mut earliest, mut second, mut first) = (Nanos::MAX, Nanos::MAX, None);
        let sources = self.core.sources.borrow();
        for source in sources.iter() {
            if let Some(at) = source.borrow().next_event() {
                if at < earliest {
                    (earliest, second, first) = (at, earliest, Some(source));
                } else {
                    second = second.min(at);
                }
            }
        }
        let limit = timer.min(second).min(deadline.map_or(Nanos::MAX, |deadline| Nanos(deadline.0.saturating_add(1))));
        if let Some(first) = first
            && earliest < limit
            && let Clock::Virtual(clock) = &self.core.clock
        {
            let mut first = first.borrow_mut();
            if let Some(reached) = first.advance_unseen(limit) {
                debug_assert!(reached >= earliest && reached < limit);
                clock.set(reached);
                self.steps = 0;
                earliest = first.next_event().unwrap_or(Nanos::MAX).min(second);
            }
        }
        (timer, earliest)
    }

    /// Advances the sources that are due.
    fn advance_sources(&mut self, now: Nanos) {
        // Each goes out of the list's borrow, since a source may add another.
        let mut index = 0;
        while let Some((at, source)) = self.due_source(now, index) {
            index = at + 1;
            self.step(|_| format!("event source {at}"));
            source.borrow_mut().advance(now);
        }
    }

    /// The first due source from `from` on, with its index.
    fn due_source(&self, now: Nanos, from: usize) -> Option<(usize, Rc<RefCell<dyn EventSource>>)> {
        let sources = self.core.sources.borrow();
        let mut due = sources.iter().enumerate().skip(from);
        let (at, source) = due.find(|(_, s)| s.borrow().next_event().is_some_and(|t| t <= now))?;
        Some((at, source.clone()))
    }

    /// Readies the tasks whose timers are due.
    #[inline]
    fn fire_timers(&mut self, now: Nanos, root: &Option<Root<'_>>) {
        loop {
            let waiter = self.core.timers.borrow_mut().pop_due(now.0);
            match waiter {
                Some(Waiter::Task(id)) => self.batch.push(id),
                Some(Waiter::Waker(waker)) => {
                    waker.wake();
                    self.take_ready(root);
                }
                None => break,
            }
        }
    }
}

/// Ends a task that panicked, so that the executor stays whole.
struct Polling<'a> {
    core: &'a Core,
    id: TaskId,
    body: Option<Body>,
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.core.current.set(None);
        if self.body.take().is_some() {
            self.core.tasks.borrow_mut().finish(self.id);
        }
    }
}

#[inline]
fn poll_task(core: &Core, id: TaskId) {
    let Some(body) = core.tasks.borrow_mut().take(id) else { return };
    let mut polling = Polling { core, id, body: Some(body) };
    let Some(body) = &mut polling.body else { return };
    if body.as_mut().step(&core.current, id) {
        // Dropping `polling` drops the future, then frees the slot.
        return;
    }
    if let Some(body) = polling.body.take()
        && let Err(aborted) = core.tasks.borrow_mut().put_back(id, body)
    {
        polling.body = Some(aborted);
    }
}

impl Root<'_> {
    fn poll(&mut self, core: &Core) {
        core.current.set(Some((self.waker.data(), self.task.id)));
        self.done = self.future.as_mut().poll(&mut Context::from_waker(&self.waker)) == Poll::Ready(());
        core.current.set(None);
    }
}

/// Drops every task, timer and source, so that handles held inside them do not
/// keep each other alive.
impl Drop for Executor {
    fn drop(&mut self) {
        self.core.closed.set(true);
        drop(self.core.ready.close());
        let mut from = 0;
        loop {
            // Dropped outside the table's borrow; slots before `from` stay free,
            // since a closed executor takes no new tasks.
            let next = self.core.tasks.borrow_mut().abort_next(from);
            let Some((body, slot)) = next else { break };
            drop(body);
            from = slot;
        }
        let waiters = self.core.timers.borrow_mut().clear();
        drop(waiters);
        let sources = std::mem::take(&mut *self.core.sources.borrow_mut());
        drop(sources);
    }
}
