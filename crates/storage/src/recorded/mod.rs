//! A storage that remembers what a power cut could have left at each moment.
//!
//! [`Recorded`] writes down every request with its bytes, when it was submitted and when it completed. [`Cuts`] walks
//! through that recording from cut to cut and gives for each the bytes that must have survived and the writes that may
//! have.

mod cuts;
mod recording;

use std::collections::BTreeMap;

use crate::{Completion, Queue, Request, Storage, StorageError, Tag};

pub use cuts::{Cut, Cuts, Undecided};
pub use recording::{Event, Recording, WriteId};

/// A storage around another that records what goes through.
#[derive(Debug)]
pub struct Recorded<S> {
    inner: S,
    recording: Recording,
}

impl<S: Storage> Recorded<S> {
    /// Around `inner`, with the handle of the recording.
    pub fn new(inner: S) -> (Self, Recording) {
        let recording = Recording::default();
        (Self { inner, recording: recording.clone() }, recording)
    }
}

impl<S: Storage> Storage for Recorded<S> {
    fn capacity_bytes(&self) -> u64 {
        self.inner.capacity_bytes()
    }

    fn open_queue(&self) -> Result<Box<dyn Queue>, StorageError> {
        let inner = self.inner.open_queue()?;
        let recording = self.recording.clone();
        let capacity_bytes = self.inner.capacity_bytes();
        Ok(Box::new(RecordedQueue { inner, recording, capacity_bytes, outstanding: BTreeMap::new() }))
    }
}

struct RecordedQueue {
    inner: Box<dyn Queue>,
    recording: Recording,
    capacity_bytes: u64,
    /// What each tag's completion is in the recording.
    outstanding: BTreeMap<Tag, Event>,
}

impl Queue for RecordedQueue {
    fn submit(&mut self, tag: Tag, request: Request) {
        let completed = match &request {
            Request::Read { .. } => None,
            // Refused below, and nothing of it happens.
            request if request.check(self.capacity_bytes).is_err() => None,
            Request::Write { offset_bytes, buffer } => Some(self.recording.write(*offset_bytes, Some(buffer), 0)),
            Request::Discard { offset_bytes, len_bytes } => Some(self.recording.write(*offset_bytes, None, *len_bytes)),
            Request::Flush => Some(self.recording.flush()),
        };
        if let Some(event) = completed {
            self.outstanding.insert(tag, event);
        }
        self.inner.submit(tag, request);
    }

    fn complete(&mut self, completions: &mut Vec<Completion>) {
        let before = completions.len();
        self.inner.complete(completions);
        for completion in &completions[before..] {
            // A write or flush that failed may have happened, and promises nothing: it stays outstanding.
            if let Some(event) = self.outstanding.remove(&completion.tag)
                && completion.result.is_ok()
            {
                self.recording.push(event);
            }
        }
    }
}
