//! The two traits of the seam, and blocking calls on top.

use crate::{BLOCK_BYTES, Buffer, Operation, StorageError};

/// Names a request among those of its queue; the completion carries it back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tag(pub u64);

/// One request. Offsets and lengths are in bytes and whole blocks.
#[derive(Debug)]
pub enum Request {
    /// Fill `buffer` from `offset_bytes`.
    Read {
        /// Where.
        offset_bytes: u64,
        /// How much, and to where.
        buffer: Buffer,
    },
    /// Put `buffer` at `offset_bytes`.
    Write {
        /// Where.
        offset_bytes: u64,
        /// What.
        buffer: Buffer,
    },
    /// Make every write durable that has completed, on any queue.
    Flush,
    /// The bytes are not needed any more; what is read there afterwards is either old or zero.
    Discard {
        /// Where.
        offset_bytes: u64,
        /// How much.
        len_bytes: u64,
    },
}

impl Request {
    /// What it asks for.
    pub fn operation(&self) -> Operation {
        match self {
            Self::Read { .. } => Operation::Read,
            Self::Write { .. } => Operation::Write,
            Self::Flush => Operation::Flush,
            Self::Discard { .. } => Operation::Discard,
        }
    }

    /// Offset and length in bytes; zeroes for a flush.
    pub fn extent(&self) -> (u64, u64) {
        match self {
            Self::Read { offset_bytes, buffer } | Self::Write { offset_bytes, buffer } => {
                (*offset_bytes, buffer.len() as u64)
            }
            Self::Flush => (0, 0),
            Self::Discard { offset_bytes, len_bytes } => (*offset_bytes, *len_bytes),
        }
    }

    /// Whether a storage of `capacity_bytes` can carry it out.
    ///
    /// # Errors
    ///
    /// [`StorageError::Misaligned`] and [`StorageError::OutOfRange`].
    pub fn check(&self, capacity_bytes: u64) -> Result<(), StorageError> {
        let operation = self.operation();
        let (offset_bytes, len_bytes) = self.extent();
        if !offset_bytes.is_multiple_of(BLOCK_BYTES as u64) || !len_bytes.is_multiple_of(BLOCK_BYTES as u64) {
            return Err(StorageError::Misaligned { operation, offset_bytes, len_bytes });
        }
        if offset_bytes.checked_add(len_bytes).is_none_or(|end| end > capacity_bytes) {
            return Err(StorageError::OutOfRange { operation, offset_bytes, len_bytes, capacity_bytes });
        }
        Ok(())
    }

    /// The error that carrying it out met.
    pub(crate) fn failed(&self, source: std::io::Error) -> StorageError {
        let (offset_bytes, len_bytes) = self.extent();
        StorageError::Io { operation: self.operation(), offset_bytes, len_bytes, source }
    }

    /// Its buffer, for the completion.
    pub(crate) fn into_buffer(self) -> Buffer {
        match self {
            Self::Read { buffer, .. } | Self::Write { buffer, .. } => buffer,
            Self::Flush | Self::Discard { .. } => Buffer::default(),
        }
    }
}

/// A finished request.
#[derive(Debug)]
pub struct Completion {
    /// The request's tag.
    pub tag: Tag,
    /// The request's buffer: a read's bytes, a write's memory for reuse, empty otherwise. What a failed read left in
    /// it means nothing.
    pub buffer: Buffer,
    /// How it ended.
    pub result: Result<(), StorageError>,
}

/// Bytes that outlive the process that wrote them.
pub trait Storage: Send + Sync {
    /// Size; a multiple of [`BLOCK_BYTES`].
    fn capacity_bytes(&self) -> u64;

    /// Looks how large it is now, which [`capacity_bytes`](Self::capacity_bytes) then says; it never becomes smaller. Most storages have
    /// one size for good.
    ///
    /// # Errors
    ///
    /// Where it cannot be looked.
    fn measure(&self) -> Result<u64, StorageError> {
        Ok(self.capacity_bytes())
    }

    /// Takes room for the first so many bytes, so that writes there meet no full file system later. Nothing where all has its
    /// room anyway, or where that cannot be known.
    ///
    /// # Errors
    ///
    /// Where there is no room.
    fn reserve(&self, _len_bytes: u64) -> Result<(), StorageError> {
        Ok(())
    }

    /// A way to it for one thread.
    ///
    /// # Errors
    ///
    /// Where the kernel has no more of what a queue needs.
    fn open_queue(&self) -> Result<Box<dyn Queue>, StorageError>;
}

/// One thread's way to a storage.
pub trait Queue: Send {
    /// Hands over a request. A bad one is not an error here: it completes with what is wrong.
    fn submit(&mut self, tag: Tag, request: Request);

    /// Waits until at least one request has finished and appends what has; returns at once when nothing is
    /// outstanding.
    fn complete(&mut self, completions: &mut Vec<Completion>);
}

impl<S: Storage + ?Sized> Storage for std::sync::Arc<S> {
    fn capacity_bytes(&self) -> u64 {
        (**self).capacity_bytes()
    }

    fn measure(&self) -> Result<u64, StorageError> {
        (**self).measure()
    }

    fn reserve(&self, len_bytes: u64) -> Result<(), StorageError> {
        (**self).reserve(len_bytes)
    }

    fn open_queue(&self) -> Result<Box<dyn Queue>, StorageError> {
        (**self).open_queue()
    }
}

/// One request at a time, waited for. The queue must have nothing outstanding.
pub trait QueueExt: Queue {
    /// Submits one request and waits for it.
    ///
    /// # Errors
    ///
    /// What the request met.
    fn call(&mut self, request: Request) -> Result<Buffer, StorageError> {
        self.submit(Tag(0), request);
        let mut completions = Vec::with_capacity(1);
        self.complete(&mut completions);
        let completion = completions.pop().ok_or(StorageError::Closed)?;
        completion.result.map(|()| completion.buffer)
    }

    /// Reads `len_bytes` at `offset_bytes`.
    ///
    /// # Errors
    ///
    /// What the request met.
    fn read(&mut self, offset_bytes: u64, len_bytes: usize) -> Result<Buffer, StorageError> {
        self.read_into(offset_bytes, Buffer::zeroed(len_bytes))
    }

    /// Reads at `offset_bytes` into all of a buffer.
    ///
    /// # Errors
    ///
    /// What the request met.
    fn read_into(&mut self, offset_bytes: u64, buffer: Buffer) -> Result<Buffer, StorageError> {
        self.call(Request::Read { offset_bytes, buffer })
    }

    /// Writes `buffer` at `offset_bytes`.
    ///
    /// # Errors
    ///
    /// What the request met.
    fn write(&mut self, offset_bytes: u64, buffer: Buffer) -> Result<(), StorageError> {
        self.call(Request::Write { offset_bytes, buffer }).map(drop)
    }

    /// Makes completed writes durable.
    ///
    /// # Errors
    ///
    /// What the request met.
    fn flush(&mut self) -> Result<(), StorageError> {
        self.call(Request::Flush).map(drop)
    }
}

impl<Q: Queue + ?Sized> QueueExt for Q {}
