//! A storage that is never flushed, for devices whose cache outlives a power cut.

use crate::{Buffer, Completion, Queue, Request, Storage, StorageError, Tag};

/// A storage around another to which flushes do not go: they are done at once. Where a power cut takes what the device had not
/// written, nothing that was written is safe on it.
#[derive(Debug)]
pub struct Unflushed<S>(pub S);

impl<S: Storage> Storage for Unflushed<S> {
    fn capacity_bytes(&self) -> u64 {
        self.0.capacity_bytes()
    }

    fn measure(&self) -> Result<u64, StorageError> {
        self.0.measure()
    }

    fn reserve(&self, len_bytes: u64) -> Result<(), StorageError> {
        self.0.reserve(len_bytes)
    }

    fn open_queue(&self) -> Result<Box<dyn Queue>, StorageError> {
        Ok(Box::new(UnflushedQueue { inner: self.0.open_queue()?, done: Vec::new() }))
    }
}

struct UnflushedQueue {
    inner: Box<dyn Queue>,
    /// Flushes that nobody has heard of yet.
    done: Vec<Completion>,
}

impl Queue for UnflushedQueue {
    fn submit(&mut self, tag: Tag, request: Request) {
        match request {
            Request::Flush => self.done.push(Completion { tag, buffer: Buffer::default(), result: Ok(()) }),
            request => self.inner.submit(tag, request),
        }
    }

    fn complete(&mut self, completions: &mut Vec<Completion>) {
        if self.done.is_empty() {
            self.inner.complete(completions);
        }
        completions.append(&mut self.done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Memory, QueueExt, Recorded};

    #[test]
    fn everything_but_flushes_goes_through() {
        let (recorded, recording) = Recorded::new(Memory::new(1 << 20));
        let mut queue = Unflushed(recorded).open_queue().unwrap();
        queue.flush().unwrap();
        let before = recording.take().entries().len();
        assert_eq!(before, 0);
        queue.write(4096, Buffer::padded(b"there")).unwrap();
        queue.flush().unwrap();
        assert_eq!(&queue.read(4096, 4096).unwrap()[..5], b"there");
        let log = recording.take();
        assert!(!log.entries().is_empty() && !format!("{:?}", log.entries()).contains("Flush"));
    }
}
