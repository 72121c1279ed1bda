//! Replays a trace on the modelled stack.
//!
//! I/Os enter at the block layer, where block traces are taken. The CPU time
//! above it is in the trace's own timestamps, so the replay charges none.

use std::cell::RefCell;
use std::rc::Rc;

use block::{Bio, BioFlags, BioOp, BlockDevice, Limits, Sector};
use sim::Handle;
use sim::sync::{Permit, Semaphore};
use stats::{Histogram, Occupancy};
use trace::{Recorder, RequestId, Span, Step, Track};
use units::Nanos;

use super::placement::Placed;
use super::{Backlog, Pace, Placement, PlacementError, Record, ReplayCounts, ReplayReport, TraceError, TraceOp};
use crate::Host;
use crate::fio::report::{CpuUse, Depths, IoError, Operation, Setup, Shortfall, ShortfallReason};
use crate::fio::{Direction, DirectionReport, JobReport, Options, PerDirection};

/// First interval of the throughput series; it doubles as the replay outgrows it.
const SERIES_INTERVAL: Nanos = Nanos::from_millis(1);

/// How to replay a trace.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ReplayOptions {
    /// When I/Os are issued.
    pub pace: Pace,
    /// Where they go.
    pub placement: Placement,
}

/// Why a replay has no result.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A trace of a device without zones writes where it likes.
    #[error(
        "{file}: traces are not replayed on zoned devices, which take writes at their write pointers alone: \
         take another device, or write a fio job with zonemode=zbd"
    )]
    Zoned {
        /// The trace.
        file: String,
    },
    /// An I/O has no place on the device.
    #[error("{file}:{line}: {source}")]
    Placement {
        /// The trace.
        file: String,
        /// Its line.
        line: u64,
        /// Why not.
        source: PlacementError,
    },
}

/// A replay under way on an executor. Run the executor, then ask for the report.
#[must_use = "run the executor, then finish the replay"]
pub struct Replay {
    state: Rc<RefCell<State>>,
}

/// What the replay's tasks share.
struct State {
    disk: BlockDevice,
    recorder: Recorder,
    setup: Setup,
    started_at: Nanos,
    last_end: Nanos,
    directions: PerDirection<DirectionReport>,
    sync: Histogram,
    depths: Depths,
    lateness: Histogram,
    in_flight: Occupancy,
    backlog: Option<Backlog>,
    counts: ReplayCounts,
    asked_bytes: u64,
    /// First and latest timestamp of the trace.
    traced: Option<(Nanos, Nanos)>,
    errors: Vec<IoError>,
    error_count: u64,
    /// All of the trace was issued, or it ended in `failure`.
    ended: bool,
    failure: Option<ReplayError>,
}

/// An I/O ready to be issued.
struct Io {
    record: Record,
    placed: Placed,
}

/// The trace as the replay takes it: one I/O with a place after the other.
struct Source<T> {
    file: String,
    trace: T,
    placement: Placement,
    limits: Limits,
    state: Rc<RefCell<State>>,
}

impl Replay {
    /// Starts to replay the I/Os of `trace`, which errors call `file`, on `host`; the
    /// first is due now.
    pub fn start<T>(host: &Host, file: &str, trace: T, options: &ReplayOptions) -> Self
    where
        T: Iterator<Item = Result<Record, TraceError>> + 'static,
    {
        let state = Rc::new(RefCell::new(State::new(host, setup(file, options))));
        let limits = host.disk.limits();
        if limits.zoned.is_some() {
            state.borrow_mut().failure = Some(ReplayError::Zoned { file: file.to_owned() });
            return Self { state };
        }
        let placement = options.placement;
        let source = Source { file: file.to_owned(), trace, placement, limits, state: state.clone() };
        let sim = host.sim.clone();
        match options.pace {
            Pace::OpenLoop { speed, max_in_flight } => {
                let room = Semaphore::new(max_in_flight.get());
                let task = async move {
                    let mut due = sim.now();
                    let started_at = due;
                    let mut source = source;
                    while let Some(io) = source.next() {
                        let since_first = source.state.borrow_mut().traced_at(io.record.at);
                        due = due.max(started_at + speed.scale(since_first));
                        sim.sleep_until(due).await;
                        let permit = room.acquire(1).await;
                        source.state.borrow_mut().issuing(due, sim.now());
                        issue(&sim, &source.state, io, permit);
                    }
                };
                host.sim.spawn_named("open-loop replay", task);
            }
            Pace::ClosedLoop { in_flight } => {
                let room = Semaphore::new(in_flight.get());
                let task = async move {
                    let mut source = source;
                    while let Some(io) = source.next() {
                        source.state.borrow_mut().traced_at(io.record.at);
                        let permit = room.acquire(1).await;
                        issue(&sim, &source.state, io, permit);
                    }
                };
                host.sim.spawn_named("closed-loop replay", task);
            }
        }
        Self { state }
    }

    /// The result, once the executor has nothing left to run. A trace that could
    /// not be read or placed to its end is an error; a replay that stalled, and
    /// I/Os that failed, are in the report's shortfall.
    pub fn finish(self) -> Result<ReplayReport, ReplayError> {
        let mut state = self.state.borrow_mut();
        match state.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(state.report()),
        }
    }
}

impl<T: Iterator<Item = Result<Record, TraceError>>> Source<T> {
    fn next(&mut self) -> Option<Io> {
        loop {
            let next = self.read();
            let mut state = self.state.borrow_mut();
            match next {
                Ok(Some((record, Some(placed)))) => {
                    state.counts.asked += 1;
                    state.counts.adjusted += u64::from(placed.adjusted);
                    state.asked_bytes += placed.bytes;
                    return Some(Io { record, placed });
                }
                Ok(Some((_, None))) => state.counts.empty_trims += 1,
                Ok(None) => {
                    state.ended = true;
                    return None;
                }
                Err(failure) => {
                    state.ended = true;
                    state.failure = Some(failure);
                    return None;
                }
            }
        }
    }

    fn read(&mut self) -> Result<Option<(Record, Option<Placed>)>, ReplayError> {
        let Some(record) = self.trace.next().transpose()? else { return Ok(None) };
        let placed = self.placement.place(&record, &self.limits).map_err(|source| ReplayError::Placement {
            file: self.file.clone(),
            line: record.line,
            source,
        })?;
        Ok(Some((record, placed)))
    }
}

/// Gives an I/O to the block layer now; the permit comes back when it completes.
fn issue(sim: &Handle, state: &Rc<RefCell<State>>, io: Io, permit: Permit) {
    let issued_at = sim.now();
    let Io { record, placed } = io;
    let (future, request) = {
        let mut state = state.borrow_mut();
        let request = RequestId(state.counts.asked);
        let (op, flags) = match record.op {
            TraceOp::Read => (BioOp::Read, record.flags),
            TraceOp::Write => (BioOp::Write, record.flags),
            TraceOp::Trim => (BioOp::Discard, record.flags),
            // blkdev_issue_flush: an empty write with PREFLUSH.
            TraceOp::Sync | TraceOp::DataSync => (BioOp::Write, record.flags | BioFlags::PREFLUSH),
        };
        let bio = Bio {
            nsid: nvme::NamespaceId::FIRST,
            op,
            sector: placed.sector,
            bytes: placed.bytes,
            flags,
            data: None,
            order: None,
            request,
        };
        let future = state.disk.submit(record.cpu.unwrap_or(0), bio);
        state.in_flight.enter(issued_at);
        let depth = u32::try_from(state.in_flight.in_flight()).unwrap_or(u32::MAX);
        state.depths.issued(depth);
        state.depths.submitted(1);
        (future, request)
    };
    let (sim, state) = (sim.clone(), state.clone());
    // The handle is dropped: the task ends by itself and nobody waits for it.
    drop(sim.clone().spawn(async move {
        let status = future.await.status;
        let now = sim.now();
        state.borrow_mut().completed(&record, placed, request, issued_at, now, status);
        drop(permit);
    }));
}

impl State {
    fn new(host: &Host, setup: Setup) -> Self {
        let now = host.sim.now();
        Self {
            disk: host.disk.clone(),
            recorder: host.recorder.clone(),
            setup,
            started_at: now,
            last_end: now,
            directions: PerDirection::from_fn(|_| DirectionReport::new(SERIES_INTERVAL)),
            sync: Histogram::new(),
            depths: Depths::default(),
            lateness: Histogram::new(),
            in_flight: Occupancy::default(),
            backlog: None,
            counts: ReplayCounts::default(),
            asked_bytes: 0,
            traced: None,
            errors: Vec::new(),
            error_count: 0,
            ended: false,
            failure: None,
        }
    }

    /// Notes a timestamp; gives its distance from the first one.
    fn traced_at(&mut self, at: Nanos) -> Nanos {
        let (first, latest) = self.traced.unwrap_or((at, at));
        self.counts.out_of_order += u64::from(at < latest);
        self.traced = Some((first, latest.max(at)));
        at.since(first)
    }

    /// Notes an open loop's I/O, which was due at `due`.
    fn issuing(&mut self, due: Nanos, now: Nanos) {
        self.lateness.record(now - due);
        let in_flight = self.in_flight.in_flight();
        let backlog = self.backlog.get_or_insert_default();
        backlog.due_over = due - self.started_at;
        backlog.at_last = in_flight + 1;
        if in_flight == 0 {
            backlog.idle_at = now - self.started_at;
        }
    }

    fn completed(
        &mut self,
        record: &Record,
        placed: Placed,
        request: RequestId,
        issued_at: Nanos,
        now: Nanos,
        status: nvme::Status,
    ) {
        self.in_flight.leave(now);
        self.depths.completed(1);
        self.last_end = now;
        let latency = now - issued_at;
        let (direction, step) = match record.op {
            TraceOp::Read => (Some(Direction::Read), Step::Read),
            TraceOp::Write => (Some(Direction::Write), Step::Write),
            TraceOp::Trim => (Some(Direction::Trim), Step::Discard),
            TraceOp::Sync | TraceOp::DataSync => (None, Step::Flush),
        };
        let offset = placed.sector.0 * Sector::BYTES;
        if self.recorder.is_on() {
            let bytes = u32::try_from(placed.bytes).unwrap_or(u32::MAX);
            self.recorder.record(Span {
                start: issued_at,
                end: now,
                track: Track::Job(0),
                step,
                request,
                offset,
                bytes,
            });
        }
        if !status.is_success() {
            self.error_count += 1;
            if self.errors.len() < JobReport::KEPT_ERRORS {
                let operation = direction.map_or(Operation::Sync, Operation::from);
                self.errors.push(IoError { operation, offset, bytes: placed.bytes, status, at: now });
            }
            return;
        }
        self.counts.served += 1;
        let Some(direction) = direction else {
            self.sync.record(latency);
            return;
        };
        let (least, most) = &mut self.setup.block_bytes[direction];
        *least = if *least == 0 { placed.bytes } else { placed.bytes.min(*least) };
        *most = placed.bytes.max(*most);
        let report = &mut self.directions[direction];
        report.bytes += placed.bytes;
        report.ios += 1;
        report.runtime = now - self.started_at;
        report.clat.record(latency);
        report.lat.record(latency);
        report.series.record(now, placed.bytes, latency);
    }

    fn report(&self) -> ReplayReport {
        let in_flight = self.in_flight.in_flight();
        let served_bytes = self.directions.iter().map(|(_, direction)| direction.bytes).sum();
        let reason = match self.errors.first() {
            _ if in_flight > 0 || !self.ended => Some(ShortfallReason::Stalled { in_flight }),
            Some(error) => Some(ShortfallReason::Error(*error)),
            None => None,
        };
        let shortfall = reason.map(|reason| Shortfall { asked_bytes: Some(self.asked_bytes), served_bytes, reason });
        debug_assert!(shortfall.is_some() || self.counts.asked == self.counts.served);
        let job = JobReport {
            name: "replay".to_owned(),
            index: 0,
            group: 0,
            threads: 1,
            setup: self.setup.clone(),
            started_at: self.started_at,
            measured_from: self.started_at,
            finished_at: self.last_end,
            directions: self.directions.clone(),
            finish: DirectionReport::new(SERIES_INTERVAL),
            reset: DirectionReport::new(SERIES_INTERVAL),
            reset_by_trim: 0,
            sync: self.sync.clone(),
            depths: self.depths,
            cpu: CpuUse::default(),
            verify: None,
            errors: self.errors.clone(),
            error_count: self.error_count,
            shortfall,
        };
        ReplayReport {
            job,
            lateness: self.lateness.clone(),
            in_flight: self.in_flight,
            backlog: self.backlog.map(|backlog| Backlog {
                drained_in: self.last_end.since(self.started_at + backlog.due_over),
                ..backlog
            }),
            counts: self.counts,
            traced: self.traced.map_or(Nanos::ZERO, |(first, latest)| latest - first),
        }
    }
}

/// The replay as a report's header shows it.
fn setup(file: &str, options: &ReplayOptions) -> Setup {
    let defaults = Options::default();
    Setup {
        global: Vec::new(),
        options: vec![("trace".to_owned(), file.to_owned()), ("pace".to_owned(), options.pace.to_string())],
        pattern: "replay".to_owned(),
        block_bytes: PerDirection::default(),
        engine: "replay".to_owned(),
        // Entering the block layer takes no time here, so there is no slat.
        synchronous: true,
        depth: match options.pace {
            Pace::OpenLoop { max_in_flight: depth, .. } | Pace::ClosedLoop { in_flight: depth } => depth.get(),
        },
        description: None,
        group_reporting: false,
        percentiles_of: [false, true, false],
        percentiles: defaults.percentiles,
        unified: defaults.unified,
    }
}
