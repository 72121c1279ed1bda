//! The table of tasks.

use std::borrow::Cow;
use std::cell::Cell;
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

/// A task's future together with its waker; out of the table while polled.
pub(super) type Body = Pin<Box<dyn Step>>;

/// The waker of the task being polled, by identity, and its id.
pub(super) type Current = Cell<Option<(*const (), TaskId)>>;

/// One step of a task.
pub(super) trait Step {
    /// Polls the task, with `current` showing it; whether it has ended.
    fn step(self: Pin<&mut Self>, current: &Current, id: TaskId) -> bool;
}

/// A slab of tasks; ended tasks' slots are used again.
pub(super) struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u32>,
    live: usize,
    ready: Arc<Ready>,
}

/// One cache line: polling a task among very many touches its slot, its future
/// and little else.
#[repr(align(64))]
struct Slot {
    /// Matches the generation in the ids of the task that lives here.
    generation: u32,
    state: State,
    body: Option<Body>,
    waker: Arc<TaskWaker>,
    name: Option<Cow<'static, str>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    /// The body is here.
    Waiting,
    Polling,
    /// Aborted by someone it called while it was polled.
    Aborted,
}

impl Tasks {
    pub(super) fn new(ready: Arc<Ready>) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), live: 0, ready }
    }

    /// Adds the task that `make` makes of its waker, and makes it ready.
    pub(super) fn insert(&mut self, name: Option<Cow<'static, str>>, make: impl FnOnce(Waker) -> Body) -> TaskId {
        let slot = match self.free.pop() {
            Some(slot) => slot as usize,
            None => {
                let id = TaskId { slot: self.slots.len() as u32, generation: 0 };
                assert!(id.slot < TaskId::ROOT_SLOT, "more than 2^32 - 2 tasks at a time");
                let waker = Arc::new(TaskWaker::new(id, self.ready.clone()));
                self.slots.push(Slot { generation: 0, state: State::Free, body: None, waker, name: None });
                id.slot as usize
            }
        };
        let Slot { generation, state, body, waker, name: old } = &mut self.slots[slot];
        let id = TaskId { slot: slot as u32, generation: *generation };
        // Used again unless someone still holds the waker of the slot's last task.
        match Arc::get_mut(waker) {
            Some(waker) => {
                waker.id = id;
                *waker.queued.get_mut() = false;
            }
            None => *waker = Arc::new(TaskWaker::new(id, self.ready.clone())),
        }
        self.ready.push(waker);
        *body = Some(make(Waker::from(waker.clone())));
        *state = State::Waiting;
        *old = name;
        self.live += 1;
        id
    }

    /// Takes a task out to be polled; `None` when it has ended.
    #[inline]
    pub(super) fn take(&mut self, id: TaskId) -> Option<Body> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation != id.generation || slot.state != State::Waiting {
            return None;
        }
        slot.state = State::Polling;
        slot.body.take()
    }

    /// Puts a polled task back to wait; gives it back when it was aborted meanwhile.
    #[inline]
    pub(super) fn put_back(&mut self, id: TaskId, body: Body) -> Result<(), Body> {
        let slot = &mut self.slots[id.slot as usize];
        debug_assert_eq!(slot.generation, id.generation);
        if slot.state == State::Aborted {
            return Err(body);
        }
        slot.state = State::Waiting;
        slot.body = Some(body);
        Ok(())
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
                    && slot.state == State::Polling
                {
                    slot.state = State::Aborted;
                }
            }
        }
        body
    }

    /// Takes the first waiting task from slot `from` on out for good, with its slot.
    pub(super) fn abort_next(&mut self, from: u32) -> Option<(Body, u32)> {
        let slots = self.slots.get(from as usize..).unwrap_or_default();
        let slot = from + slots.iter().position(|slot| slot.state == State::Waiting)? as u32;
        let id = TaskId { slot, generation: self.slots[slot as usize].generation };
        Some((self.abort(id)?, slot))
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
        let live = self.slots.iter().enumerate().filter(|(_, s)| s.state != State::Free);
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
