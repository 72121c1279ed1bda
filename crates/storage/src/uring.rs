//! A file through io_uring: many requests at the device at once, and one system call for all of them.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use io_uring::{IoUring, opcode, squeue, types};

use crate::file::discard;
use crate::{Completion, Queue, Request, Tag};

/// Requests at the kernel at once, at most. More wait in the program until one of them is done.
const DEPTH_MAX: u32 = 64;

/// A request at the kernel, with the memory that it transfers from or to.
struct Outstanding {
    tag: Tag,
    request: Request,
    /// Bytes transferred so far: the kernel may do less than was asked for.
    done_bytes: usize,
}

/// One thread's ring.
pub(crate) struct UringQueue {
    ring: IoUring,
    file: Arc<fs::File>,
    capacity_bytes: Arc<AtomicU64>,
    /// By the number that the kernel has of each.
    outstanding: Vec<Option<Outstanding>>,
    vacant: Vec<usize>,
    finished: Vec<Completion>,
}

impl UringQueue {
    /// # Errors
    ///
    /// Where the kernel has no io_uring or refuses it.
    pub fn new(file: Arc<fs::File>, capacity_bytes: Arc<AtomicU64>) -> io::Result<Self> {
        let ring = IoUring::builder().dontfork().build(DEPTH_MAX)?;
        let outstanding = (0..DEPTH_MAX).map(|_| None).collect();
        let vacant = (0..DEPTH_MAX as usize).rev().collect();
        Ok(Self { ring, file, capacity_bytes, outstanding, vacant, finished: Vec::new() })
    }

    fn in_flight(&self) -> usize {
        self.outstanding.len() - self.vacant.len()
    }

    /// Hands over what is left of the request with a number.
    fn push(&mut self, number: usize) {
        let Some(Some(one)) = self.outstanding.get_mut(number) else { return };
        let file = types::Fd(self.file.as_raw_fd());
        let done = one.done_bytes;
        let entry: squeue::Entry = match &mut one.request {
            Request::Read { offset_bytes, buffer } => {
                let rest = &mut buffer[done..];
                let len = u32::try_from(rest.len()).unwrap_or(1 << 30);
                opcode::Read::new(file, rest.as_mut_ptr(), len).offset(*offset_bytes + done as u64).build()
            }
            Request::Write { offset_bytes, buffer } => {
                let rest = &buffer[done..];
                let len = u32::try_from(rest.len()).unwrap_or(1 << 30);
                opcode::Write::new(file, rest.as_ptr(), len).offset(*offset_bytes + done as u64).build()
            }
            Request::Flush => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
            Request::Discard { .. } => return,
        };
        let entry = entry.user_data(number as u64);
        // SAFETY: the buffer stays in `outstanding`, where nobody touches it, until the request's completion was
        // taken; its memory is on the heap and does not move. The ring and its slots are dropped only when nothing is
        // in flight (`drop`). The file is open as long as `self.file`.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        // There are as many entries as slots, and every slot has at most one.
        assert!(pushed.is_ok(), "the submission queue has an entry for every slot");
    }

    fn finish(&mut self, number: usize, result: Result<(), io::Error>) {
        let Some(one) = self.outstanding.get_mut(number).and_then(Option::take) else { return };
        self.vacant.push(number);
        let result = result.map_err(|source| one.request.failed(source));
        self.finished.push(Completion { tag: one.tag, buffer: one.request.into_buffer(), result });
    }

    /// Takes what the kernel has completed.
    fn reap(&mut self) {
        loop {
            let Some(entry) = self.ring.completion().next() else { return };
            let number = entry.user_data() as usize;
            let Some(Some(one)) = self.outstanding.get_mut(number) else { continue };
            let wanted = match &one.request {
                Request::Read { buffer, .. } | Request::Write { buffer, .. } => buffer.len() - one.done_bytes,
                Request::Flush | Request::Discard { .. } => 0,
            };
            match usize::try_from(entry.result()) {
                Ok(done) if done >= wanted => self.finish(number, Ok(())),
                Ok(0) => {
                    let kind = match one.request {
                        Request::Read { .. } => io::ErrorKind::UnexpectedEof,
                        _ => io::ErrorKind::WriteZero,
                    };
                    self.finish(number, Err(kind.into()));
                }
                Ok(done) => {
                    one.done_bytes += done;
                    self.push(number);
                }
                Err(_) => {
                    let error = io::Error::from_raw_os_error(-entry.result());
                    match error.kind() {
                        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => self.push(number),
                        _ => self.finish(number, Err(error)),
                    }
                }
            }
        }
    }

    /// Submits what was handed over, waits for a completion, and takes all there are.
    fn wait(&mut self) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The completion queue is full: taking from it makes room.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        self.reap();
        Ok(())
    }
}

impl Queue for UringQueue {
    fn submit(&mut self, tag: Tag, request: Request) {
        let checked = request.check(self.capacity_bytes.load(Ordering::Acquire));
        let nothing = !matches!(request, Request::Flush) && request.extent().1 == 0;
        if checked.is_err() || nothing {
            let buffer = request.into_buffer();
            self.finished.push(Completion { tag, buffer, result: checked });
            return;
        }
        if let Request::Discard { offset_bytes, len_bytes } = request {
            let result = discard(&self.file, offset_bytes, len_bytes).map_err(|source| request.failed(source));
            self.finished.push(Completion { tag, buffer: request.into_buffer(), result });
            return;
        }
        while self.vacant.is_empty() {
            if let Err(source) = self.wait() {
                let result = Err(request.failed(source));
                self.finished.push(Completion { tag, buffer: request.into_buffer(), result });
                return;
            }
        }
        if let Some(number) = self.vacant.pop()
            && let Some(slot) = self.outstanding.get_mut(number)
        {
            *slot = Some(Outstanding { tag, request, done_bytes: 0 });
            self.push(number);
        }
    }

    fn complete(&mut self, completions: &mut Vec<Completion>) {
        while self.finished.is_empty() && self.in_flight() > 0 {
            if self.wait().is_err() {
                // Nothing more will come. Whoever asks sees that fewer came than are outstanding.
                break;
            }
        }
        completions.append(&mut self.finished);
    }
}

impl Drop for UringQueue {
    fn drop(&mut self) {
        while self.in_flight() > 0 {
            if self.wait().is_err() {
                // The kernel may still write to the buffers, so they are never given back.
                std::mem::forget(std::mem::take(&mut self.outstanding));
                return;
            }
        }
    }
}
