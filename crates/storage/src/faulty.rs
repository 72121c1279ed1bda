//! A storage that does not do what it is asked.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{BLOCK_BYTES, Buffer, Completion, Operation, Queue, Request, Storage, StorageError, Tag};

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// The request fails and does nothing.
    Error,
    /// A read or write fails after the first half of its blocks was transferred.
    Short,
    /// The request completes only when it is alone on its queue.
    Delayed,
    /// A read or write succeeds with one bit turned over: the given one, counted from the start of its bytes modulo
    /// their number.
    Corrupt {
        /// Which bit.
        bit: u64,
    },
    /// The request succeeds and does nothing: a write that is lost, a flush that is a lie.
    Lost,
}

/// One fault, for one request or for all from it on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Which operations count; `None`: all.
    pub operation: Option<Operation>,
    /// The number of the first that fails among those that count, from 0, over all queues in order of submission.
    pub at: u64,
    /// Whether all later ones fail as well.
    pub lasting: bool,
    /// What goes wrong.
    pub kind: FaultKind,
}

#[derive(Debug, Default)]
struct Scheduled {
    faults: Vec<(Fault, u64)>,
    requests: u64,
    injected: u64,
}

/// The faults of a [`Faulty`] storage, to set and ask while it is in use.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    plan: Arc<Mutex<Scheduled>>,
}

impl Faults {
    /// Adds a fault; its count begins now.
    pub fn add(&self, fault: Fault) {
        self.with(|plan| plan.faults.push((fault, 0)));
    }

    /// Takes all faults away.
    pub fn clear(&self) {
        self.with(|plan| plan.faults.clear());
    }

    /// How many requests were submitted so far.
    pub fn requests(&self) -> u64 {
        self.with(|plan| plan.requests)
    }

    /// How many faults were injected so far.
    pub fn injected(&self) -> u64 {
        self.with(|plan| plan.injected)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Scheduled) -> T) -> T {
        work(&mut self.plan.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts a request; what goes wrong with it, if anything.
    fn next(&self, operation: Operation) -> Option<FaultKind> {
        self.with(|plan| {
            plan.requests += 1;
            let mut hit = None;
            for (fault, seen) in &mut plan.faults {
                if fault.operation.is_some_and(|wanted| wanted != operation) {
                    continue;
                }
                let number = *seen;
                *seen += 1;
                if number == fault.at || (fault.lasting && number > fault.at) {
                    hit = hit.or(Some(fault.kind));
                }
            }
            plan.injected += u64::from(hit.is_some());
            hit
        })
    }
}

/// A storage around another with faults in between.
#[derive(Debug)]
pub struct Faulty<S> {
    inner: S,
    faults: Faults,
}

impl<S: Storage> Faulty<S> {
    /// Around `inner`, with the handle that sets the faults.
    pub fn new(inner: S) -> (Self, Faults) {
        let faults = Faults::default();
        (Self { inner, faults: faults.clone() }, faults)
    }
}

impl<S: Storage> Storage for Faulty<S> {
    fn capacity_bytes(&self) -> u64 {
        self.inner.capacity_bytes()
    }

    fn measure(&self) -> Result<u64, StorageError> {
        self.inner.measure()
    }

    fn reserve(&self, len_bytes: u64) -> Result<(), StorageError> {
        self.inner.reserve(len_bytes)
    }

    fn open_queue(&self) -> Result<Box<dyn Queue>, StorageError> {
        let inner = self.inner.open_queue()?;
        let queue = FaultyQueue {
            inner,
            faults: self.faults.clone(),
            outstanding: 0,
            finished: Vec::new(),
            delayed: Vec::new(),
            failing: Vec::new(),
            corrupting: Vec::new(),
        };
        Ok(Box::new(queue))
    }
}

struct FaultyQueue {
    inner: Box<dyn Queue>,
    faults: Faults,
    /// Requests at the inner queue.
    outstanding: usize,
    /// Completions that the inner queue did not make.
    finished: Vec<Completion>,
    delayed: Vec<(Tag, Request)>,
    /// Tags whose request was shortened, with the error it gets.
    failing: Vec<(Tag, StorageError)>,
    /// Tags of reads with the bit to turn over.
    corrupting: Vec<(Tag, u64)>,
}

/// Turns over one bit.
fn flip(buffer: &mut Buffer, bit: u64) {
    let bits = buffer.len() as u64 * 8;
    if bits > 0 {
        let bit = bit % bits;
        buffer[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

fn injected(request: &Request) -> StorageError {
    request.failed(io::Error::other("injected fault"))
}

impl FaultyQueue {
    fn pass(&mut self, tag: Tag, request: Request) {
        self.outstanding += 1;
        self.inner.submit(tag, request);
    }
}

impl Queue for FaultyQueue {
    fn submit(&mut self, tag: Tag, request: Request) {
        let Some(kind) = self.faults.next(request.operation()) else {
            return self.pass(tag, request);
        };
        match (kind, request) {
            (FaultKind::Delayed, request) => self.delayed.push((tag, request)),
            (FaultKind::Corrupt { bit }, Request::Write { offset_bytes, mut buffer }) => {
                flip(&mut buffer, bit);
                self.pass(tag, Request::Write { offset_bytes, buffer });
            }
            (FaultKind::Corrupt { bit }, request @ Request::Read { .. }) => {
                self.corrupting.push((tag, bit));
                self.pass(tag, request);
            }
            (FaultKind::Short, Request::Write { offset_bytes, buffer }) if buffer.len() > BLOCK_BYTES => {
                let half = buffer.len() / BLOCK_BYTES / 2 * BLOCK_BYTES;
                let part = Buffer::padded(&buffer[..half]);
                self.failing.push((tag, injected(&Request::Write { offset_bytes, buffer })));
                self.pass(tag, Request::Write { offset_bytes, buffer: part });
            }
            (FaultKind::Lost, request) => {
                self.finished.push(Completion { tag, buffer: request.into_buffer(), result: Ok(()) });
            }
            (FaultKind::Error | FaultKind::Short | FaultKind::Corrupt { .. }, request) => {
                let result = Err(injected(&request));
                self.finished.push(Completion { tag, buffer: request.into_buffer(), result });
            }
        }
    }

    fn complete(&mut self, completions: &mut Vec<Completion>) {
        if self.outstanding == 0 && self.finished.is_empty() {
            for (tag, request) in std::mem::take(&mut self.delayed) {
                self.pass(tag, request);
            }
        }
        let before = completions.len();
        completions.append(&mut self.finished);
        if completions.len() > before && self.outstanding == 0 {
            return;
        }
        let from_inner = completions.len();
        self.inner.complete(completions);
        for completion in &mut completions[from_inner..] {
            self.outstanding = self.outstanding.saturating_sub(1);
            if let Some(at) = self.failing.iter().position(|(tag, _)| *tag == completion.tag) {
                completion.result = Err(self.failing.swap_remove(at).1);
            }
            if let Some(at) = self.corrupting.iter().position(|(tag, _)| *tag == completion.tag) {
                flip(&mut completion.buffer, self.corrupting.swap_remove(at).1);
            }
        }
    }
}
