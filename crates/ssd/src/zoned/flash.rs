//! Channels and arrays by next-free times, with one job per array in the background.
//!
//! A second model beside [`crate::flash`], because zones need other things of it.
//! There every operation waits in its die's queue and moves by events, so that
//! reads overtake. Here *foreground* work (reads, unbuffered programs, erases that a
//! host waits for) is booked in advance, first come, first served: its end is known
//! at once, which is the emulator's rule and costs no event. *Jobs* (programs
//! from the buffer, erases that give way) run in the background of an array, one
//! at a time; foreground work pushes their end back, and the event at the old end
//! moves itself to the new one.

use trace::{Recorder, RequestId, Span, Step, Track};
use units::Nanos;

use super::Event;
use super::config::{Suspend, ZonedConfig, ZonedLayout};
use crate::event::Events;
use crate::slab::{Fifo, NONE, Slab};

/// What a job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum JobKind {
    /// A program of the buffer's unit `owner`.
    Program,
    /// A copy of what the unit `owner` holds so far to a save area.
    Save,
    /// An erase for `owner`, which is the engine's to use.
    Erase,
}

/// Background work of one array.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// What it is.
    pub kind: JobKind,
    /// For what.
    pub owner: u32,
    /// Array time.
    pub array_time: Nanos,
    /// Not before.
    pub ready: Nanos,
    /// Bytes over the channel first.
    pub bytes: u32,
    /// The request it serves, for the trace.
    pub request: RequestId,
    /// A save: which use of the unit.
    pub serial: u32,
    start: Nanos,
    end: Nanos,
    interruptions: u32,
}

impl Job {
    pub fn new(kind: JobKind, owner: u32, array_time: Nanos, ready: Nanos, bytes: u32) -> Self {
        Self {
            kind,
            owner,
            array_time,
            ready,
            bytes,
            request: RequestId(0),
            serial: 0,
            start: Nanos::ZERO,
            end: Nanos::ZERO,
            interruptions: 0,
        }
    }
}

#[derive(Clone)]
struct Array {
    /// When foreground work booked so far is over.
    free_at: Nanos,
    /// The job under way.
    job: u32,
    programs: Fifo,
    erases: Fifo,
    /// Whether the last job was a program: kinds take turns.
    programmed_last: bool,
    /// Programs under way and queued.
    pending: u32,
    busy: Nanos,
}

#[derive(Clone, Default)]
struct Channel {
    free_at: Nanos,
    busy: Nanos,
}

/// All channels and arrays.
pub(super) struct Flash {
    arrays: Vec<Array>,
    channels: Vec<Channel>,
    jobs: Slab<Job>,
    suspend: Option<Suspend>,
    bytes_per_s: u64,
    command_overhead: Nanos,
    planes: u32,
    /// Whether no program may begin.
    gated: bool,
    programs_running: u32,
    suspends: u64,
    recorder: Recorder,
}

impl Flash {
    pub fn new(config: &ZonedConfig, layout: &ZonedLayout) -> Self {
        let array = Array {
            free_at: Nanos::ZERO,
            job: NONE,
            programs: Fifo::default(),
            erases: Fifo::default(),
            programmed_last: false,
            pending: 0,
            busy: Nanos::ZERO,
        };
        Self {
            arrays: vec![array; layout.arrays() as usize],
            channels: vec![Channel::default(); layout.channels as usize],
            jobs: Slab::with_capacity(256),
            suspend: config.suspend.clone(),
            bytes_per_s: config.channel.bandwidth.0,
            command_overhead: config.channel.command_overhead,
            planes: layout.planes,
            gated: false,
            programs_running: 0,
            suspends: 0,
            recorder: Recorder::default(),
        }
    }

    pub fn set_recorder(&mut self, recorder: Recorder) {
        self.recorder = recorder;
    }

    /// Books `duration` on an array, not before `at`: start and end. A job under
    /// way gives way if `preempt` and it can; else the work waits for its end.
    pub fn book(&mut self, array: u32, at: Nanos, duration: Nanos, preempt: bool) -> (Nanos, Nanos) {
        let state = &mut self.arrays[array as usize];
        let mut start = at.max(state.free_at);
        if state.job != NONE {
            let job = &mut self.jobs[state.job];
            if start < job.end {
                let suspend =
                    self.suspend.as_ref().filter(|suspend| preempt && job.interruptions < suspend.max_per_operation);
                match suspend {
                    None => start = job.end,
                    Some(suspend) => {
                        job.interruptions += 1;
                        if start < job.start {
                            // It has not begun: it begins later.
                            let delay = (start + duration).since(job.start);
                            job.start += delay;
                            job.end += delay;
                        } else if start > at {
                            // It is suspended already, for work booked before.
                            job.end += duration;
                        } else {
                            start += suspend.suspend;
                            job.end += suspend.suspend + duration + suspend.resume;
                            self.suspends += 1;
                        }
                    }
                }
            }
        }
        let end = start + duration;
        state.free_at = end;
        state.busy += duration;
        (start, end)
    }

    /// Books a transfer on an array's channel, not before `at`: start and end.
    pub fn transfer(&mut self, array: u32, at: Nanos, bytes: u64) -> (Nanos, Nanos) {
        let duration = self.transfer_time(bytes);
        let channel = self.channel_of(array);
        let channel = &mut self.channels[channel as usize];
        let start = at.max(channel.free_at);
        channel.free_at = start + duration;
        channel.busy += duration;
        (start, channel.free_at)
    }

    /// How long a channel takes for `bytes`.
    pub fn transfer_time(&self, bytes: u64) -> Nanos {
        self.command_overhead + Nanos::transfer(bytes, self.bytes_per_s)
    }

    /// Programs an array has to do, the one under way included.
    pub fn pending(&self, array: u32) -> u32 {
        self.arrays[array as usize].pending
    }

    /// Queues a job.
    pub fn enqueue(&mut self, array: u32, now: Nanos, job: Job, events: &mut Events<Event>) {
        let erase = job.kind == JobKind::Erase;
        let id = self.jobs.insert(job);
        let state = &mut self.arrays[array as usize];
        if erase {
            state.erases.push_back(&mut self.jobs, id);
        } else {
            state.pending += 1;
            state.programs.push_back(&mut self.jobs, id);
        }
        self.start(array, now, events);
    }

    /// Begins an array's next job, if it may.
    ///
    /// Program data crosses the channel page by page between the reads' transfers,
    /// which go first: it counts as busy time there and holds up no read.
    fn start(&mut self, array: u32, now: Nanos, events: &mut Events<Event>) {
        let state = &self.arrays[array as usize];
        if state.job != NONE {
            return;
        }
        let (programs, erases) = (!self.gated && !state.programs.is_empty(), !state.erases.is_empty());
        let program = match (programs, erases) {
            (false, false) => return,
            (true, true) => !state.programmed_last,
            (program, _) => program,
        };
        let state = &mut self.arrays[array as usize];
        let queue = if program { &mut state.programs } else { &mut state.erases };
        let Some(id) = queue.pop_front(&mut self.jobs) else { return };
        let job = &self.jobs[id];
        let (mut at, bytes, array_time) = (now.max(job.ready), job.bytes, job.array_time);
        if bytes > 0 {
            let load = self.transfer_time(bytes.into());
            let channel = self.channel_of(array);
            self.channels[channel as usize].busy += load;
            self.record(at, at + load, Track::Channel(channel as u16), Step::ChannelTransfer, RequestId(0), bytes);
            at += load;
        }
        let state = &mut self.arrays[array as usize];
        state.job = id;
        state.programmed_last = program;
        state.busy += array_time;
        let job = &mut self.jobs[id];
        job.start = at.max(state.free_at);
        job.end = job.start + array_time;
        self.programs_running += u32::from(program);
        events.push(job.end, Event::ArrayEnd, array);
    }

    /// The event at the end of an array's job: the job, if it is over.
    pub fn ended(&mut self, array: u32, now: Nanos, events: &mut Events<Event>) -> Option<Job> {
        let id = self.arrays[array as usize].job;
        let job = &self.jobs[id];
        if job.end > now {
            events.push(job.end, Event::ArrayEnd, array);
            return None;
        }
        let job = job.clone();
        self.jobs.remove(id);
        let state = &mut self.arrays[array as usize];
        state.job = NONE;
        let step = match job.kind {
            JobKind::Erase => Step::FlashErase,
            JobKind::Program | JobKind::Save => {
                state.pending -= 1;
                self.programs_running -= 1;
                Step::FlashProgram
            }
        };
        self.record_array(array, job.start, job.end, step, job.request, job.bytes);
        self.start(array, now, events);
        Some(job)
    }

    /// Lets no program begin from now on.
    pub fn gate(&mut self) {
        self.gated = true;
    }

    /// Whether no program is under way.
    pub fn is_drained(&self) -> bool {
        self.programs_running == 0
    }

    /// Lets programs begin again.
    pub fn ungate(&mut self, now: Nanos, events: &mut Events<Event>) {
        self.gated = false;
        for array in 0..self.arrays.len() as u32 {
            self.start(array, now, events);
        }
    }

    /// Power off.
    pub fn reset(&mut self) {
        for array in &mut self.arrays {
            (array.free_at, array.job, array.pending) = (Nanos::ZERO, NONE, 0);
            (array.programs, array.erases) = (Fifo::default(), Fifo::default());
        }
        for channel in &mut self.channels {
            channel.free_at = Nanos::ZERO;
        }
        self.jobs.clear();
        self.gated = false;
        self.programs_running = 0;
    }

    fn channel_of(&self, array: u32) -> u32 {
        array / self.planes % self.channels.len() as u32
    }

    /// Busy times of channels and dies.
    pub fn busy(&self) -> (impl Iterator<Item = Nanos>, impl Iterator<Item = Nanos>) {
        let dies = self.arrays.chunks(self.planes as usize);
        (
            self.channels.iter().map(|channel| channel.busy),
            dies.map(|arrays| arrays.iter().fold(Nanos::ZERO, |sum, array| sum + array.busy)),
        )
    }

    /// Times that a job gave way.
    pub fn suspends(&self) -> u64 {
        self.suspends
    }

    /// A span on an array's die.
    pub fn record_array(&self, array: u32, start: Nanos, end: Nanos, step: Step, request: RequestId, bytes: u32) {
        let (die, channel) = (array / self.planes, self.channel_of(array));
        self.record(start, end, Track::Die { channel: channel as u16, die: die as u16 }, step, request, bytes);
    }

    /// A span on an array's channel.
    pub fn record_transfer(&self, array: u32, start: Nanos, end: Nanos, request: RequestId, bytes: u32) {
        let channel = self.channel_of(array);
        self.record(start, end, Track::Channel(channel as u16), Step::ChannelTransfer, request, bytes);
    }

    #[inline]
    fn record(&self, start: Nanos, end: Nanos, track: Track, step: Step, request: RequestId, bytes: u32) {
        if self.recorder.is_on() {
            self.recorder.record(Span { start, end, track, step, request, offset: 0, bytes });
        }
    }
}
