//! The handle through which layers record.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Span;

/// A bounded store of spans, shared by the layers of one run.
///
/// Clones share one store. The default recorder is off and costs a branch.
#[derive(Clone, Default)]
pub struct Recorder {
    store: Option<Arc<Store>>,
}

/// Shared by one thread almost always: then its lock is free.
struct Store {
    stopped: AtomicBool,
    kept: Mutex<Kept>,
}

impl Store {
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Kept {
    spans: Vec<Span>,
    capacity: usize,
    dropped: u64,
}

impl Recorder {
    /// A recorder that keeps the first `capacity` spans and counts the rest.
    pub fn bounded(capacity: usize) -> Self {
        let kept = Kept { spans: Vec::new(), capacity, dropped: 0 };
        Self { store: Some(Arc::new(Store { stopped: AtomicBool::new(false), kept: Mutex::new(kept) })) }
    }

    /// Keeps nothing from now on, and counts nothing: a stopped recorder costs
    /// what one that is off does.
    pub fn stop(&self) {
        if let Some(store) = &self.store {
            store.stopped.store(true, Ordering::Relaxed);
        }
    }

    /// Whether spans are kept; ask before computing an expensive one.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.store.as_ref().is_some_and(|store| !store.is_stopped())
    }

    /// Records one span.
    #[inline]
    pub fn record(&self, span: Span) {
        if let Some(store) = self.store.as_ref().filter(|store| !store.is_stopped()) {
            store.kept().push(span);
        }
    }

    /// Takes what was recorded, in recording order, and how many spans were
    /// dropped for want of room.
    pub fn take(&self) -> (Vec<Span>, u64) {
        match &self.store {
            None => (Vec::new(), 0),
            Some(store) => {
                let mut kept = store.kept();
                (std::mem::take(&mut kept.spans), std::mem::take(&mut kept.dropped))
            }
        }
    }
}

impl Kept {
    fn push(&mut self, span: Span) {
        debug_assert!(span.start <= span.end, "span ends before it starts: {span:?}");
        if self.spans.len() < self.capacity {
            self.spans.push(span);
        } else {
            self.dropped += 1;
        }
    }
}
