//! From request to device and back (block/blk-mq.c, block/blk-mq-sched.c).

use nvme::{CommandId, QueueId, Status};
use ssd::{Completion, Payload, PowerCut, Submission};
use trace::{RequestId, Span, Step, Track};
use units::Nanos;

use crate::bio::{BioFlags, BioOp, Sector};
use crate::driver;
use crate::flush::Action;
use crate::pool::place;
use crate::queue::Queue;
use crate::request::{Kind, NO_TAG, Request, Rq};
use crate::scheduler::{Position, SchedulerKind};
use crate::slab::NIL;

/// How a try to issue a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Issue {
    /// It is at the device.
    Sent,
    /// No driver tag, or the submission queue is full (`BLK_STS_DEV_RESOURCE`):
    /// a command of this queue is at the device, and its end will run the queue.
    Busy,
}

impl Queue {
    /// Sends a request that is not plugged: to the scheduler, or without one
    /// straight to the driver unless that was busy lately (blk_mq_submit_bio).
    pub(crate) fn send(&mut self, now: Nanos, rq: Rq) {
        let request = &self.pool.requests[rq];
        let hctx = request.hctx;
        if request.flags.contains(BioFlags::PASSTHROUGH) {
            // blk_mq_insert_request: past the scheduler, behind what waits for the driver.
            self.hctxs[usize::from(hctx)].dispatch.push_back(&mut self.pool.requests, rq);
            self.run(now, hctx);
            return;
        }
        let sync = request.kind == Kind::Bio(BioOp::Read)
            || request.flags.intersects(BioFlags::SYNC | BioFlags::FUA | BioFlags::PREFLUSH);
        let queue = &self.hctxs[usize::from(hctx)];
        let crowded = queue.dispatch_busy > 0 && (self.hctxs.len() == 1 || !sync);
        if self.scheduler_kind == SchedulerKind::None && !crowded {
            self.issue_directly(now, rq);
        } else {
            self.insert(now, rq, Position::Tail);
            self.run(now, hctx);
        }
    }

    /// Issues a request past the scheduler; if the driver is busy it waits on
    /// the dispatch list (blk_mq_try_issue_directly). Whether it was issued.
    pub(crate) fn issue_directly(&mut self, now: Nanos, rq: Rq) -> bool {
        let sent = self.issue(now, rq) == Issue::Sent;
        if !sent {
            self.requeue(rq);
        }
        sent
    }

    /// Gives a request to the scheduler.
    pub(crate) fn insert(&mut self, now: Nanos, rq: Rq, position: Position) {
        self.scheduled += 1;
        let scheduler = &mut self.schedulers[place(self.pool.requests[rq].nsid)];
        scheduler.insert(&mut self.pool, rq, position, now, &mut self.freed);
        self.scheduled -= self.freed.len() as u32;
        self.release_freed();
    }

    /// Frees requests whose bios moved into others.
    pub(crate) fn release_freed(&mut self) {
        let mut freed = std::mem::take(&mut self.freed);
        for rq in freed.drain(..) {
            self.release_request(rq);
        }
        self.freed = freed;
    }

    /// Dispatches what a hardware queue may send (blk_mq_sched_dispatch_requests):
    /// first what waits on its dispatch list, then what the scheduler gives.
    pub(crate) fn run(&mut self, now: Nanos, hctx: u16) {
        let index = usize::from(hctx);
        while let Some(rq) = self.hctxs[index].dispatch.pop_front(&mut self.pool.requests) {
            if self.issue(now, rq) == Issue::Busy {
                let queue = &mut self.hctxs[index];
                queue.dispatch.push_front(&mut self.pool.requests, rq);
                queue.note_round(true);
                return;
            }
            self.hctxs[index].note_round(false);
        }
        let namespaces = self.schedulers.len();
        for namespace in (self.turn..namespaces).chain(0..self.turn) {
            while self.scheduled > 0 && self.schedulers[namespace].has_work(hctx) {
                self.scheduler_calls += 1;
                let Some(rq) = self.schedulers[namespace].dispatch(&mut self.pool, hctx, now) else { break };
                self.scheduled -= 1;
                if self.issue(now, rq) == Issue::Busy {
                    self.requeue(rq);
                    // The tags are scarce: another namespace goes first next time.
                    self.turn = if namespace + 1 == namespaces { 0 } else { namespace + 1 };
                    return;
                }
                let owner = self.pool.requests[rq].hctx;
                self.hctxs[usize::from(owner)].note_round(false);
            }
        }
    }

    /// Does what is due in the schedulers, and sends what they give since.
    pub(crate) fn tick(&mut self, now: Nanos) {
        let mut woken = false;
        for scheduler in &mut self.schedulers {
            woken |= scheduler.tick(now);
        }
        if woken {
            for hctx in 0..self.hctxs.len() {
                self.run(now, hctx as u16);
            }
        }
    }

    /// Puts a request that the driver refused on its queue's dispatch list.
    fn requeue(&mut self, rq: Rq) {
        let queue = &mut self.hctxs[usize::from(self.pool.requests[rq].hctx)];
        queue.requeues += 1;
        queue.dispatch.push_back(&mut self.pool.requests, rq);
        queue.note_round(true);
    }

    /// Sends a request to the device (nvme_queue_rq).
    fn issue(&mut self, now: Nanos, rq: Rq) -> Issue {
        let request = &mut self.pool.requests[rq];
        let hctx = request.hctx;
        let queue = &mut self.hctxs[usize::from(hctx)];
        if queue.outstanding >= self.device_queue_depth {
            return Issue::Busy;
        }
        if request.tag == NO_TAG {
            let Some(tag) = queue.tags.get() else { return Issue::Busy };
            request.tag = tag;
        }
        request.dispatched_at = now;
        queue.tags.set_owner(request.tag, rq);
        queue.outstanding += 1;
        queue.dispatched += 1;
        let (tag, kind) = (request.tag, request.kind);
        match kind {
            Kind::Flush => *self.dispatched.of(None) += 1,
            Kind::Bio(op) => *self.dispatched.of(Some(op)) += 1,
            // The gate counts them.
            Kind::Manage => {}
        }
        if self.pool.requests[rq].ordered {
            self.gates.leaves(&mut self.pool, rq);
        }
        if self.recorder.is_on() {
            self.record_queued(now, rq);
        }
        let submission = Submission {
            // Queue 0 is the admin queue.
            queue: QueueId(hctx + 1),
            cid: CommandId(tag),
            command: driver::command(&self.pool, rq),
            data: driver::take_data(&mut self.pool, rq),
            request: self.trace_id(rq),
        };
        self.device.submit(now, submission);
        Issue::Sent
    }

    /// The device's turn: ends every command that is due.
    pub(crate) fn advance(&mut self, now: Nanos) {
        let mut completions = std::mem::take(&mut self.completions);
        self.device.advance(now, &mut completions);
        for completion in completions.drain(..) {
            self.complete(now, completion);
        }
        self.completions = completions;
        if self.ticks {
            self.tick(now);
            if self.gates.have_news() {
                self.open_gates(now);
            }
        }
    }

    /// Lets the device do what is due before `limit` and completes nothing; the last
    /// instant of that.
    pub(crate) fn advance_unseen(&mut self, limit: Nanos) -> Option<Nanos> {
        // A scheduler's epochs are due between the device's events.
        if self.ticks { None } else { self.device.advance_unseen(limit) }
    }

    /// When the device or a scheduler next has something to do, if ever.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let device = self.device.next_event();
        if !self.ticks {
            return device;
        }
        let schedulers = self.schedulers.iter().filter_map(|scheduler| scheduler.next_event());
        schedulers.chain(device).min()
    }

    /// Gives the device its turn if it is late, as it may be on the wall clock:
    /// commands must reach it in time order with its own events.
    pub(crate) fn catch_up(&mut self, now: Nanos) {
        if self.next_event().is_some_and(|due| due < now) {
            self.advance(now);
        }
    }

    /// A command ended (nvme_pci_complete_rq, blk_mq_end_request).
    fn complete(&mut self, now: Nanos, completion: Completion) {
        let hctx = completion.queue.0.wrapping_sub(1);
        let owner = self.hctxs.get_mut(usize::from(hctx)).and_then(|queue| {
            let owner = queue.tags.take_owner(completion.cid.0);
            queue.outstanding -= u32::from(owner.is_some());
            owner
        });
        debug_assert!(owner.is_some(), "completion for no command: {completion:?}");
        let Some(rq) = owner else { return };
        let Completion { status, result, data, at, .. } = completion;
        let request = &self.pool.requests[rq];
        let nsid = request.nsid;
        if request.kind == Kind::Bio(BioOp::ZoneAppend) && status.is_success() {
            // nvme_end_req: where the device put it.
            let block_sectors = u64::from(self.pool.limits(nsid).logical_block_bytes) / Sector::BYTES;
            self.pool.bios[request.first_bio].sector = result * block_sectors;
        }
        self.time_at_device += at.since(request.dispatched_at);
        if self.recorder.is_on() {
            let track = Track::NvmeQueue(hctx + 1);
            self.recorder.record(self.span(rq, request.dispatched_at, at, track, Step::Command));
        }
        match (request.kind, request.sequence) {
            (Kind::Flush, _) => self.complete_flush(now, rq, status),
            (_, Some(done)) => {
                // Data of a flush sequence: with a scheduler the driver tag goes
                // back between steps (mq_flush_data_end_io).
                if self.scheduler_kind != SchedulerKind::None {
                    self.put_driver_tag(rq);
                }
                let flush = &mut self.hctxs[usize::from(hctx)].flush[place(nsid)];
                flush.data_done(rq, done, status, now, &mut self.actions);
                self.run_flush_actions(now, hctx);
            }
            (_, None) => self.end_request(rq, status, data, at),
        }
        self.serve_waiters(now, hctx);
        if self.gates.have_news() {
            self.open_gates(now);
        }
        if self.scheduled > 0 || !self.hctxs[usize::from(hctx)].dispatch.is_empty() {
            self.run(now, hctx);
            if self.gates.have_news() {
                self.open_gates(now);
            }
        }
    }

    /// Ends a request and all its bios with one status.
    fn end_request(&mut self, rq: Rq, status: Status, data: Payload, at: Nanos) {
        let request = &self.pool.requests[rq];
        let (first, last) = (request.first_bio, request.last_bio);
        if request.ordered {
            self.gates.note_ordered_end(&self.pool, rq, status);
        }
        let request = &self.pool.requests[rq];
        self.time_in_queue += at.since(request.started_at);
        if first == last {
            self.complete_bio(first, status, data, at);
        } else {
            let mut rest = data.as_deref();
            let mut bio = first;
            while bio != NIL {
                let slot = &self.pool.bios[bio];
                let (next, bytes) = (slot.next, slot.bytes as usize);
                let part = rest.and_then(|data| data.split_at_checked(bytes));
                rest = part.map(|(_, rest)| rest);
                self.complete_bio(bio, status, part.map(|(part, _)| part.into()), at);
                bio = next;
            }
        }
        self.release_request(rq);
    }

    /// Gives a request's tags back and frees it (blk_mq_free_request).
    fn release_request(&mut self, rq: Rq) {
        self.put_driver_tag(rq);
        let request = &mut self.pool.requests[rq];
        debug_assert!(request.live);
        request.live = false;
        if request.gated {
            self.gates.note_end(request.nsid, request.sector, request.ctx);
        }
        if self.scheduler_kind != SchedulerKind::None && request.kind != Kind::Flush {
            self.schedulers[place(request.nsid)].finished(rq, request);
            self.hctxs[usize::from(request.hctx)].scheduler_tags_used -= 1;
        }
        self.pool.requests.release(rq);
    }

    fn put_driver_tag(&mut self, rq: Rq) {
        let request = &mut self.pool.requests[rq];
        let tag = std::mem::replace(&mut request.tag, NO_TAG);
        if tag != NO_TAG {
            self.hctxs[usize::from(request.hctx)].tags.put(tag);
        }
    }

    /// Makes requests for bios that waited for the tags now free.
    fn serve_waiters(&mut self, now: Nanos, hctx: u16) {
        while !self.hctxs[usize::from(hctx)].waiters.is_empty() && self.has_request_tag(hctx) {
            let Some((cpu, bio)) = self.hctxs[usize::from(hctx)].waiters.pop() else { return };
            self.make_request(now, cpu, hctx, bio, None);
        }
    }

    /// Does what a flush machine asked for, in order.
    pub(crate) fn run_flush_actions(&mut self, now: Nanos, hctx: u16) {
        let mut actions = std::mem::take(&mut self.actions);
        // Data is inserted at the head, the last first, so that it leaves in order.
        for action in actions.iter().rev() {
            if let Action::Data { rq, done } = *action {
                self.pool.requests[rq].sequence = Some(done);
                self.insert(now, rq, Position::Head);
            }
        }
        for action in actions.drain(..) {
            match action {
                Action::Data { .. } => {}
                Action::Flush { first } => self.send_flush(now, first),
                Action::Complete { rq, status } => self.end_request(rq, status, None, now),
            }
        }
        self.actions = actions;
        self.run(now, hctx);
    }

    /// Puts a flush at the head of the dispatch list (blk_kick_flush). Without a
    /// scheduler it borrows the tag of the first request it covers, which is not
    /// at the device meanwhile.
    fn send_flush(&mut self, now: Nanos, first: Rq) {
        let covered = &mut self.pool.requests[first];
        let mut flush = Request::new(Kind::Flush, covered.nsid, covered.ctx, covered.hctx, now);
        flush.tag = std::mem::replace(&mut covered.tag, NO_TAG);
        (flush.first_bio, flush.last_bio) = (covered.first_bio, covered.first_bio);
        let hctx = usize::from(covered.hctx);
        let rq = self.pool.requests.insert(flush);
        self.pool.requests[rq].flush_for = first;
        self.hctxs[hctx].dispatch.push_front(&mut self.pool.requests, rq);
    }

    /// A flush ended (flush_end_io): the borrowed tag goes back, the requests it
    /// covered go on.
    fn complete_flush(&mut self, now: Nanos, rq: Rq, status: Status) {
        let flush = &mut self.pool.requests[rq];
        let (nsid, hctx, first) = (flush.nsid, flush.hctx, flush.flush_for);
        if self.scheduler_kind == SchedulerKind::None {
            let tag = std::mem::replace(&mut flush.tag, NO_TAG);
            self.pool.requests[first].tag = tag;
        }
        self.release_request(rq);
        self.hctxs[usize::from(hctx)].flush[place(nsid)].flush_done(status, now, &mut self.actions);
        self.run_flush_actions(now, hctx);
    }

    /// Cuts the device's power: what was queued or in flight fails, and bios
    /// fail from now on.
    pub(crate) fn power_cut(&mut self, now: Nanos) -> PowerCut {
        let cut = self.device.power_cut(now);
        self.dead = true;
        self.generation += 1;
        for queue in &mut self.hctxs {
            queue.tags.clear();
            queue.dispatch = Default::default();
            queue.flush.iter_mut().for_each(|flush| flush.clear());
            queue.outstanding = 0;
            queue.scheduler_tags_used = 0;
            queue.dispatch_busy = 0;
        }
        self.schedulers.iter_mut().for_each(|scheduler| scheduler.clear());
        self.clear_gates(now);
        self.scheduled = 0;
        for rq in 0..self.pool.requests.places() {
            let request = &mut self.pool.requests[rq];
            if !std::mem::replace(&mut request.live, false) {
                continue;
            }
            if request.kind != Kind::Flush {
                self.time_in_queue += now.since(request.started_at);
                let mut bio = request.first_bio;
                while bio != NIL {
                    let next = self.pool.bios[bio].next;
                    self.complete_bio(bio, Status::ABORTED_POWER_LOSS, None, now);
                    bio = next;
                }
            }
            self.pool.requests.release(rq);
        }
        for hctx in 0..self.hctxs.len() {
            while let Some((_, bio)) = self.hctxs[hctx].waiters.pop() {
                self.complete_bio(bio, Status::ABORTED_POWER_LOSS, None, now);
            }
        }
        cut
    }

    fn trace_id(&self, rq: Rq) -> RequestId {
        match self.pool.requests[rq].first_bio {
            NIL => RequestId::default(),
            bio => self.pool.bios[bio].request,
        }
    }

    fn record_queued(&self, now: Nanos, rq: Rq) {
        let request = &self.pool.requests[rq];
        let track = Track::HostQueue(request.hctx);
        if request.kind == Kind::Flush {
            self.recorder.record(self.span(rq, request.started_at, now, track, Step::Queued));
            return;
        }
        for bio in driver::bios(&self.pool, request) {
            let bio = &self.pool.bios[bio];
            self.recorder.record(Span {
                start: bio.queued_at,
                end: now,
                track,
                step: Step::Queued,
                request: bio.request,
                offset: bio.sector * Sector::BYTES,
                bytes: u32::try_from(bio.bytes).unwrap_or(u32::MAX),
            });
        }
    }

    fn span(&self, rq: Rq, start: Nanos, end: Nanos, track: Track, step: Step) -> Span {
        let request = &self.pool.requests[rq];
        Span {
            start,
            end,
            track,
            step,
            request: self.trace_id(rq),
            offset: request.sector * Sector::BYTES,
            bytes: u32::try_from(request.bytes).unwrap_or(u32::MAX),
        }
    }
}
