//! The one interface between front-ends and a device.
//!
//! A front-end submits byte-addressed requests; the backend turns each into the
//! commands the device takes (split at its transfer limit, at most a queue's
//! depth outstanding), emulates Force Unit Access by a flush on devices without
//! it, and joins the completions into one reply.
//!
//! Like the device, the backend has no clock: the front-end says what time it
//! is. The device's clock may run ahead of the caller's by a lead, see
//! [`Backend::advance`].

mod request;
mod room;

use std::collections::VecDeque;

use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, Status, WriteOrder};
use ssd::{Completion, ControllerEvent, Device, Identity, LiveState, PowerCut, Submission, VolatileWrite, ZoneStatus};
use trace::RequestId;
use units::Nanos;

use self::request::Active;
pub use self::request::{Reply, Request};
pub(crate) use self::room::Refusals;

/// Most blocks of one Write Zeroes command: NLB is a zero-based 16-bit field
/// (NVM 3.2.8).
const MAX_WRITE_ZEROES_BLOCKS: u64 = 1 << 16;

/// Device events handled by one [`Backend::advance`] before the caller gets to
/// look at its sockets again.
const MAX_EVENTS_PER_PASS: u32 = 4096;

/// A command the device has.
#[derive(Clone, Copy)]
struct Outstanding {
    active: usize,
    /// Where a read's data belongs in the result.
    data_at: usize,
}

/// One submission queue: its command identifiers and who waits for one.
struct Queue {
    commands: Vec<Option<Outstanding>>,
    free: Vec<u16>,
    waiting: VecDeque<usize>,
}

/// A device and the requests in it. `T` is the front-end's own note on a request.
pub struct Backend<T> {
    device: Box<dyn Device>,
    identity: Identity,
    queues: Vec<Queue>,
    active: Vec<Option<Active<T>>>,
    free: Vec<usize>,
    clock: Nanos,
    completions: Vec<Completion>,
    next_request: u64,
    /// Most memory for contents.
    limit_bytes: Option<u64>,
    /// Memory that writes under way may take for contents.
    absent_bytes: u64,
    refusals: Refusals,
    /// How writes end while the image takes nothing, and when it is next tried.
    stuck: (Status, Nanos),
}

impl<T> Backend<T> {
    /// Takes a device.
    pub fn new(device: Box<dyn Device>) -> Self {
        let identity = device.identity().clone();
        let depth = identity.queue_depth.max(1);
        let queues = (0..identity.queues.max(1))
            .map(|_| Queue {
                commands: vec![None; usize::from(depth)],
                free: (0..depth).rev().collect(),
                waiting: VecDeque::new(),
            })
            .collect();
        Self {
            device,
            identity,
            queues,
            active: Vec::new(),
            free: Vec::new(),
            clock: Nanos::ZERO,
            completions: Vec::new(),
            next_request: 1,
            limit_bytes: None,
            absent_bytes: 0,
            refusals: Refusals::default(),
            stuck: (Status::WRITE_FAULT, Nanos::ZERO),
        }
    }

    /// The device's description.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The device's counters.
    pub fn counters(&self) -> Vec<(String, u64)> {
        self.device.counters()
    }

    /// Requests not yet answered.
    pub fn outstanding(&self) -> usize {
        self.active.len() - self.free.len()
    }

    /// Size of a namespace in bytes; 0 where there is none.
    pub fn namespace_bytes(&self, nsid: NamespaceId) -> u64 {
        let index = (nsid.0 as usize).wrapping_sub(1);
        let blocks = self.identity.namespace_blocks.get(index).copied().unwrap_or(0);
        blocks * u64::from(self.identity.lba_bytes)
    }

    /// Gives the device a request at `now` on queue `queue` modulo the device's
    /// queues. It is always answered, by a later [`Backend::advance`].
    ///
    /// An extent that is empty, not made of whole logical blocks, or not inside
    /// the namespace is answered with `INVALID_FIELD` or `LBA_OUT_OF_RANGE`.
    pub fn submit(
        &mut self,
        now: Nanos,
        queue: usize,
        nsid: NamespaceId,
        request: Request,
        context: T,
        replies: &mut Vec<Reply<T>>,
    ) {
        let absent_bytes = self.absent_bytes_of(nsid, &request);
        if let Some(status) = self.refusal(nsid, &request).or_else(|| self.no_room(now, &request, absent_bytes)) {
            replies.push(Reply { context, result: Err(status), value: 0, submitted_at: now, completed_at: now });
            return;
        }
        // What is due before the command is submitted happens before it.
        self.run_until(now, replies);
        self.clock = self.clock.max(now);
        let (fua, native) = match request {
            Request::Write { fua, .. } | Request::WriteZeroes { fua, .. } => (fua, self.identity.supports_fua),
            // Dataset Management has no FUA bit (NVM 3.2.3).
            Request::Trim { fua, .. } => (fua, false),
            Request::Read { .. } | Request::Flush | Request::Command { .. } => (false, true),
        };
        let data = match request {
            // A read of one command takes the device's own buffer.
            Request::Read { length, .. } if length > self.transfer_bytes() => vec![0; length as usize],
            _ => Vec::new(),
        };
        let (offset, length) = request.extent().unwrap_or_default();
        let entry = Active {
            context,
            nsid,
            flushing: matches!(request, Request::Flush),
            request,
            offset,
            length,
            issued_bytes: 0,
            outstanding: 0,
            unissued: true,
            flush_after: fua && !native && self.identity.volatile_write_cache,
            status: Status::SUCCESS,
            data,
            value: 0,
            submitted_at: self.clock,
            absent_bytes,
        };
        self.absent_bytes += absent_bytes;
        let index = match self.free.pop() {
            Some(index) => {
                self.active[index] = Some(entry);
                index
            }
            None => {
                self.active.push(Some(entry));
                self.active.len() - 1
            }
        };
        let queue = queue % self.queues.len();
        self.queues[queue].waiting.push_back(index);
        self.issue(queue);
    }

    /// When [`Backend::advance`] next has something to do, if ever.
    pub fn next_event(&self) -> Option<Nanos> {
        self.device.next_event()
    }

    /// Does what is due at or before `until` on the device's clock, event by
    /// event, and appends the answers to `replies`. Returns whether it stopped
    /// early, with more due.
    ///
    /// `until` may lie ahead of the wall clock: the caller then gets answers
    /// early by the time it knows it will lose on their way to the client. The
    /// device's clock stops at its last event, so a submission that arrives
    /// meanwhile is late by no more than that lead.
    pub fn advance(&mut self, until: Nanos, replies: &mut Vec<Reply<T>>) -> bool {
        self.run_until(until, replies)
    }

    /// Finishes everything outstanding and commits the volatile cache of every
    /// namespace, moving the device's clock as far as that takes; answers to what was
    /// outstanding are appended to `replies`. With an image, the system is asked to put
    /// what it holds of it on its own media.
    ///
    /// # Errors
    ///
    /// In words, when the flush fails or the image does not take what was written.
    pub fn shut_down(&mut self, replies: &mut Vec<Reply<T>>) -> Result<(), String> {
        let status = self.last_flush(replies);
        self.finish_store()?;
        if status.is_success() { Ok(()) } else { Err(format!("{status:?}")) }
    }

    fn last_flush(&mut self, replies: &mut Vec<Reply<T>>) -> Status {
        let mut are_closed = false;
        while self.outstanding() > 0 {
            match self.device.next_event() {
                Some(next) => _ = self.run_until(next, replies),
                None if are_closed => break,
                // What is left waits for epochs that no host will complete any more.
                None => {
                    self.device.close_streams(self.clock);
                    are_closed = true;
                }
            }
        }
        debug_assert_eq!(self.outstanding(), 0, "a device lost a command");
        let (queue, cid) = (QueueId(1), CommandId(0));
        let command = Command::Flush { nsid: NamespaceId::ALL };
        let request = RequestId(self.next_request);
        self.device.submit(self.clock, Submission { queue, cid, command, data: None, request });
        while let Some(next) = self.device.next_event() {
            self.clock = self.clock.max(next);
            self.device.advance(self.clock, &mut self.completions);
            if let Some(done) = self.completions.pop() {
                return done.status;
            }
        }
        Status::INTERNAL_ERROR
    }

    /// Cuts the device's power at `now` or, where its clock is ahead, at that time:
    /// what was outstanding is gone. Returns its contexts, and what may have
    /// survived; give the survivors to [`Backend::survive`] before the next request.
    pub fn power_cut(&mut self, now: Nanos) -> (Vec<T>, PowerCut) {
        self.clock = self.clock.max(now);
        let cut = self.device.power_cut(self.clock);
        let depth = self.identity.queue_depth.max(1);
        for queue in &mut self.queues {
            queue.commands.fill(None);
            queue.free.clear();
            queue.free.extend((0..depth).rev());
            queue.waiting.clear();
        }
        self.completions.clear();
        self.free.clear();
        self.absent_bytes = 0;
        let orphans = self.active.drain(..).flatten().map(|entry| entry.context).collect();
        (orphans, cut)
    }

    /// Makes one undecided write of the last power cut have survived.
    pub fn survive(&mut self, write: &VolatileWrite) {
        self.device.survive(write);
    }

    /// Requests that wait for, and commands that have, a place in each queue.
    pub fn queues(&self) -> impl Iterator<Item = (usize, usize)> {
        self.queues.iter().map(|queue| (queue.waiting.len(), queue.commands.len() - queue.free.len()))
    }

    /// How things stand in the device.
    pub fn live_state(&self) -> LiveState {
        self.device.live_state()
    }

    /// The zones of a namespace as they are now.
    pub fn zones(&self, nsid: NamespaceId) -> Vec<ZoneStatus> {
        self.device.zones(nsid)
    }

    /// A write of these streams failed before the device saw it, see [`Device::break_streams`].
    pub fn break_streams(&mut self, now: Nanos, order: &WriteOrder) {
        self.clock = self.clock.max(now);
        self.device.break_streams(self.clock, order);
    }

    /// Something happens to a zone at `now`, see [`Device::zone_event`].
    pub fn zone_event(&mut self, now: Nanos, nsid: NamespaceId, zone: u32, event: ControllerEvent) -> bool {
        self.clock = self.clock.max(now);
        self.device.zone_event(self.clock, nsid, zone, event)
    }

    fn refusal(&self, nsid: NamespaceId, request: &Request) -> Option<Status> {
        let (offset, length) = request.extent()?;
        let lba_bytes = u64::from(self.identity.lba_bytes);
        if length == 0 || offset % lba_bytes != 0 || length % lba_bytes != 0 {
            return Some(Status::INVALID_FIELD);
        }
        if matches!(request, Request::Trim { .. }) && !self.identity.supports_deallocate {
            return Some(Status::INVALID_OPCODE);
        }
        let end = offset.checked_add(length);
        if end.is_none_or(|end| end > self.namespace_bytes(nsid)) {
            return Some(Status::LBA_OUT_OF_RANGE);
        }
        None
    }

    /// Largest transfer of one command, in whole logical blocks.
    fn transfer_bytes(&self) -> u32 {
        let lba_bytes = self.identity.lba_bytes;
        (self.identity.max_transfer_bytes / lba_bytes).max(1) * lba_bytes
    }

    fn run_until(&mut self, until: Nanos, replies: &mut Vec<Reply<T>>) -> bool {
        for _ in 0..MAX_EVENTS_PER_PASS {
            let Some(next) = self.device.next_event() else { return false };
            if next > until {
                return false;
            }
            self.clock = self.clock.max(next);
            self.device.advance(self.clock, &mut self.completions);
            let mut completions = std::mem::take(&mut self.completions);
            for completion in completions.drain(..) {
                self.complete(completion, replies);
            }
            self.completions = completions;
        }
        true
    }

    /// Gives the device the next commands of a queue while it has identifiers.
    fn issue(&mut self, queue: usize) {
        while let Some(&index) = self.queues[queue].waiting.front() {
            let Some(cid) = self.queues[queue].free.pop() else { return };
            let (command, data, data_at) = self.next_command(index);
            self.queues[queue].commands[usize::from(cid)] = Some(Outstanding { active: index, data_at });
            let Some(entry) = self.active[index].as_mut() else {
                debug_assert!(false, "a waiting request is active");
                return;
            };
            entry.outstanding += 1;
            if !entry.unissued {
                self.queues[queue].waiting.pop_front();
            }
            let request = RequestId(self.next_request);
            self.next_request += 1;
            // Queue 0 is the admin queue.
            let queue_id = QueueId(queue as u16 + 1);
            self.device.submit(self.clock, Submission { queue: queue_id, cid: CommandId(cid), command, data, request });
        }
    }

    /// The next command of a request, a write's data, and where a read's data
    /// goes in the result.
    fn next_command(&mut self, index: usize) -> (Command, ssd::Payload, usize) {
        let lba_bytes = u64::from(self.identity.lba_bytes);
        let transfer_bytes = u64::from(self.transfer_bytes());
        let supports_fua = self.identity.supports_fua;
        let Some(entry) = self.active[index].as_mut() else {
            debug_assert!(false, "a waiting request is active");
            return (Command::Flush { nsid: NamespaceId::ALL }, None, 0);
        };
        let nsid = entry.nsid;
        if entry.flushing {
            entry.unissued = false;
            return (Command::Flush { nsid }, None, 0);
        }
        if let Request::Command { command, data } = &mut entry.request {
            entry.unissued = false;
            return (command.clone(), data.take(), 0);
        }
        let (offset, length) = (entry.offset, entry.length);
        let limit_bytes = match entry.request {
            Request::Read { .. } | Request::Write { .. } => transfer_bytes,
            Request::WriteZeroes { .. } => MAX_WRITE_ZEROES_BLOCKS * lba_bytes,
            Request::Trim { .. } | Request::Flush | Request::Command { .. } => u64::from(u32::MAX) * lba_bytes,
        };
        let done = entry.issued_bytes;
        let bytes = limit_bytes.min(length - done);
        entry.issued_bytes += bytes;
        entry.unissued = entry.issued_bytes < length;
        // `bytes / lba_bytes` fits: `limit_bytes` is at most u32::MAX blocks.
        let range = LbaRange { start: Lba((offset + done) / lba_bytes), count: (bytes / lba_bytes) as u32 };
        let data_at = done as usize;
        match &mut entry.request {
            Request::Read { .. } => (Command::Read { nsid, range, fua: false }, None, data_at),
            Request::Write { data, fua, .. } => {
                let fua = *fua && supports_fua;
                let piece =
                    if bytes == length { std::mem::take(data) } else { data[data_at..data_at + bytes as usize].into() };
                (Command::write(nsid, range, fua), Some(piece), 0)
            }
            Request::WriteZeroes { fua, deallocate, .. } => {
                let fua = *fua && supports_fua;
                (Command::WriteZeroes { nsid, range, fua, deallocate: *deallocate }, None, 0)
            }
            Request::Trim { .. } => (Command::Deallocate { nsid, ranges: Box::new([range]) }, None, 0),
            Request::Flush | Request::Command { .. } => (Command::Flush { nsid }, None, 0),
        }
    }

    fn complete(&mut self, completion: Completion, replies: &mut Vec<Reply<T>>) {
        let queue = usize::from(completion.queue.0).wrapping_sub(1);
        let cid = completion.cid.0;
        let Some(command) =
            self.queues.get_mut(queue).and_then(|queue| queue.commands.get_mut(usize::from(cid))?.take())
        else {
            debug_assert!(false, "completion of a command that was not outstanding");
            return;
        };
        self.queues[queue].free.push(cid);
        let index = command.active;
        let Some(entry) = self.active[index].as_mut() else {
            debug_assert!(false, "completion of a command without a request");
            return;
        };
        entry.outstanding -= 1;
        entry.value = completion.result;
        let mut status = completion.status;
        // The model has done it; whether the image has as well, the model does not know.
        if status.is_success()
            && entry.promises_durability()
            && let Some(store) = self.device.store_mut()
            && store.settle().is_err()
        {
            status = Status::WRITE_FAULT;
        }
        if !status.is_success() && entry.status.is_success() {
            entry.status = status;
        }
        if let (Some(data), true) = (completion.data, entry.status.is_success()) {
            if entry.data.is_empty() {
                entry.data = data.into_vec();
            } else if let Some(room) = entry.data.get_mut(command.data_at..command.data_at + data.len()) {
                room.copy_from_slice(&data);
            }
        }
        if entry.outstanding == 0 && !entry.unissued {
            if entry.flush_after && entry.status.is_success() {
                entry.flush_after = false;
                entry.flushing = true;
                entry.unissued = true;
                self.queues[queue].waiting.push_back(index);
            } else if let Some(entry) = self.active[index].take() {
                self.free.push(index);
                self.absent_bytes -= entry.absent_bytes;
                replies.push(entry.into_reply(completion.at));
            }
        }
        self.issue(queue);
    }
}
