//! Storage in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Buffer, Completion, Image, Queue, Request, Storage, StorageError, Tag};

/// A storage in memory. Every write is durable when it completes. A clone is another handle of the same bytes.
#[derive(Clone, Debug)]
pub struct Memory {
    image: Arc<Mutex<Image>>,
}

impl Memory {
    /// Zeroes, in `capacity_bytes` rounded down to whole blocks.
    pub fn new(capacity_bytes: u64) -> Self {
        Self::from_image(Image::new(capacity_bytes))
    }

    /// With these bytes.
    pub fn from_image(image: Image) -> Self {
        Self { image: Arc::new(Mutex::new(image)) }
    }

    /// The bytes as they are now.
    pub fn image(&self) -> Image {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, Image> {
        self.image.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out(&self, request: &mut Request) -> Result<(), StorageError> {
        let mut image = self.locked();
        request.check(image.capacity_bytes())?;
        match request {
            Request::Read { offset_bytes, buffer } => image.read(*offset_bytes, buffer),
            Request::Write { offset_bytes, buffer } => image.write(*offset_bytes, buffer),
            Request::Flush => {}
            Request::Discard { offset_bytes, len_bytes } => image.discard(*offset_bytes, *len_bytes),
        }
        Ok(())
    }
}

impl Storage for Memory {
    fn capacity_bytes(&self) -> u64 {
        self.locked().capacity_bytes()
    }

    fn open_queue(&self) -> Result<Box<dyn Queue>, StorageError> {
        Ok(Box::new(MemoryQueue { memory: self.clone(), finished: Vec::new() }))
    }
}

struct MemoryQueue {
    memory: Memory,
    finished: Vec<Completion>,
}

impl Queue for MemoryQueue {
    fn submit(&mut self, tag: Tag, mut request: Request) {
        let result = self.memory.carry_out(&mut request);
        let buffer: Buffer = request.into_buffer();
        self.finished.push(Completion { tag, buffer, result });
    }

    fn complete(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.finished);
    }
}
