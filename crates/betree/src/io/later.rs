//! Writes that nobody waits for yet: values that lie apart go to the device while their batches go on.
//!
//! Whoever needs them there waits: the log before a frame that names them, and who reads one.

use std::collections::BTreeMap;

use storage::{Buffer, Completion, Queue, Request, StorageError, Tag};

/// Outstanding at most.
pub(crate) const BYTES_MAX: usize = 8 << 20;

/// Writes that are on their way.
#[derive(Default)]
pub(crate) struct Later {
    queue: Option<Box<dyn Queue>>,
    /// First byte and length of each, by tag.
    flying: BTreeMap<u64, (u64, usize)>,
    bytes: usize,
    last_tag: u64,
    error: Option<StorageError>,
    /// One failed, some time.
    pub failed: bool,
}

impl Later {
    pub fn has_queue(&self) -> bool {
        self.queue.is_some()
    }

    pub fn use_queue(&mut self, queue: Box<dyn Queue>) {
        self.queue = Some(queue);
    }

    /// Whether something is on its way to `offset_bytes`.
    pub fn is_flying(&self, offset_bytes: u64) -> bool {
        self.flying.values().any(|(offset, _)| *offset == offset_bytes)
    }

    /// Hands over a write, when there is room for it.
    pub fn submit(&mut self, offset_bytes: u64, buffer: Buffer) {
        while self.bytes > 0 && self.bytes + buffer.len() > BYTES_MAX {
            self.take_arrivals();
        }
        self.last_tag += 1;
        self.bytes += buffer.len();
        self.flying.insert(self.last_tag, (offset_bytes, buffer.len()));
        if let Some(queue) = &mut self.queue {
            queue.submit(Tag(self.last_tag), Request::Write { offset_bytes, buffer });
        }
    }

    fn take_arrivals(&mut self) {
        let mut completions: Vec<Completion> = Vec::new();
        if let Some(queue) = &mut self.queue {
            queue.complete(&mut completions);
        }
        if completions.is_empty() {
            // The queue lost them.
            self.flying.clear();
            (self.bytes, self.queue, self.failed) = (0, None, true);
            self.error.get_or_insert(StorageError::Closed);
        }
        for completion in completions {
            self.bytes -= self.flying.remove(&completion.tag.0).map_or(0, |(_, bytes)| bytes);
            if let Err(error) = completion.result {
                self.failed = true;
                self.error.get_or_insert(error);
            }
        }
    }

    /// Waits for all of them.
    pub fn wait(&mut self) {
        while !self.flying.is_empty() {
            self.take_arrivals();
        }
    }

    /// What failed and nobody was told yet.
    pub fn take_error(&mut self) -> Option<StorageError> {
        self.error.take()
    }
}
