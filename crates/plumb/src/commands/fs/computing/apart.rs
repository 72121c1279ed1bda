//! A storage whose time is counted apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use storage::{Completion, Queue, Request, Storage, StorageError, Tag};

/// How long storages have taken.
#[derive(Clone, Debug, Default)]
pub struct TimeApart(Arc<AtomicU64>);

impl TimeApart {
    /// Nanoseconds so far.
    pub fn ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = work();
        self.0.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        result
    }
}

/// A storage around another.
#[derive(Debug)]
pub struct Apart<S> {
    inner: S,
    time: TimeApart,
}

impl<S> Apart<S> {
    pub fn new(inner: S, time: &TimeApart) -> Self {
        Self { inner, time: time.clone() }
    }
}

impl<S: Storage> Storage for Apart<S> {
    fn capacity_bytes(&self) -> u64 {
        self.inner.capacity_bytes()
    }

    fn measure(&self) -> Result<u64, StorageError> {
        self.inner.measure()
    }

    fn open_queue(&self) -> Result<Box<dyn Queue>, StorageError> {
        Ok(Box::new(QueueApart { inner: self.inner.open_queue()?, time: self.time.clone() }))
    }
}

struct QueueApart {
    inner: Box<dyn Queue>,
    time: TimeApart,
}

impl Queue for QueueApart {
    fn submit(&mut self, tag: Tag, request: Request) {
        let Self { inner, time } = self;
        time.during(|| inner.submit(tag, request));
    }

    fn complete(&mut self, completions: &mut Vec<Completion>) {
        let Self { inner, time } = self;
        time.during(|| inner.complete(completions));
    }
}
