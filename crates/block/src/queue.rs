//! The request queue: from bio to request (block/blk-core.c, block/blk-mq.c).

use std::task::Waker;

use nvme::Status;
use ssd::{Completion, Device};
use trace::Recorder;
use units::Nanos;

use crate::bio::{Bio, BioFlags, BioOp, BioResult, Sector};
use crate::config::QueueConfig;
use crate::flush::{Action, FlushQueue, Steps};
use crate::gate::Gates;
use crate::hctx::{HardwareQueue, TagWaiters, Tags, map_queues};
use crate::limits::Limits;
#[cfg(test)]
use crate::mutant::{self, Mutant};
use crate::ordering::OrderingInForce;
use crate::plug_list::PlugList;
use crate::pool::{Attempt, BioSlot, Pool, place};
use crate::request::{Kind, NO_TAG, Request, RequestList, Rq};
use crate::scheduler::{Scheduler, SchedulerKind};
use crate::slab::{NIL, Slab};
use crate::statistics::{Dispatched, HardwareQueueStatistics, Statistics};

/// Entries of the largest submission queue that Linux makes for itself, less
/// the one that tells full from empty (drivers/nvme/host/pci.c, `io_queue_depth`).
const NVME_QUEUE_DEPTH: u16 = 1023;
/// Scheduler tags are made for twice this many requests at most (`BLKDEV_DEFAULT_RQ`).
const DEFAULT_REQUESTS: u32 = 128;

/// A device's request queue with everything in it (`struct request_queue`).
pub(crate) struct Queue {
    pub(crate) pool: Pool,
    pub(crate) hctxs: Vec<HardwareQueue>,
    /// Hardware queue of each CPU.
    pub(crate) map: Vec<u16>,
    /// A scheduler for each namespace, since each is a disk of its own; they
    /// share the hardware queues and the tags.
    pub(crate) schedulers: Vec<Box<dyn Scheduler>>,
    pub(crate) scheduler_kind: SchedulerKind,
    /// Requests inside the schedulers.
    pub(crate) scheduled: u32,
    /// The namespace whose scheduler is asked first next time.
    pub(crate) turn: usize,
    /// Whether a scheduler has a clock of its own.
    pub(crate) ticks: bool,
    pub(crate) gates: Gates,
    pub(crate) device: Box<dyn Device>,
    /// Commands that one submission queue of the device holds.
    pub(crate) device_queue_depth: u32,
    pub(crate) recorder: Recorder,
    pub(crate) dispatched: Dispatched,
    pub(crate) time_in_queue: Nanos,
    pub(crate) time_at_device: Nanos,
    bios: u64,
    splits: u64,
    pub(crate) scheduler_calls: u64,
    /// Power cuts so far; a plug from before one holds nothing any more.
    pub(crate) generation: u32,
    /// Power is off: bios fail.
    pub(crate) dead: bool,
    /// Kept for their memory.
    pub(crate) completions: Vec<Completion>,
    pub(crate) actions: Vec<Action>,
    pub(crate) freed: Vec<Rq>,
}

impl Queue {
    pub(crate) fn new(device: Box<dyn Device>, config: &QueueConfig, recorder: Recorder) -> Self {
        let identity = device.identity();
        let limits = |blocks: &u64| Limits::new(identity, *blocks, config);
        // A device without a namespace is an empty disk.
        let namespaces: &[u64] = if identity.namespace_blocks.is_empty() { &[0] } else { &identity.namespace_blocks };
        let limits: Vec<_> = namespaces.iter().map(limits).collect();
        let cpus = config.cpus.get();
        let ordering = OrderingInForce::new(config.ordering, identity);
        let queues = config.nr_hw_queues.map_or(cpus, |queues| queues.get()).min(cpus).min(identity.queues.max(1));
        let queues = queues.min(ordering.queues_max());
        let device_queue_depth = u32::from(identity.queue_depth.max(1));
        let mut depth = match config.queue_depth {
            Some(depth) => depth.get().min(NO_TAG - 1),
            None => identity.queue_depth.clamp(1, NVME_QUEUE_DEPTH),
        };
        // By the queues there are, which one processor makes one of
        // (block/elevator.c, elevator_get_default).
        let default_scheduler = if queues > 1 { SchedulerKind::None } else { SchedulerKind::MqDeadline };
        let scheduler_kind = config.scheduler.unwrap_or(default_scheduler);
        let mut scheduler_tags = 0;
        if scheduler_kind != SchedulerKind::None {
            let default = 2 * u32::from(depth).min(DEFAULT_REQUESTS);
            scheduler_tags = config.nr_requests.map_or(default, |requests| requests.get().into());
        } else if let Some(requests) = config.nr_requests {
            depth = depth.min(requests.get());
        }
        let map = map_queues(cpus, queues);
        let hctx = |index: u16| HardwareQueue {
            tags: Tags::new(depth),
            dispatch: RequestList::default(),
            dispatch_busy: 0,
            flush: limits.iter().map(|_| FlushQueue::default()).collect(),
            scheduler_tags_used: 0,
            scheduler_tags,
            waiters: TagWaiters::new((0..cpus).filter(|cpu| map[usize::from(*cpu)] == index)),
            outstanding: 0,
            dispatched: 0,
            requeues: 0,
            tag_waits: 0,
        };
        let hctxs = (0..queues).map(hctx).collect();
        let schedulers: Vec<_> = limits.iter().map(|_| scheduler_kind.make(config, &map)).collect();
        let ticks = schedulers.iter().any(|scheduler| scheduler.has_clock());
        let gates = Gates::new(&limits, identity, config, ordering);
        let pool = Pool {
            bios: Slab::new(),
            requests: Slab::new(),
            limits,
            nomerges: config.nomerges,
            merges: Default::default(),
        };
        Self {
            pool,
            hctxs,
            map,
            schedulers,
            scheduler_kind,
            scheduled: 0,
            turn: 0,
            ticks,
            gates,
            device,
            device_queue_depth,
            recorder,
            dispatched: Dispatched::default(),
            time_in_queue: Nanos::ZERO,
            time_at_device: Nanos::ZERO,
            bios: 0,
            splits: 0,
            scheduler_calls: 0,
            generation: 0,
            dead: false,
            completions: Vec::new(),
            actions: Vec::new(),
            freed: Vec::new(),
        }
    }

    /// Takes a bio in and returns its slot; the result is fetched with `poll`.
    pub(crate) fn submit(&mut self, now: Nanos, cpu: u16, bio: Bio, mut plug: Option<&mut PlugList>) -> u32 {
        self.bios += 1;
        let cpus = self.map.len() as u16;
        let cpu = if cpu < cpus { cpu } else { cpu % cpus };
        let special = bio.op.is_zoned() || bio.flags.contains(BioFlags::PASSTHROUGH);
        let verdict = self.check(&bio, special);
        let slot = self.pool.bios.insert(BioSlot::new(bio, now));
        if let Err(status) = verdict {
            self.complete_bio(slot, status, None, now);
            return slot;
        }
        if special && self.is_passthrough(now, slot) {
            self.submit_part(now, cpu, slot, plug);
            return slot;
        }
        let bio = &mut self.pool.bios[slot];
        let limits = &self.pool.limits[place(bio.nsid)];
        if !limits.write_cache && bio.flags.intersects(BioFlags::PREFLUSH | BioFlags::FUA) {
            // Nothing to flush (submit_bio_noacct).
            bio.flags -= BioFlags::PREFLUSH | BioFlags::FUA;
            if bio.bytes == 0 {
                self.complete_bio(slot, Status::SUCCESS, None, now);
                return slot;
            }
        }
        if bio.order.is_some() {
            self.gates.arrive(bio, cpu);
        }
        if limits.split_bytes(bio.op, bio.sector, bio.bytes) == bio.bytes {
            self.submit_part(now, cpu, slot, plug);
        } else {
            self.split(now, cpu, slot, &mut plug);
        }
        if self.gates.have_news() {
            self.open_gates(now);
        }
        slot
    }

    /// Notes what a zone operation or passthrough does on its way in, and says
    /// whether it is passthrough.
    fn is_passthrough(&mut self, now: Nanos, slot: u32) -> bool {
        let bio = &mut self.pool.bios[slot];
        if bio.op == BioOp::Write && bio.bytes == 0 {
            // An empty flush is the same command either way.
            bio.flags -= BioFlags::PASSTHROUGH;
        }
        if bio.op == BioOp::ZoneReport {
            bio.flags |= BioFlags::PASSTHROUGH;
        }
        let passthrough = bio.flags.contains(BioFlags::PASSTHROUGH);
        if !passthrough {
            self.pass_by(now, slot);
        }
        passthrough
    }

    /// Cuts a bio into parts that each fit a request (block/blk-merge.c). Every
    /// part keeps the flags; all but the last are too full to merge.
    fn split(&mut self, now: Nanos, cpu: u16, parent: u32, plug: &mut Option<&mut PlugList>) {
        let bio = &mut self.pool.bios[parent];
        let (nsid, op, flags, sector) = (bio.nsid, bio.op, bio.flags, bio.sector);
        let (bytes, request) = (bio.bytes, bio.request);
        let data = bio.data.take();
        // Held until every part is on its way, so that early failures do not end it.
        bio.outstanding = 1;
        let mut offset = 0;
        while offset < bytes {
            let first = sector + offset / Sector::BYTES;
            let part_bytes = self.pool.limits(nsid).split_bytes(op, first, bytes - offset);
            let last = offset + part_bytes == bytes;
            let part = Bio {
                nsid,
                op,
                sector: Sector(first),
                bytes: part_bytes,
                flags: if last { flags } else { flags | BioFlags::NOMERGE },
                data: data.as_ref().map(|data| data[offset as usize..(offset + part_bytes) as usize].into()),
                order: None,
                request,
            };
            let mut slot = BioSlot::new(part, now);
            if let Some(order) = &mut self.pool.bios[parent].order {
                // The parent's own count is taken off below, when all its parts are on their way.
                order.unsent += 1;
                #[cfg(test)]
                let last = if mutant::is(Mutant::ClosesOnFirstFragment) { offset == 0 } else { last };
                slot.order = Some(order.part(last));
            }
            slot.parent = parent;
            slot.parent_offset = offset;
            let slot = self.pool.bios.insert(slot);
            self.pool.bios[parent].outstanding += 1;
            self.splits += u64::from(!last);
            self.submit_part(now, cpu, slot, plug.as_deref_mut());
            offset += part_bytes;
        }
        if let Some(order) = &mut self.pool.bios[parent].order {
            order.unsent -= 1;
        }
        self.complete_bio(parent, Status::SUCCESS, None, now);
    }

    /// Merges a bio that fits one request into one that waits, or makes a
    /// request for it (blk_mq_submit_bio).
    fn submit_part(&mut self, now: Nanos, cpu: u16, bio: u32, plug: Option<&mut PlugList>) {
        let mut cpu = cpu;
        if self.pool.bios[bio].order.is_some() {
            match self.gates.admit_ordered(&mut self.pool.bios, bio, cpu) {
                Some(from) => cpu = from,
                None => return,
            }
        }
        if self.pool.bio_mergeable(bio) {
            // Only the request added last is looked at (blk_attempt_plug_merge).
            if let Some(last) = plug.as_ref().and_then(|plug| plug.requests.last())
                && let Attempt::Merged(_) = self.pool.attempt_merge(last, bio)
            {
                return;
            }
            let scheduler = &mut self.schedulers[place(self.pool.bios[bio].nsid)];
            if self.scheduled > 0 && scheduler.merge_bio(&mut self.pool, cpu, bio, &mut self.freed) {
                self.scheduled -= self.freed.len() as u32;
                self.release_freed();
                return;
            }
        }
        if self.gates.admit(&mut self.pool.bios, bio) {
            self.request(now, cpu, bio, plug);
        }
    }

    /// Makes a request for a bio, or lets it wait for a tag.
    #[inline(always)]
    pub(crate) fn request(&mut self, now: Nanos, cpu: u16, bio: u32, mut plug: Option<&mut PlugList>) {
        let hctx = self.map[usize::from(cpu)];
        if !self.has_request_tag(hctx)
            && let Some(plug) = plug.as_deref_mut()
        {
            // Its requests hold tags; a sleeping task unplugs (io_schedule).
            self.flush_plug(now, plug);
        }
        let queue = &mut self.hctxs[usize::from(hctx)];
        if !queue.waiters.is_empty() || !self.has_request_tag(hctx) {
            let queue = &mut self.hctxs[usize::from(hctx)];
            queue.tag_waits += 1;
            queue.waiters.push(cpu, bio);
            return;
        }
        self.make_request(now, cpu, hctx, bio, plug);
    }

    /// Whether a request could be made now: a scheduler tag is free, or without
    /// a scheduler a driver tag.
    pub(crate) fn has_request_tag(&self, hctx: u16) -> bool {
        let queue = &self.hctxs[usize::from(hctx)];
        match self.scheduler_kind {
            SchedulerKind::None => queue.tags.any_free(),
            _ => queue.scheduler_tags_used < queue.scheduler_tags,
        }
    }

    /// Makes a request for a bio and sends it on its way; a tag is free.
    pub(crate) fn make_request(&mut self, now: Nanos, cpu: u16, hctx: u16, bio: u32, plug: Option<&mut PlugList>) {
        let slot = &self.pool.bios[bio];
        let gated = self.gates.govern(slot);
        let (nsid, op, flags, bytes) = (slot.nsid, slot.op, slot.flags, slot.bytes);
        let limits = self.pool.limits(nsid);
        let ordered = slot.order.is_some();
        let kind = if ordered && slot.is_management() { Kind::Manage } else { Kind::Bio(op) };
        let mut request = Request::new(kind, nsid, cpu, hctx, now);
        request.ordered = ordered;
        request.flags = flags;
        request.sector = slot.sector;
        request.bytes = bytes;
        request.segments = limits.segments(op, bytes);
        request.gated = gated;
        (request.first_bio, request.last_bio) = (bio, bio);
        let queue = &mut self.hctxs[usize::from(hctx)];
        match self.scheduler_kind {
            SchedulerKind::None => request.tag = queue.tags.get().unwrap_or(NO_TAG),
            _ => queue.scheduler_tags_used += 1,
        }
        if flags.intersects(BioFlags::PREFLUSH | BioFlags::FUA) && !flags.contains(BioFlags::PASSTHROUGH) {
            // blk_insert_flush: what the device needs no flag for is taken off.
            let needed = Steps::needed(limits, flags, bytes);
            request.flags -= BioFlags::PREFLUSH;
            if !limits.fua {
                request.flags -= BioFlags::FUA;
            }
            if needed == Steps::DATA | Steps::POSTFLUSH {
                // Data first: down the normal path, the flush follows.
                request.sequence = Some(queue.flush[place(nsid)].start_with_data());
            } else if needed != Steps::DATA {
                request.sequence = Some(Steps::empty());
                let rq = self.pool.requests.insert(request);
                self.hctxs[usize::from(hctx)].flush[place(nsid)].start(rq, needed, now, &mut self.actions);
                self.run_flush_actions(now, hctx);
                return;
            }
        }
        let rq = self.pool.requests.insert(request);
        if gated {
            self.gates.gather(&mut self.pool, rq);
        }
        match plug {
            Some(plug) => self.add_to_plug(now, plug, rq),
            None => self.send(now, rq),
        }
    }

    /// The result of a bio that ended; its slot is free afterwards.
    pub(crate) fn poll(&mut self, slot: u32, waker: &Waker) -> Option<BioResult> {
        let bio = &mut self.pool.bios[slot];
        if bio.is_done() {
            let result = BioResult {
                status: bio.status,
                sector: Sector(bio.sector),
                data: bio.data.take(),
                completed_at: bio.completed_at,
            };
            self.pool.bios.release(slot);
            return Some(result);
        }
        match &mut bio.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        None
    }

    /// Whether all commands of a bio have gone to the device, or it has ended.
    pub(crate) fn poll_sent(&mut self, slot: u32, waker: &Waker) -> bool {
        let bio = &mut self.pool.bios[slot];
        let is_sent = bio.order.as_ref().is_some_and(|order| order.unsent == 0);
        if !is_sent && !bio.is_done() {
            bio.waker = Some(waker.clone());
        }
        is_sent || bio.is_done()
    }

    /// Nobody will ask for a bio's result.
    pub(crate) fn detach(&mut self, slot: u32) {
        let bio = &mut self.pool.bios[slot];
        bio.waker = None;
        if bio.is_done() {
            bio.data = None;
            self.pool.bios.release(slot);
        } else {
            bio.detached = true;
        }
    }

    pub(crate) fn statistics(&self, now: Nanos) -> Statistics {
        let merges = self.pool.merges;
        let mut time_in_queue = self.time_in_queue;
        let mut time_at_device = self.time_at_device;
        for rq in 0..self.pool.requests.places() {
            let request = &self.pool.requests[rq];
            if request.live && request.kind != Kind::Flush {
                time_in_queue += now.since(request.started_at);
            }
        }
        for queue in &self.hctxs {
            for rq in queue.tags.owners() {
                time_at_device += now.since(self.pool.requests[rq].dispatched_at);
            }
        }
        let queue = |queue: &HardwareQueue| HardwareQueueStatistics {
            dispatched: queue.dispatched,
            in_flight: queue.outstanding,
            requeues: queue.requeues,
            tag_waits: queue.tag_waits,
        };
        let hardware_queues: Vec<_> = self.hctxs.iter().map(queue).collect();
        Statistics {
            bios: self.bios,
            merges_back: merges.back,
            merges_front: merges.front,
            merges_discard: merges.discard,
            merges_request: merges.requests,
            splits: self.splits,
            requeues: hardware_queues.iter().map(|queue| queue.requeues).sum(),
            tag_waits: hardware_queues.iter().map(|queue| queue.tag_waits).sum(),
            zone_plug_waits: self.gates.holds(),
            scheduler_calls: self.scheduler_calls,
            management_holds: self.schedulers.iter().map(|scheduler| scheduler.holds()).sum(),
            dispatched: self.dispatched,
            requests: self.pool.requests.live() as u32,
            in_flight: hardware_queues.iter().map(|queue| queue.in_flight).sum(),
            time_in_queue,
            time_at_device,
            hardware_queues,
        }
    }

    /// Ends one of a bio's commands; the last one ends the bio.
    pub(crate) fn complete_bio(&mut self, slot: u32, status: Status, data: ssd::Payload, at: Nanos) {
        let bio = &mut self.pool.bios[slot];
        debug_assert!(!bio.is_done(), "bio {slot} ended twice");
        bio.outstanding -= 1;
        if bio.status.is_success() {
            bio.status = status;
        }
        bio.completed_at = bio.completed_at.max(at);
        if data.is_some() {
            bio.data = data;
        }
        if !bio.is_done() {
            return;
        }
        if bio.parent == NIL {
            if bio.detached {
                bio.data = None;
                self.pool.bios.release(slot);
            } else if let Some(waker) = bio.waker.take() {
                waker.wake();
            }
            return;
        }
        let (parent, offset, op, status) = (bio.parent, bio.parent_offset as usize, bio.op, bio.status);
        let data = bio.data.take();
        self.pool.bios.release(slot);
        if op == BioOp::Read
            && let Some(data) = data
        {
            let whole = &mut self.pool.bios[parent];
            let bytes = whole.bytes as usize;
            let buffer = whole.data.get_or_insert_with(|| vec![0; bytes].into_boxed_slice());
            buffer[offset..offset + data.len()].copy_from_slice(&data);
        }
        self.complete_bio(parent, status, None, at);
    }
}
