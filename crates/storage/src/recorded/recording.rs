//! What a recorded storage was asked.

use std::sync::{Arc, Mutex, PoisonError};

/// Names a write or a discard of a recording.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WriteId(pub u64);

/// One moment of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A write or a discard was submitted.
    Submitted {
        /// Its name.
        id: WriteId,
        /// Where.
        offset_bytes: u64,
        /// What; zeroes for a discard.
        bytes: Arc<[u8]>,
    },
    /// It completed.
    Completed(WriteId),
    /// A flush was submitted; it covers the writes that completed before.
    FlushSubmitted(u64),
    /// It completed.
    FlushCompleted(u64),
    /// The test said so: for instance how much was acknowledged to its caller.
    Mark(u64),
}

#[derive(Debug, Default)]
struct State {
    events: Vec<Event>,
    writes: u64,
    flushes: u64,
}

/// The events so far; a clone is another handle of the same recording.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    state: Arc<Mutex<State>>,
}

impl Recording {
    /// Notes a moment of the test's own.
    pub fn mark(&self, value: u64) {
        self.push(Event::Mark(value));
    }

    /// The events, oldest first, taken out of the recording.
    pub fn take(&self) -> Vec<Event> {
        self.with(|state| std::mem::take(&mut state.events))
    }

    pub(super) fn push(&self, event: Event) {
        self.with(|state| state.events.push(event));
    }

    /// Notes a write, or a discard of `discard_bytes` where there are no bytes; returns the event of its completion.
    pub(super) fn write(&self, offset_bytes: u64, bytes: Option<&[u8]>, discard_bytes: u64) -> Event {
        let bytes = bytes.map_or_else(|| vec![0; discard_bytes as usize].into(), Arc::from);
        self.with(|state| {
            let id = WriteId(state.writes);
            state.writes += 1;
            state.events.push(Event::Submitted { id, offset_bytes, bytes });
            Event::Completed(id)
        })
    }

    /// Notes a flush; returns the event of its completion.
    pub(super) fn flush(&self) -> Event {
        self.with(|state| {
            let id = state.flushes;
            state.flushes += 1;
            state.events.push(Event::FlushSubmitted(id));
            Event::FlushCompleted(id)
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
