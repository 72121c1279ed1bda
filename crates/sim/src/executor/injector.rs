//! Handing work to an executor from other threads.

use std::sync::Arc;
use std::time::Instant;

use units::Nanos;

use super::Handle;
use super::clock::since;
use super::ready::Ready;

/// Hands closures to an executor on the wall clock, from any thread.
///
/// While one lives, [`super::Executor::run`] sleeps rather than returns when
/// nothing else is due. The queue has no bound of its own: whoever injects
/// bounds what it has outstanding, as a connection bounds its commands.
pub struct Injector {
    ready: Arc<Ready>,
    start: Instant,
}

/// The executor has been dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the executor has been dropped")]
pub struct Closed;

impl Injector {
    pub(super) fn new(ready: Arc<Ready>, start: Instant) -> Self {
        ready.add_injector();
        Self { ready, start }
    }

    /// The executor's clock, read from this thread.
    pub fn now(&self) -> Nanos {
        since(self.start)
    }

    /// Has the executor call `work` on its own thread, before the tasks it
    /// polls next, and wakes it if it sleeps. Closures from one thread are
    /// called in the order given.
    pub fn inject(&self, work: impl FnOnce(&Handle) + Send + 'static) -> Result<(), Closed> {
        self.ready.inject(Box::new(work)).map_err(|_| Closed)
    }
}

impl Clone for Injector {
    fn clone(&self) -> Self {
        Self::new(self.ready.clone(), self.start)
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        self.ready.remove_injector();
    }
}
