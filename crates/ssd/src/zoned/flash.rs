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
use super::config::{ZonedConfig, ZonedLayout, ZonedSuspend};
use super::firmware::Variation;
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
    /// Since when, or from when on, it is at work.
    works_from: Nanos,
    /// Whether it was at work before `works_from`.
    begun: bool,
    interruptions: u32,
    /// `Flash::mark` when it began.
    mark: u32,
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
            works_from: Nanos::ZERO,
            begun: false,
            interruptions: 0,
            mark: 0,
        }
    }

    /// Something else has the array up to `at`.
    fn continue_from(&mut self, at: Nanos) {
        let delay = at.since(self.works_from);
        self.works_from += delay;
        self.end += delay;
        if !self.begun {
            self.start += delay;
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
    suspend: Option<ZonedSuspend>,
    suspension: Variation,
    bytes_per_s: u64,
    command_overhead: Nanos,
    planes: u32,
    page_bytes: u64,
    /// Arrays without a program to do.
    idle: u32,
    /// Whether no program may begin.
    gated: bool,
    programs_running: u32,
    /// Programs under way that began before the last `mark`, and what tells them.
    marked_running: u32,
    mark: u32,
    suspends: u64,
    program: Nanos,
    padding_program: Nanos,
    /// Largest deviation of a program's time, in 1/65536 of it.
    variation: u64,
    random: u64,
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
            suspension: Variation::new(
                config.suspend.as_ref().map_or(0.0, |suspend| suspend.variation),
                config.controller.seed,
            ),
            bytes_per_s: config.channel.bandwidth.0,
            command_overhead: config.channel.command_overhead,
            planes: layout.planes,
            page_bytes: layout.page_bytes,
            idle: layout.arrays(),
            gated: false,
            programs_running: 0,
            marked_running: 0,
            mark: 0,
            suspends: 0,
            program: config.cell.program,
            padding_program: config.cell.padding_program.unwrap_or(config.cell.program),
            variation: (config.cell.variation * 65536.0) as u64,
            random: config.controller.seed.wrapping_mul(0xd134_2543_de82_ef95) | 1,
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
        if state.job != NONE && start < self.jobs[state.job].end {
            let job = &mut self.jobs[state.job];
            match &self.suspend {
                Some(suspend) if preempt && job.interruptions < suspend.max_per_operation => {
                    job.interruptions += 1;
                    if job.works_from <= start {
                        self.suspends += 1;
                        let stopped = start;
                        start += self.suspension.of(suspend.suspend);
                        job.begun = true;
                        job.end += start.since(stopped);
                        job.works_from = start;
                    }
                    let resume = if job.begun { suspend.resume } else { Nanos::ZERO };
                    job.continue_from(start + duration + resume);
                }
                _ => start = job.end,
            }
        }
        let end = start + duration;
        state.free_at = end;
        state.busy += duration;
        (start, end)
    }

    /// Keeps an array from doing anything else until `until`: its page register
    /// holds data of the read booked last.
    pub fn hold(&mut self, array: u32, until: Nanos) {
        let state = &mut self.arrays[array as usize];
        if until <= state.free_at {
            return;
        }
        state.free_at = until;
        if state.job != NONE
            && let Some(suspend) = &self.suspend
        {
            let job = &mut self.jobs[state.job];
            if until < job.end {
                let resume = if job.begun { suspend.resume } else { Nanos::ZERO };
                job.continue_from(until + resume);
            }
        }
    }

    /// What a program takes: its time varies.
    pub fn program_time(&mut self, padding: bool) -> Nanos {
        let mean = if padding { self.padding_program } else { self.program };
        if self.variation == 0 {
            return mean;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let random = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 48;
        // Uniform in mean x (1 - variation, 1 + variation), in 1/65536.
        let factor = 65536 - self.variation + ((2 * self.variation * random) >> 16);
        Nanos(((u128::from(mean.0) * u128::from(factor)) >> 16) as u64)
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

    /// How long an array has a unit of padding, of `bytes`: loading and programming it.
    pub fn padding_unit_time(&self, bytes: u64) -> Nanos {
        self.transfer_time(bytes) + self.padding_program
    }

    /// Programs an array has to do, the one under way included.
    pub fn pending(&self, array: u32) -> u32 {
        self.arrays[array as usize].pending
    }

    /// The unit that is being programmed on an array.
    pub fn programmed(&self, array: u32) -> Option<u32> {
        let id = self.arrays[array as usize].job;
        (id != NONE && self.jobs[id].kind == JobKind::Program).then(|| self.jobs[id].owner)
    }

    /// How long one page of `bytes` that a program takes is on the channel.
    pub fn page_load_time(&self, bytes: u32) -> Nanos {
        self.transfer_time(bytes.into()) / u64::from(bytes).div_ceil(self.page_bytes)
    }

    /// Arrays without a program to do.
    pub fn idle(&self) -> u32 {
        self.idle
    }

    /// Queues a job.
    pub fn enqueue(&mut self, array: u32, now: Nanos, job: Job, events: &mut Events<Event>) {
        let erase = job.kind == JobKind::Erase;
        let id = self.jobs.insert(job);
        let state = &mut self.arrays[array as usize];
        if erase {
            state.erases.push_back(&mut self.jobs, id);
        } else {
            self.idle -= u32::from(state.pending == 0);
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
            if program {
                events.push(at + self.page_load_time(bytes), Event::Loaded, array);
            }
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
        job.works_from = job.start;
        job.mark = self.mark;
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
                self.idle += u32::from(state.pending == 0);
                self.programs_running -= 1;
                self.marked_running -= u32::from(job.mark != self.mark);
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

    /// Marks the programs under way, all earlier marked ones having ended.
    pub fn mark_running(&mut self) {
        debug_assert_eq!(self.marked_running, 0);
        self.mark = self.mark.wrapping_add(1);
        self.marked_running = self.programs_running;
    }

    /// Whether the programs marked last have ended.
    pub fn is_drained(&self) -> bool {
        self.marked_running == 0
    }

    /// Whether no program may begin.
    pub fn is_gated(&self) -> bool {
        self.gated
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
        self.idle = self.arrays.len() as u32;
        self.gated = false;
        self.programs_running = 0;
        self.marked_running = 0;
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
