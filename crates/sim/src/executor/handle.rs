//! A task's way to its executor.

use std::borrow::Cow;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use units::Nanos;

use super::join::{Completion, JoinHandle, Spawned};
use super::tasks::Body;
use super::{Core, EventSource, Sleep};

/// A task's way to the clock and to new tasks.
#[derive(Clone)]
pub struct Handle {
    pub(super) core: Rc<Core>,
}

impl Handle {
    /// The clock: what the executor jumped to, or the time since it was made.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.core.clock.now()
    }

    /// Starts a task. Dropping the returned handle lets the task run on.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        self.start(None, future)
    }

    /// Starts a task that messages call `name`: see [`super::Executor::waiting`].
    pub fn spawn_named<T: 'static>(
        &self,
        name: impl Into<Cow<'static, str>>,
        future: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        self.start(Some(name.into()), future)
    }

    fn start<T: 'static>(
        &self,
        name: Option<Cow<'static, str>>,
        future: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        let (completion, mut join) = Completion::new();
        // After the executor is gone the task is dropped at once, that is, aborted.
        if !self.core.closed.get() {
            let spawned = |waker| -> Body { Box::pin(Spawned::new(future, completion, waker)) };
            let id = self.core.tasks.borrow_mut().insert(name, spawned);
            join.set_task(Rc::downgrade(&self.core), id);
        }
        join
    }

    /// Waits until the clock shows `at`; `Nanos::MAX` waits for ever.
    pub fn sleep_until(&self, at: Nanos) -> Sleep {
        Sleep::new(self.core.clone(), at)
    }

    /// Waits for `span` from now.
    pub fn sleep(&self, span: Nanos) -> Sleep {
        self.sleep_until(self.now() + span)
    }

    /// Puts a source on the clock.
    pub fn add_source(&self, source: Rc<RefCell<dyn EventSource>>) {
        self.core.sources.borrow_mut().push(source);
    }
}
