//! A storage that remembers what a power cut could have left at each moment.
//!
//! [`Recorded`] writes down every request with its bytes, when it was submitted and when it completed, in a [`crash::Log`]: the
//! crate `crash` tells from it what a cut may leave.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crash::{Content, Event, Log};
use units::Nanos;

use crate::{BLOCK_BYTES, Completion, Queue, Request, Storage, StorageError, Tag};

/// What a device of any kind writes whole or not at all; a block of [`BLOCK_BYTES`] may be torn.
const UNIT_BYTES: u32 = 512;

/// The log so far; a clone is another handle of the same one. Its clock counts entries.
#[derive(Clone, Debug)]
pub struct Recording {
    log: Arc<Mutex<Log>>,
}

impl Recording {
    /// Notes a moment of the test's own.
    pub fn mark(&self, value: u64) {
        self.push(|_| Event::Mark(value));
    }

    /// The log, taken out of the recording, which goes on with an empty one.
    pub fn take(&self) -> Log {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = empty(log.capacity_bytes());
        std::mem::replace(&mut *log, empty)
    }

    /// Adds an entry and returns it.
    fn push(&self, event: impl FnOnce(&mut Log) -> Event) -> Event {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let event = event(&mut log);
        let at = Nanos(log.entries().len() as u64);
        let pushed = log.push(at, event.clone());
        assert!(pushed.is_ok(), "requests are checked before they are recorded: {pushed:?}");
        event
    }
}

fn empty(capacity_bytes: u64) -> Log {
    const { assert!(UNIT_BYTES.is_power_of_two() && BLOCK_BYTES.is_multiple_of(UNIT_BYTES as usize)) };
    match Log::new(capacity_bytes, UNIT_BYTES) {
        Ok(log) => log,
        Err(error) => unreachable!("{error}"),
    }
}

/// A storage around another that records what goes through.
#[derive(Debug)]
pub struct Recorded<S> {
    inner: S,
    recording: Recording,
}

impl<S: Storage> Recorded<S> {
    /// Around `inner`, with the handle of the recording.
    pub fn new(inner: S) -> (Self, Recording) {
        let recording = Recording { log: Arc::new(Mutex::new(empty(inner.capacity_bytes()))) };
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

impl RecordedQueue {
    /// Notes a write; the event of its completion.
    fn write(&self, offset_bytes: u64, content: Content) -> Event {
        let mut id = crash::WriteId(0);
        self.recording.push(|log| {
            id = log.next_write();
            Event::write_of(id, offset_bytes, content, false)
        });
        Event::Completed(id)
    }
}

impl Queue for RecordedQueue {
    fn submit(&mut self, tag: Tag, request: Request) {
        let completed = match &request {
            Request::Read { .. } => None,
            // Refused below, and nothing of it happens.
            request if request.check(self.capacity_bytes).is_err() => None,
            Request::Write { offset_bytes, buffer } => {
                let content = Content::Bytes(Arc::from(&buffer[..]));
                Some(self.write(*offset_bytes, content))
            }
            Request::Discard { offset_bytes, len_bytes } => {
                Some(self.write(*offset_bytes, Content::Zeroes(*len_bytes)))
            }
            Request::Flush => match self.recording.push(|log| Event::FlushSubmitted(log.next_flush())) {
                Event::FlushSubmitted(id) => Some(Event::FlushCompleted(id)),
                _ => None,
            },
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
                self.recording.push(|_| event);
            }
        }
    }
}
