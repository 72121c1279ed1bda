//! A file or a block device.

use std::fs;
use std::io::{self, Seek};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use rustix::io::Errno;

use crate::uring::UringQueue;
use crate::{BLOCK_BYTES, Completion, Queue, Request, Storage, StorageError, Tag};

/// How long opening waits for a lock that somebody else has: a killed owner's was seen for 33 ms.
const LOCK_ATTEMPTS: usize = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// How requests get to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FileEngine {
    /// io_uring where the kernel lets the process have it, otherwise system calls.
    #[default]
    Auto,
    /// A system call for each request, one after the other for each queue.
    Calls,
    /// io_uring, or an error when a queue is opened.
    Uring,
}

/// How to open a [`File`].
#[derive(Clone, Debug, Default)]
pub struct FileOptions {
    /// Make the file, or lengthen it, to this many bytes. A block device must have them.
    pub capacity_bytes: Option<u64>,
    /// It is only read: who may not write it can open it, and writes of it fail.
    pub read_only: bool,
    /// Go through the page cache even where direct I/O is possible.
    pub page_cache: bool,
    /// How requests get to the kernel.
    pub engine: FileEngine,
}

/// A file or a block device, locked against other processes while it is open. Direct I/O (`O_DIRECT`) is used where
/// the file system has it. With io_uring a queue's requests are at the device together and complete in any order.
#[derive(Debug)]
pub struct File {
    file: Arc<fs::File>,
    /// Its queues look at it, too.
    capacity_bytes: Arc<AtomicU64>,
    direct: bool,
    engine: FileEngine,
}

impl File {
    /// Opens `path`.
    ///
    /// # Errors
    ///
    /// [`StorageError::Locked`] when another process has it open, [`StorageError::Open`] for everything else.
    pub fn open(path: &Path, options: &FileOptions) -> Result<Self, StorageError> {
        let refused = |what: &str, source: io::Error| StorageError::Open {
            path: path.to_owned(),
            what: format!("{what}: {source}"),
            source: Some(source),
        };
        let mut how = fs::OpenOptions::new();
        how.read(true).write(!options.read_only).create(options.capacity_bytes.is_some()).truncate(false);
        let mut direct = !options.page_cache;
        let opened = if direct {
            match how.clone().custom_flags(OFlags::DIRECT.bits() as i32).open(path) {
                // The file system has no direct I/O (tmpfs before Linux 6.6).
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    direct = false;
                    how.open(path)
                }
                result => result,
            }
        } else {
            how.open(path)
        };
        let file = opened.map_err(|error| refused("cannot be opened", error))?;
        // The lock of an owner that was killed is there until the kernel is done with it.
        let mut locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        for _ in 0..LOCK_ATTEMPTS {
            if locked != Err(Errno::WOULDBLOCK) {
                break;
            }
            std::thread::sleep(LOCK_PAUSE);
            locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        }
        match locked {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(StorageError::Locked { path: path.to_owned() }),
            Err(error) => return Err(refused("cannot be locked", error.into())),
        }
        let mut len = len_bytes(&file).map_err(|error| refused("has no size", error))?;
        if let Some(wanted) = options.capacity_bytes
            && wanted > len
        {
            if file.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device()) {
                let what = format!("the device has {len} bytes and {wanted} are wanted");
                return Err(StorageError::Open { path: path.to_owned(), what, source: None });
            }
            file.set_len(wanted).map_err(|error| refused("cannot be lengthened", error))?;
            len = wanted;
        }
        let capacity_bytes = Arc::new(AtomicU64::new(whole_blocks(len)));
        Ok(Self { file: Arc::new(file), capacity_bytes, direct, engine: options.engine })
    }

    /// Whether it goes past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }
}

impl Storage for File {
    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes.load(Ordering::Acquire)
    }

    fn measure(&self) -> Result<u64, StorageError> {
        let len = len_bytes(&self.file).map_err(|source| StorageError::Size { source })?;
        Ok(self.capacity_bytes.fetch_max(whole_blocks(len), Ordering::AcqRel).max(whole_blocks(len)))
    }

    fn reserve(&self, len_bytes: u64) -> Result<(), StorageError> {
        match rustix::fs::fallocate(&*self.file, FallocateFlags::KEEP_SIZE, 0, len_bytes) {
            // A device, or a file system that cannot say.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NODEV) => Ok(()),
            Err(error) => Err(StorageError::Reserve { len_bytes, source: error.into() }),
        }
    }

    fn open_queue(&self) -> Result<Box<dyn Queue>, StorageError> {
        if self.engine != FileEngine::Calls {
            match UringQueue::new(Arc::clone(&self.file), Arc::clone(&self.capacity_bytes)) {
                Ok(queue) => return Ok(Box::new(queue)),
                Err(source) if self.engine == FileEngine::Uring => return Err(StorageError::Uring { source }),
                // Refused: by the kernel's age, a sandbox, or a bound on locked memory.
                Err(_) => {}
            }
        }
        let (file, capacity_bytes) = (Arc::clone(&self.file), Arc::clone(&self.capacity_bytes));
        Ok(Box::new(FileQueue { file, capacity_bytes, finished: Vec::new() }))
    }
}

/// How long a file or a device is.
fn len_bytes(mut file: &fs::File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    if metadata.file_type().is_block_device() { file.seek(io::SeekFrom::End(0)) } else { Ok(metadata.len()) }
}

fn whole_blocks(len: u64) -> u64 {
    len / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
}

/// A hole in a file; since Linux 4.9 a discard with zeroes of a block device. Only a hint, so a file system without it
/// is no failure.
pub(crate) fn discard(file: &fs::File, offset_bytes: u64, len_bytes: u64) -> io::Result<()> {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, hole, offset_bytes, len_bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

struct FileQueue {
    file: Arc<fs::File>,
    capacity_bytes: Arc<AtomicU64>,
    finished: Vec<Completion>,
}

impl FileQueue {
    fn carry_out(&self, request: &mut Request) -> Result<(), StorageError> {
        request.check(self.capacity_bytes.load(Ordering::Acquire))?;
        let done = match request {
            Request::Read { offset_bytes, buffer } => self.file.read_exact_at(buffer, *offset_bytes),
            Request::Write { offset_bytes, buffer } => self.file.write_all_at(buffer, *offset_bytes),
            Request::Flush => self.file.sync_data(),
            Request::Discard { offset_bytes, len_bytes } => discard(&self.file, *offset_bytes, *len_bytes),
        };
        done.map_err(|source| request.failed(source))
    }
}

impl Queue for FileQueue {
    fn submit(&mut self, tag: Tag, mut request: Request) {
        let result = self.carry_out(&mut request);
        self.finished.push(Completion { tag, buffer: request.into_buffer(), result });
    }

    fn complete(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.finished);
    }
}
