//! The handle through which layers record.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::Span;

/// A bounded store of spans, shared by the layers of one run.
///
/// Clones share one store. The default recorder is off and costs a branch.
#[derive(Clone, Default)]
pub struct Recorder {
    store: Option<Rc<Store>>,
}

struct Store {
    stopped: Cell<bool>,
    kept: RefCell<Kept>,
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
        Self { store: Some(Rc::new(Store { stopped: Cell::new(false), kept: RefCell::new(kept) })) }
    }

    /// Keeps nothing from now on, and counts nothing: a stopped recorder costs
    /// what one that is off does.
    pub fn stop(&self) {
        if let Some(store) = &self.store {
            store.stopped.set(true);
        }
    }

    /// Whether spans are kept; ask before computing an expensive one.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.store.as_ref().is_some_and(|store| !store.stopped.get())
    }

    /// Records one span.
    #[inline]
    pub fn record(&self, span: Span) {
        if let Some(store) = self.store.as_ref().filter(|store| !store.stopped.get()) {
            store.kept.borrow_mut().push(span);
        }
    }

    /// Takes what was recorded, in recording order, and how many spans were
    /// dropped for want of room.
    pub fn take(&self) -> (Vec<Span>, u64) {
        match &self.store {
            None => (Vec::new(), 0),
            Some(store) => {
                let mut kept = store.kept.borrow_mut();
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
