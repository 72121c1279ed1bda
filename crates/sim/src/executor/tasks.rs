//! The table of tasks.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use super::ready::Ready;

/// A task's place in the table. Stale once the task has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TaskId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl TaskId {
    /// The slot that stands for the future given to `block_on`.
    pub(super) const ROOT_SLOT: u32 = u32::MAX;
}

/// What a task's [`Waker`] holds.
pub(super) struct TaskWaker {
    pub(super) id: TaskId,
    /// Whether the task already stands in the ready queue; guarded by its lock.
    pub(super) queued: AtomicBool,
    ready: Arc<Ready>,
}

impl TaskWaker {
    pub(super) fn new(id: TaskId, ready: Arc<Ready>) -> Self {
        Self { id, queued: AtomicBool::new(false), ready }
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.push(&self);
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.push(self);
    }
}

/// What it takes to poll a task; out of the table while the task is polled.
pub(super) struct Body {
    pub(super) future: Pin<Box<dyn Future<Output = ()>>>,
    pub(super) waker: Waker,
}

/// A slab of tasks; ended tasks' slots are used again.
pub(super) struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u32>,
    live: usize,
    ready: Arc<Ready>,
}

struct Slot {
    /// Matches the generation in the ids of the task that lives here.
    generation: u32,
    state: State,
    name: Option<Cow<'static, str>>,
    waker: Arc<TaskWaker>,
}

enum State {
    Free,
    Waiting(Body),
    Polling,
    /// Aborted by someone it called while it was polled.
    Aborted,
}

impl Tasks {
    pub(super) fn new(ready: Arc<Ready>) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), live: 0, ready }
    }

    /// Adds a task and makes it ready.
    pub(super) fn insert(
        &mut self,
        name: Option<Cow<'static, str>>,
        future: Pin<Box<dyn Future<Output = ()>>>,
    ) -> TaskId {
        let id = match self.free.pop() {
            Some(slot) => TaskId { slot, generation: self.slots[slot as usize].generation },
            None => TaskId { slot: self.slots.len() as u32, generation: 0 },
        };
        assert!(id.slot < TaskId::ROOT_SLOT, "more than 2^32 - 2 tasks at a time");
        let waker = match self.slots.get_mut(id.slot as usize) {
            Some(slot) => {
                // Nobody may hold the waker of the slot's last task when it is used again.
                match Arc::get_mut(&mut slot.waker) {
                    Some(waker) => {
                        waker.id = id;
                        *waker.queued.get_mut() = false;
                    }
                    None => slot.waker = Arc::new(TaskWaker::new(id, self.ready.clone())),
                }
                slot.waker.clone()
            }
            None => {
                let waker = Arc::new(TaskWaker::new(id, self.ready.clone()));
                self.slots.push(Slot { generation: 0, state: State::Free, name: None, waker: waker.clone() });
                waker
            }
        };
        self.ready.push(&waker);
        let slot = &mut self.slots[id.slot as usize];
        slot.state = State::Waiting(Body { future, waker: Waker::from(waker) });
        slot.name = name;
        self.live += 1;
        id
    }

    /// Takes a task out to be polled; `None` when it has ended.
    #[inline]
    pub(super) fn take(&mut self, id: TaskId) -> Option<Body> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        match std::mem::replace(&mut slot.state, State::Polling) {
            State::Waiting(body) => Some(body),
            other => {
                slot.state = other;
                None
            }
        }
    }

    /// Puts a polled task back to wait; gives it back when it was aborted meanwhile.
    #[inline]
    pub(super) fn put_back(&mut self, id: TaskId, body: Body) -> Result<(), Body> {
        let slot = &mut self.slots[id.slot as usize];
        debug_assert_eq!(slot.generation, id.generation);
        match slot.state {
            State::Aborted => Err(body),
            _ => {
                slot.state = State::Waiting(body);
                Ok(())
            }
        }
    }

    /// Ends a task that was taken out.
    pub(super) fn finish(&mut self, id: TaskId) {
        let slot = &mut self.slots[id.slot as usize];
        debug_assert_eq!(slot.generation, id.generation);
        slot.state = State::Free;
        slot.name = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        self.live -= 1;
    }

    /// Ends a task that has not ended: gives its body, to be dropped outside
    /// the borrow, or marks it if it is being polled.
    pub(super) fn abort(&mut self, id: TaskId) -> Option<Body> {
        let body = self.take(id);
        match &body {
            Some(_) => self.finish(id),
            None => {
                if let Some(slot) = self.slots.get_mut(id.slot as usize)
                    && slot.generation == id.generation
                    && matches!(slot.state, State::Polling)
                {
                    slot.state = State::Aborted;
                }
            }
        }
        body
    }

    /// Takes any one waiting task out for good.
    pub(super) fn abort_any(&mut self) -> Option<Body> {
        for slot in 0..self.slots.len() {
            let id = TaskId { slot: slot as u32, generation: self.slots[slot].generation };
            if let Some(body) = self.abort(id) {
                return Some(body);
            }
        }
        None
    }

    /// Tasks that have not ended.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// What to call a task.
    pub(super) fn name(&self, id: TaskId) -> String {
        if id.slot == TaskId::ROOT_SLOT {
            return "the future given to block_on".to_owned();
        }
        match self.slots.get(id.slot as usize).and_then(|s| s.name.as_deref()) {
            Some(name) => name.to_owned(),
            None => format!("task {}", id.slot),
        }
    }

    /// The names of the tasks that have not ended, by slot.
    pub(super) fn names(&self) -> Vec<String> {
        let live = self.slots.iter().enumerate().filter(|(_, s)| !matches!(s.state, State::Free));
        live.map(|(i, s)| self.name(TaskId { slot: i as u32, generation: s.generation })).collect()
    }

    /// Clears a task's queued mark; called under the ready queue's lock.
    #[inline]
    pub(super) fn unqueue(&self, id: TaskId) {
        if let Some(slot) = self.slots.get(id.slot as usize) {
            slot.waker.queued.store(false, Ordering::Relaxed);
        }
    }
}
