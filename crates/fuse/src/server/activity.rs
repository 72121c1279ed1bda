//! What a server is doing.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a server's requests, for whoever looks after it.
#[derive(Default, Debug)]
pub struct Activity {
    begun: AtomicU64,
    answered: AtomicU64,
    panics: AtomicU64,
}

impl Activity {
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self, panicked: bool) {
        self.panics.fetch_add(u64::from(panicked), Ordering::Relaxed);
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests done, those that take no answer included.
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Requests that a thread has taken and not done.
    pub fn under_way(&self) -> u64 {
        let answered = self.answered();
        self.begun.load(Ordering::Relaxed).saturating_sub(answered)
    }

    /// Requests that ended in a panic.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}
