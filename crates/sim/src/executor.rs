//! Tasks, timers and event sources on one clock.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use units::Nanos;

/// A sans-IO value that lives on the executor's clock.
///
/// The executor asks for the next event, moves the clock there and calls
/// `advance`; the source wakes tasks by whatever means it gave them.
pub trait EventSource {
    /// When the source next has something to do, if ever.
    fn next_event(&self) -> Option<Nanos>;
    /// Does everything due at or before `now`.
    fn advance(&mut self, now: Nanos);
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

struct ReadyQueue(Mutex<Vec<usize>>);

struct TaskWaker {
    id: usize,
    ready: Arc<ReadyQueue>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.0.lock().expect("ready queue").push(self.id);
    }
}

struct Core {
    now: Cell<Nanos>,
    seq: Cell<u64>,
    timers: RefCell<BinaryHeap<Reverse<(Nanos, u64, TimerWaker)>>>,
    spawned: RefCell<Vec<Task>>,
    sources: RefCell<Vec<Rc<RefCell<dyn EventSource>>>>,
}

struct TimerWaker(Waker);
impl PartialEq for TimerWaker {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for TimerWaker {}
impl PartialOrd for TimerWaker {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for TimerWaker {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// Runs tasks until none can go on.
pub struct Executor {
    core: Rc<Core>,
    ready: Arc<ReadyQueue>,
    tasks: Vec<Option<(Task, Waker)>>,
}

/// A task's way to the clock and to new tasks.
#[derive(Clone)]
pub struct Handle {
    core: Rc<Core>,
}

/// Waits for a spawned task's result.
pub struct JoinHandle<T> {
    slot: Rc<RefCell<JoinSlot<T>>>,
}

struct JoinSlot<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

impl Executor {
    /// An executor whose clock starts at zero and jumps.
    pub fn new_virtual() -> Self {
        let core = Core {
            now: Cell::new(Nanos::ZERO),
            seq: Cell::new(0),
            timers: RefCell::default(),
            spawned: RefCell::default(),
            sources: RefCell::default(),
        };
        Self { core: Rc::new(core), ready: Arc::new(ReadyQueue(Mutex::default())), tasks: Vec::new() }
    }

    /// A handle for tasks.
    pub fn handle(&self) -> Handle {
        Handle { core: self.core.clone() }
    }

    /// Runs until no task is ready, no timer is set and no source has an event;
    /// returns the number of tasks that still wait (0 when all finished).
    pub fn run(&mut self) -> usize {
        loop {
            self.run_ready();
            let timer = self.core.timers.borrow().peek().map(|Reverse(t)| t.0);
            let sources = self.core.sources.borrow().clone();
            let source = sources.iter().filter_map(|s| s.borrow().next_event()).min();
            let Some(next) = [timer, source].into_iter().flatten().min() else {
                return self.tasks.iter().flatten().count();
            };
            debug_assert!(next >= self.core.now.get(), "time went backwards");
            self.core.now.set(next);
            for s in &sources {
                let due = s.borrow().next_event().is_some_and(|t| t <= next);
                if due {
                    s.borrow_mut().advance(next);
                }
            }
            while let Some(Reverse((at, _, _))) = self.core.timers.borrow().peek() {
                if *at > next {
                    break;
                }
                let popped = self.core.timers.borrow_mut().pop();
                if let Some(Reverse((_, _, TimerWaker(waker)))) = popped {
                    waker.wake();
                }
            }
        }
    }

    fn run_ready(&mut self) {
        loop {
            for task in self.core.spawned.borrow_mut().drain(..) {
                let id = self.tasks.len();
                let waker = Waker::from(Arc::new(TaskWaker { id, ready: self.ready.clone() }));
                self.tasks.push(Some((task, waker)));
                self.ready.0.lock().expect("ready queue").push(id);
            }
            let ready = std::mem::take(&mut *self.ready.0.lock().expect("ready queue"));
            if ready.is_empty() {
                return;
            }
            for id in ready {
                let Some((task, waker)) = &mut self.tasks[id] else { continue };
                let waker = waker.clone();
                if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                    self.tasks[id] = None;
                }
            }
        }
    }
}

impl Handle {
    /// The clock.
    pub fn now(&self) -> Nanos {
        self.core.now.get()
    }

    /// Starts a task.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        let slot = Rc::new(RefCell::new(JoinSlot { value: None, waker: None }));
        let done = slot.clone();
        self.core.spawned.borrow_mut().push(Box::pin(async move {
            let value = future.await;
            let mut done = done.borrow_mut();
            done.value = Some(value);
            if let Some(waker) = done.waker.take() {
                waker.wake();
            }
        }));
        JoinHandle { slot }
    }

    /// Waits until the clock shows `at`.
    pub fn sleep_until(&self, at: Nanos) -> impl Future<Output = ()> + use<> {
        let core = self.core.clone();
        let mut set = false;
        std::future::poll_fn(move |cx| {
            if core.now.get() >= at {
                return Poll::Ready(());
            }
            if !set {
                set = true;
                let seq = core.seq.get();
                core.seq.set(seq + 1);
                core.timers.borrow_mut().push(Reverse((at, seq, TimerWaker(cx.waker().clone()))));
            }
            Poll::Pending
        })
    }

    /// Waits for `span`.
    pub fn sleep(&self, span: Nanos) -> impl Future<Output = ()> + use<> {
        self.sleep_until(self.now() + span)
    }

    /// Puts a source on the clock.
    pub fn add_source(&self, source: Rc<RefCell<dyn EventSource>>) {
        self.core.sources.borrow_mut().push(source);
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut slot = self.slot.borrow_mut();
        match slot.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
