//! Wakers that tell which of a task's many futures can go on.
//!
//! A task that waits for thousands of I/Os at once must not look at all of them
//! each time that one has completed.

use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

/// Places, each with a waker of its own, that all wake one task.
#[derive(Default)]
pub(super) struct Wakers {
    shared: Arc<Shared>,
    /// Room for what [`Wakers::woken`] hands out.
    spare: Vec<u32>,
}

/// What the wakers reach. A `Waker` must be `Send`, hence the lock; there is one
/// thread, so nobody ever waits for it.
#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    woken: Vec<u32>,
    task: Option<Waker>,
}

struct PlaceWaker {
    place: u32,
    shared: Arc<Shared>,
}

impl Wake for PlaceWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let task = self.shared.with(|inner| {
            inner.woken.push(self.place);
            inner.task.take()
        });
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl Shared {
    fn with<R>(&self, work: impl FnOnce(&mut Inner) -> R) -> R {
        // A poisoned lock means a panic is under way; its data is still whole.
        let mut inner = self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        work(&mut inner)
    }
}

impl Wakers {
    /// A waker for a place; one is enough for all that is ever polled there.
    pub fn of(&self, place: u32) -> Waker {
        Waker::from(Arc::new(PlaceWaker { place, shared: self.shared.clone() }))
    }

    /// The places woken since the last call, in the order of waking; give the list
    /// back with [`Wakers::reuse`].
    pub fn woken(&mut self) -> Vec<u32> {
        let mut woken = std::mem::take(&mut self.spare);
        self.shared.with(|inner| std::mem::swap(&mut inner.woken, &mut woken));
        woken
    }

    /// Takes a list of [`Wakers::woken`] back, to be filled again.
    pub fn reuse(&mut self, mut woken: Vec<u32>) {
        woken.clear();
        self.spare = woken;
    }

    /// Has the next place that is woken wake `task`.
    pub fn wake(&self, task: &Waker) {
        self.shared.with(|inner| match &mut inner.task {
            Some(known) => known.clone_from(task),
            none => *none = Some(task.clone()),
        });
    }
}
