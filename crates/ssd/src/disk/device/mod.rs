//! The disk as a [`Device`]: commands, cache and flush; [`arm`] has the arm, [`command`] a
//! command's way.

mod arm;
mod command;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use nvme::{Command, CommandId, QueueId, Status};
use trace::{Recorder, RequestId, Span, Step, Track};
use units::Nanos;

use self::command::{DiskCommand, Kind};
use super::config::{DiskConfig, DiskError, DiskScheduler};
use super::dirty::{DirtyBlocks, Run};
use super::mechanism::Mechanism;
use super::read_cache::ReadCache;
use crate::check::check_command;
use crate::live::{LiveState, WriteCacheState};
use crate::{Completion, Device, Identity, Payload, PowerCut, Store, Submission, VolatileWrite};

/// A 7200 rpm disk, or one of another speed.
///
/// Commands pass the electronics one after another. Reads are served from the
/// write cache, a read segment, the read-ahead under way, or the media; writes
/// enter the cache, or, with FUA or without a cache, go to the media. The arm
/// serves one thing at a time: commands first, dirty blocks when it is idle or
/// the cache is full or being flushed. While it would be idle it reads ahead.
/// A flush is not queued with other commands, as FLUSH CACHE EXT is not in the
/// NCQ command set: it begins when earlier commands are done, and later ones
/// wait for its end.
pub struct Disk {
    identity: Identity,
    scheduler: DiskScheduler,
    command_overhead: Nanos,
    link_bytes_per_s: u64,
    cache_blocks: u64,
    store: Store,
    mechanism: Mechanism,
    read_cache: ReadCache,
    dirty: DirtyBlocks,
    /// Blocks promised to writes whose data is on the link.
    reserved_blocks: u64,
    /// Whether a destaged write did not reach the media; the next flush says so.
    lost_write: bool,

    clock: Nanos,
    controller_free: Nanos,
    link_free: Nanos,
    arm: Arm,
    read_ahead: Option<ReadAhead>,
    /// Whether the arm last served a command, when both kinds wait.
    command_was_last: bool,

    /// Not yet begun: behind a flush, or beyond the queue's depth.
    incoming: VecDeque<Submission>,
    /// Begun and not finished.
    active: usize,
    flush: Option<ActiveFlush>,
    /// Waiting for room in the write cache.
    wait_room: VecDeque<DiskCommand>,
    /// Waiting for the arm.
    wait_arm: Vec<DiskCommand>,
    /// Reads that the read-ahead under way will reach.
    wait_ahead: usize,

    events: BTreeMap<(Nanos, u64), Event>,
    next_event: u64,
    finished: VecDeque<Completion>,
    recorder: Recorder,
    counters: Counters,
}

#[derive(Debug)]
struct ActiveFlush {
    queue: QueueId,
    cid: CommandId,
    request: RequestId,
    /// Everything up to here is on the media when it completes.
    through: u64,
    begun: bool,
}

#[derive(Debug)]
enum Arm {
    Idle,
    Command(DiskCommand),
    Destage(Run),
}

/// Sequential reading beyond what was asked for.
#[derive(Debug)]
struct ReadAhead {
    first: u64,
    begin: Nanos,
    limit: u64,
    /// Number of the event that ends it; an earlier one is void.
    end_event: u64,
}

#[derive(Debug)]
enum Event {
    /// A command has been processed.
    Processed(Submission),
    /// A flush has been processed.
    FlushProcessed,
    /// A write's data is in the buffer memory.
    Received(DiskCommand),
    /// The arm is done.
    ArmDone,
    /// The read-ahead has everything that this read asks for.
    Reached(DiskCommand),
    /// The read-ahead is as far as it goes.
    AheadDone,
    /// A command ends.
    Finish(DiskCommand, Status),
}

#[derive(Default, Debug)]
struct Counters {
    reads: u64,
    writes: u64,
    flushes: u64,
    host_read_bytes: u64,
    host_written_bytes: u64,
    media_read_bytes: u64,
    media_written_bytes: u64,
    read_cache_hits: u64,
    read_ahead_hits: u64,
    seeks: u64,
    seek_ns: u64,
    rotation_ns: u64,
    transfer_ns: u64,
    link_busy_ns: u64,
}

impl Disk {
    /// A disk as configured, over `store`, which has one namespace of
    /// [`Disk::blocks`] blocks.
    pub fn new(config: &DiskConfig, store: Store) -> Result<Self, DiskError> {
        let mechanism = Mechanism::new(config)?;
        let lba = config.lba.0;
        let identity = Identity {
            model: config.model.clone(),
            lba_bytes: lba as u32,
            namespace_blocks: vec![mechanism.geometry().blocks()],
            queues: 1,
            queue_depth: config.link.queue_depth,
            max_transfer_bytes: config.link.max_transfer.0 as u32,
            volatile_write_cache: config.cache.write.0 > 0,
            supports_fua: true,
            supports_deallocate: false,
            rotational: true,
            ordering: None,
            keeps_contents: store.keeps_contents(),
            zoned: None,
        };
        Ok(Self {
            identity,
            scheduler: config.controller.scheduler,
            command_overhead: config.controller.command_overhead,
            link_bytes_per_s: config.link.bandwidth.0,
            cache_blocks: config.cache.write.0 / lba,
            store,
            mechanism,
            read_cache: ReadCache::new(config.cache.read_segments as usize, config.cache.read_segment.0 / lba),
            dirty: DirtyBlocks::default(),
            reserved_blocks: 0,
            lost_write: false,
            clock: Nanos::ZERO,
            controller_free: Nanos::ZERO,
            link_free: Nanos::ZERO,
            arm: Arm::Idle,
            read_ahead: None,
            command_was_last: false,
            incoming: VecDeque::new(),
            active: 0,
            flush: None,
            wait_room: VecDeque::new(),
            wait_arm: Vec::new(),
            wait_ahead: 0,
            events: BTreeMap::new(),
            next_event: 0,
            finished: VecDeque::new(),
            recorder: Recorder::default(),
            counters: Counters::default(),
        })
    }

    /// Logical blocks that a disk so configured has.
    pub fn blocks(config: &DiskConfig) -> u64 {
        config.capacity.0 / config.lba.0.max(1)
    }

    fn bytes(&self, blocks: &Range<u64>) -> u64 {
        (blocks.end - blocks.start) * u64::from(self.identity.lba_bytes)
    }

    fn at(&mut self, time: Nanos, event: Event) -> u64 {
        let number = self.next_event;
        self.next_event += 1;
        self.events.insert((time.max(self.clock), number), event);
        number
    }

    fn span(&self, start: Nanos, end: Nanos, track: Track, step: Step, request: RequestId, blocks: &Range<u64>) {
        if self.recorder.is_on() && start < end {
            let lba_bytes = u64::from(self.identity.lba_bytes);
            let bytes = u32::try_from(self.bytes(blocks)).unwrap_or(u32::MAX);
            self.recorder.record(Span { start, end, track, step, request, offset: blocks.start * lba_bytes, bytes });
        }
    }

    fn finish(&mut self, queue: QueueId, cid: CommandId, status: Status, data: Payload) {
        self.finished.push_back(Completion { queue, cid, status, result: 0, data, at: self.clock });
    }

    /// Does everything due by `now`.
    fn run(&mut self, now: Nanos) {
        while let Some(entry) = self.events.first_entry() {
            let (time, number) = *entry.key();
            if time > now {
                break;
            }
            let event = entry.remove();
            self.clock = time;
            self.handle(number, event);
            self.serve();
        }
        self.clock = self.clock.max(now);
    }

    /// Begins what can begin.
    fn serve(&mut self) {
        self.begin_incoming();
        self.move_arm();
    }

    /// Passes commands to the electronics, as far as no flush is in the way.
    fn begin_incoming(&mut self) {
        while self.flush.is_none()
            && self.active < usize::from(self.identity.queue_depth)
            && let Some(submission) = self.incoming.pop_front()
        {
            if let Command::Flush { .. } = submission.command {
                let (queue, cid, request) = (submission.queue, submission.cid, submission.request);
                if let Err(status) = check_command(&self.identity, &submission.command, None) {
                    self.finish(queue, cid, status, None);
                    continue;
                }
                self.flush = Some(ActiveFlush { queue, cid, request, through: 0, begun: false });
                self.counters.flushes += 1;
            } else {
                let done = self.process(submission.request);
                self.active += 1;
                self.at(done, Event::Processed(submission));
            }
        }
        if let Some(flush) = &mut self.flush
            && !flush.begun
            && self.active == 0
        {
            flush.begun = true;
            flush.through = self.store.last_sequence();
            let request = flush.request;
            let done = self.process(request);
            self.at(done, Event::FlushProcessed);
        }
    }

    /// Occupies the electronics for one command; gives the end.
    fn process(&mut self, request: RequestId) -> Nanos {
        let start = self.controller_free.max(self.clock);
        self.controller_free = start + self.command_overhead;
        self.span(start, self.controller_free, Track::Controller, Step::Process, request, &(0..0));
        self.controller_free
    }

    /// Occupies the link with `bytes`, not before `earliest`; gives the end.
    fn link(&mut self, earliest: Nanos, request: RequestId, blocks: &Range<u64>) -> Nanos {
        let start = self.link_free.max(earliest);
        let time = Nanos::transfer(self.bytes(blocks), self.link_bytes_per_s);
        self.link_free = start + time;
        self.counters.link_busy_ns += time.0;
        self.span(start, self.link_free, Track::Link, Step::Transfer, request, blocks);
        self.link_free
    }

    fn handle(&mut self, number: u64, event: Event) {
        match event {
            Event::Processed(submission) => self.accept(submission),
            Event::FlushProcessed => {}
            Event::Received(command) => self.received(command),
            Event::ArmDone => self.arm_done(),
            Event::Reached(command) => {
                self.wait_ahead -= 1;
                let end = self.stream_out(&command);
                self.at(end, Event::Finish(command, Status::SUCCESS));
            }
            Event::AheadDone => {
                if self.read_ahead.as_ref().is_some_and(|ahead| ahead.end_event == number) {
                    self.stop_read_ahead();
                }
            }
            Event::Finish(command, status) => self.end(command, status),
        }
        self.finish_flush();
    }

    fn finish_flush(&mut self) {
        let Some(flush) = &self.flush else { return };
        // The electronics are busy with the flush itself until `controller_free`.
        if !flush.begun || self.clock < self.controller_free || self.dirty.count() > 0 || !matches!(self.arm, Arm::Idle)
        {
            return;
        }
        let (queue, cid, through) = (flush.queue, flush.cid, flush.through);
        let lost = self.store.commit_through(through).is_err() || std::mem::take(&mut self.lost_write);
        self.flush = None;
        self.finish(queue, cid, if lost { Status::WRITE_FAULT } else { Status::SUCCESS }, None);
    }
}

impl Device for Disk {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        self.run(now);
        self.incoming.push_back(submission);
        self.serve();
    }

    fn next_event(&self) -> Option<Nanos> {
        let finished = self.finished.front().map(|completion| completion.at);
        let event = self.events.first_key_value().map(|((time, _), _)| *time);
        finished.into_iter().chain(event).min()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.run(now);
        completions.extend(self.finished.drain(..));
    }

    fn power_cut(&mut self, now: Nanos) -> PowerCut {
        self.run(now);
        self.incoming.clear();
        self.active = 0;
        self.flush = None;
        self.wait_room.clear();
        self.wait_arm.clear();
        self.wait_ahead = 0;
        self.events.clear();
        self.finished.clear();
        self.arm = Arm::Idle;
        self.read_ahead = None;
        self.read_cache.clear();
        self.dirty.clear();
        self.reserved_blocks = 0;
        self.lost_write = false;
        self.controller_free = now;
        self.link_free = now;
        PowerCut { undecided: self.store.cut() }
    }

    fn survive(&mut self, write: &VolatileWrite) {
        // An image that cannot be written now cannot be written later either:
        // the next flush reports it.
        self.lost_write |= self.store.survive(write).is_err();
    }

    fn set_recorder(&mut self, recorder: Recorder) {
        self.recorder = recorder;
    }

    fn live_state(&self) -> LiveState {
        let capacity_bytes = self.bytes(&(0..self.cache_blocks));
        let dirty_bytes = self.bytes(&(0..self.dirty.count()));
        let write_cache = WriteCacheState { dirty_bytes, capacity_bytes, power_loss_protected: false };
        LiveState {
            outstanding_commands: (self.incoming.len() + self.active + usize::from(self.flush.is_some())) as u64,
            write_cache: (capacity_bytes > 0).then_some(write_cache),
            ..LiveState::default()
        }
    }

    fn store(&self) -> Option<&Store> {
        Some(&self.store)
    }

    fn store_mut(&mut self) -> Option<&mut Store> {
        Some(&mut self.store)
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let counters = &self.counters;
        [
            ("reads", counters.reads),
            ("writes", counters.writes),
            ("flushes", counters.flushes),
            ("host_read_bytes", counters.host_read_bytes),
            ("host_written_bytes", counters.host_written_bytes),
            ("media_read_bytes", counters.media_read_bytes),
            ("media_written_bytes", counters.media_written_bytes),
            ("read_cache_hits", counters.read_cache_hits),
            ("read_ahead_hits", counters.read_ahead_hits),
            ("seeks", counters.seeks),
            ("mechanism_seek_ns", counters.seek_ns),
            ("mechanism_rotation_ns", counters.rotation_ns),
            ("mechanism_transfer_ns", counters.transfer_ns),
            ("link_busy_ns", counters.link_busy_ns),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}
