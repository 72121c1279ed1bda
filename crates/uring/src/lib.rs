//! An io_uring that carries commands for a driver of the kernel (`IORING_OP_URING_CMD`), as ublk and FUSE take them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use io_uring::IoUring;
use io_uring::squeue::EntryMarker;

/// What came back for a command: the token it was given and its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completed {
    /// As the entry's user data had it.
    pub token: u64,
    /// Negative: an errno.
    pub result: i32,
}

/// An io_uring of commands for a driver. Its descriptor is readable while
/// completions wait.
pub struct Ring<E: EntryMarker> {
    ring: IoUring<E>,
    unsubmitted: bool,
}

/// Commands given to the kernel at once at most.
const SUBMISSION_ENTRIES: u32 = 256;

impl<E: EntryMarker> Ring<E> {
    /// A ring in which up to `commands` may be outstanding.
    ///
    /// # Errors
    ///
    /// What io_uring_setup(2) refuses.
    pub fn new(commands: u32) -> io::Result<Self> {
        let ring = IoUring::builder()
            .dontfork()
            // The loop waits in epoll, which the kernel's task work interrupts; no
            // need to interrupt it while it computes.
            .setup_coop_taskrun()
            .setup_cqsize(commands.max(2 * SUBMISSION_ENTRIES))
            .build(SUBMISSION_ENTRIES)?;
        Ok(Self { ring, unsubmitted: false })
    }

    /// Queues an entry, giving the kernel what is queued where there is no room.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    ///
    /// # Safety
    ///
    /// What the entry points at must stay valid until it completes.
    pub unsafe fn push(&mut self, entry: &E) -> io::Result<()> {
        // SAFETY: as the caller guarantees.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.unsubmitted = true;
            self.submit()?;
        }
        self.unsubmitted = true;
        Ok(())
    }

    /// Gives the kernel what is queued.
    ///
    /// # Errors
    ///
    /// What io_uring_enter(2) refuses.
    pub fn submit(&mut self) -> io::Result<()> {
        if !self.unsubmitted {
            return Ok(());
        }
        loop {
            match self.ring.submit() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) if self.ring.submission().is_empty() => break,
                Ok(_) => {}
            }
        }
        self.unsubmitted = false;
        Ok(())
    }

    /// Submits and sleeps until a completion is there.
    ///
    /// # Errors
    ///
    /// What io_uring_enter(2) refuses.
    pub fn wait(&mut self) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// The next completion, if one is there. Looks at shared memory only.
    pub fn completed(&mut self) -> Option<Completed> {
        let entry = self.ring.completion().next()?;
        Some(Completed { token: entry.user_data(), result: entry.result() })
    }

    /// Whether a completion is there.
    pub fn is_ready(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }
}

impl<E: EntryMarker> AsFd for Ring<E> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}
