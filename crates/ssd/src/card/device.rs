//! The card as a [`Device`].

use std::collections::VecDeque;
use std::ops::Range;

use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, Status, WriteCommand};
use trace::{Recorder, RequestId, Span, Step, Track};
use units::{ByteSize, Nanos};

use super::config::{CardConfig, CardError};
use super::units::{FlashWork, OpenUnits};
use crate::check::check_command;
use crate::{Completion, Device, Identity, LiveState, PowerCut, Store, Submission, VolatileWrite};

/// A flash card: one command at a time, done when its data is on the flash.
pub struct Card {
    identity: Identity,
    config: CardConfig,
    store: Store,
    units: OpenUnits,
    /// Where the last read ended: the card has loaded the stripe after it.
    read_ahead_at: u64,
    clock: Nanos,
    waiting: VecDeque<Submission>,
    active: Option<Active>,
    finished: VecDeque<Completion>,
    recorder: Recorder,
    counters: Counters,
}

/// The command under way.
struct Active {
    queue: QueueId,
    cid: CommandId,
    read: Option<LbaRange>,
    /// Writes and deallocations to commit at the end, oldest first.
    sequences: Range<u64>,
    end: Nanos,
}

#[derive(Default)]
struct Counters {
    reads: u64,
    writes: u64,
    host_read_bytes: u64,
    host_written_bytes: u64,
    flash_reads: u64,
    flash_programs: u64,
    flash_erases: u64,
    busy_ns: u64,
}

const FLASH: Track = Track::Die { channel: 0, die: 0 };

impl Card {
    /// A card as configured, over `store`, which has one namespace of
    /// [`Card::blocks`] blocks.
    pub fn new(config: &CardConfig, store: Store) -> Result<Self, CardError> {
        config.check()?;
        let identity = Identity {
            model: config.model.clone(),
            lba_bytes: config.lba.0 as u32,
            namespace_blocks: vec![Self::blocks(config)],
            queues: 1,
            queue_depth: 1,
            max_transfer_bytes: config.bus.max_transfer.0 as u32,
            volatile_write_cache: false,
            supports_fua: true,
            supports_deallocate: true,
            rotational: false,
            ordering: None,
            keeps_contents: store.keeps_contents(),
            zoned: None,
        };
        Ok(Self {
            identity,
            config: config.clone(),
            store,
            units: OpenUnits::new(config),
            read_ahead_at: u64::MAX,
            clock: Nanos::ZERO,
            waiting: VecDeque::new(),
            active: None,
            finished: VecDeque::new(),
            recorder: Recorder::default(),
            counters: Counters::default(),
        })
    }

    /// Logical blocks that a card so configured has.
    pub fn blocks(config: &CardConfig) -> u64 {
        config.capacity.0 / config.lba.0.max(1)
    }

    /// Does everything due by `now`.
    fn run(&mut self, now: Nanos) {
        while let Some(active) = self.active.take_if(|active| active.end <= now) {
            self.clock = active.end;
            self.finish(active);
            self.begin();
        }
        self.clock = self.clock.max(now);
    }

    /// Begins the next command, if none is under way.
    fn begin(&mut self) {
        while self.active.is_none()
            && let Some(submission) = self.waiting.pop_front()
        {
            let Submission { queue, cid, command, data, request } = submission;
            let start = self.clock;
            if let Err(status) = check_command(&self.identity, &command, data.as_ref().map(|data| data.len())) {
                self.finished.push_back(Completion { queue, cid, status, result: 0, data: None, at: start });
                continue;
            }
            let processed = start + self.config.controller.command_overhead;
            self.span(start, processed, Track::Controller, Step::Process, request, &(0..0));
            let first = self.store.last_sequence() + 1;
            let mut read = None;
            let end = match command {
                // The check let no zoned and no stream command through.
                Command::Flush { .. }
                | Command::StreamManagement { .. }
                | Command::ZoneAppend { .. }
                | Command::ZoneManagementSend { .. }
                | Command::ZoneManagementReceive { .. } => processed,
                Command::Read { range, .. } => {
                    read = Some(range);
                    self.read(processed, self.bytes(range), request)
                }
                Command::Write(WriteCommand { nsid, range, .. }) => {
                    self.store.write_volatile(nsid, range, data);
                    self.write(processed, self.bytes(range), request)
                }
                Command::WriteZeroes { nsid, range, .. } => {
                    self.store.write_volatile(nsid, range, None);
                    self.erase(processed, self.bytes(range), request)
                }
                Command::Deallocate { nsid, ranges } => ranges.iter().fold(processed, |at, &range| {
                    self.store.write_volatile(nsid, range, None);
                    self.erase(at, self.bytes(range), request)
                }),
            };
            self.counters.busy_ns += (end - start).0;
            let sequences = first..self.store.last_sequence() + 1;
            self.active = Some(Active { queue, cid, read, sequences, end });
        }
    }

    fn finish(&mut self, active: Active) {
        let mut status = Status::SUCCESS;
        for sequence in active.sequences {
            if self.store.commit(sequence).is_err() {
                status = Status::WRITE_FAULT;
            }
        }
        let mut data = None;
        if let Some(range) = active.read {
            match self.store.read(NamespaceId::FIRST, range) {
                Ok(bytes) => data = bytes,
                Err(_) => status = Status::UNRECOVERED_READ,
            }
        }
        self.finished.push_back(Completion {
            queue: active.queue,
            cid: active.cid,
            status,
            result: 0,
            data,
            at: active.end,
        });
    }

    /// Stripes leave the flash while earlier ones cross the bus.
    fn read(&mut self, at: Nanos, bytes: Range<u64>, request: RequestId) -> Nanos {
        self.counters.reads += 1;
        self.counters.host_read_bytes += bytes.end - bytes.start;
        let stripe = self.config.flash.stripe.0;
        let stripes = bytes.end.div_ceil(stripe) - bytes.start / stripe;
        let loaded = self.read_ahead_at == bytes.start;
        self.read_ahead_at = bytes.end;
        self.counters.flash_reads += stripes;
        // The first stripe is there when the stream goes on from the last read.
        let first = if loaded { at } else { at + self.config.flash.read };
        let flash_end = first + self.config.flash.read * (stripes - 1);
        let bus_end = first + self.bus_time(bytes.end - bytes.start);
        // The last stripe crosses the bus after it has left the flash.
        let last = bytes.end - ((bytes.end - 1) / stripe * stripe).max(bytes.start);
        let end = bus_end.max(flash_end + self.bus_time(last));
        self.span(at, flash_end, FLASH, Step::FlashRead, request, &bytes);
        self.span(first, end, Track::Link, Step::Transfer, request, &bytes);
        end
    }

    /// Stripes are programmed while later ones cross the bus.
    fn write(&mut self, at: Nanos, bytes: Range<u64>, request: RequestId) -> Nanos {
        self.counters.writes += 1;
        self.counters.host_written_bytes += bytes.end - bytes.start;
        let opening = self.units.open_for(&bytes);
        let ready = self.flash_work(at, opening, Step::GarbageCollect, request, &bytes);
        let work = self.units.write(&bytes);
        let stripe = self.config.flash.stripe.0;
        let first = bytes.end.min((bytes.start / stripe + 1) * stripe) - bytes.start;
        let received = ready + self.bus_time(bytes.end - bytes.start);
        // A program begins when its stripe is there and the one before is done.
        let pace = self.config.flash.program.max(self.bus_time(stripe));
        let programmed =
            (ready + self.bus_time(first) + pace * (work.programs - 1)).max(received) + self.config.flash.program;
        self.span(ready, received, Track::Link, Step::Transfer, request, &bytes);
        self.span(ready + self.bus_time(first), programmed, FLASH, Step::FlashProgram, request, &bytes);
        self.counters.flash_programs += work.programs;
        let erases = FlashWork { reads: 0, programs: 0, ..work };
        self.flash_work(programmed, erases, Step::FlashErase, request, &bytes)
    }

    fn erase(&mut self, at: Nanos, bytes: Range<u64>, request: RequestId) -> Nanos {
        let work = self.units.erase(&bytes);
        self.flash_work(at, work, Step::FlashProgram, request, &bytes)
    }

    /// Does flash operations one after another; gives the end.
    fn flash_work(&mut self, at: Nanos, work: FlashWork, step: Step, request: RequestId, bytes: &Range<u64>) -> Nanos {
        let flash = &self.config.flash;
        let end = at + flash.read * work.reads + flash.program * work.programs + flash.erase * work.erases;
        self.counters.flash_reads += work.reads;
        self.counters.flash_programs += work.programs;
        self.counters.flash_erases += work.erases;
        self.span(at, end, FLASH, step, request, bytes);
        end
    }

    fn bus_time(&self, bytes: u64) -> Nanos {
        Nanos::transfer(bytes, self.config.bus.bandwidth.0)
    }

    fn bytes(&self, range: LbaRange) -> Range<u64> {
        let Lba(start) = range.start;
        let ByteSize(lba) = self.config.lba;
        start * lba..range.end().0 * lba
    }

    fn span(&self, start: Nanos, end: Nanos, track: Track, step: Step, request: RequestId, bytes: &Range<u64>) {
        if self.recorder.is_on() && start < end {
            let length = u32::try_from(bytes.end - bytes.start).unwrap_or(u32::MAX);
            self.recorder.record(Span { start, end, track, step, request, offset: bytes.start, bytes: length });
        }
    }
}

impl Device for Card {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        self.run(now);
        self.waiting.push_back(submission);
        self.begin();
    }

    fn next_event(&self) -> Option<Nanos> {
        let finished = self.finished.front().map(|completion| completion.at);
        finished.into_iter().chain(self.active.as_ref().map(|active| active.end)).min()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.run(now);
        completions.extend(self.finished.drain(..));
    }

    fn power_cut(&mut self, now: Nanos) -> PowerCut {
        self.run(now);
        self.waiting.clear();
        self.active = None;
        self.finished.clear();
        self.units.close_all();
        self.read_ahead_at = u64::MAX;
        PowerCut { undecided: self.store.cut() }
    }

    fn survive(&mut self, write: &VolatileWrite) {
        // An image that cannot be written fails the next write or read too.
        let _ = self.store.survive(write);
    }

    fn set_recorder(&mut self, recorder: Recorder) {
        self.recorder = recorder;
    }

    fn live_state(&self) -> LiveState {
        let outstanding_commands = (self.waiting.len() + usize::from(self.active.is_some())) as u64;
        LiveState { outstanding_commands, ..LiveState::default() }
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
            ("host_read_bytes", counters.host_read_bytes),
            ("host_written_bytes", counters.host_written_bytes),
            ("flash_reads", counters.flash_reads),
            ("flash_programs", counters.flash_programs),
            ("flash_erases", counters.flash_erases),
            ("busy_ns", counters.busy_ns),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}
