//! Jobs over the zones of a bare device, as a benchmark on an idle host runs them:
//! each keeps its queue depth, pays a fixed time of its own core per command, and
//! walks its zones.

#![allow(dead_code, clippy::unwrap_used)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, ZoneSendAction};
use ssd::{Device, Submission};
use trace::RequestId;
use units::Nanos;

use super::Random;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Writes at the write pointer, from zone to zone.
    Write,
    /// Appends, from zone to zone.
    Append,
    /// Reads at random in the written part of its zones.
    Read,
    /// Resets its zones, one after another.
    Reset,
    /// Writes one logical block to each of its zones, then finishes it.
    Finish,
}

/// A job.
#[derive(Clone, Debug)]
pub struct Job {
    pub work: Work,
    pub block_bytes: u64,
    pub queue_depth: u32,
    pub zones: std::ops::Range<u32>,
    /// The host's time for a command, counted in its latency.
    pub cpu: Nanos,
    /// Mean of an exponentially distributed time beside `cpu`.
    pub jitter: Nanos,
    /// Mean of an exponentially distributed pause before one command in a thousand.
    pub pause: Nanos,
    /// The time until the host notices a completion, counted in the latency.
    pub notice: Nanos,
    /// The host's time between a completion and the next command, not counted.
    pub think: Nanos,
    /// Least time from one command (or reset, or finish) to the next.
    pub pace: Option<Nanos>,
}

impl Job {
    pub fn new(work: Work, block_bytes: u64, queue_depth: u32, zones: std::ops::Range<u32>) -> Self {
        Self {
            work,
            block_bytes,
            queue_depth,
            zones,
            cpu: Nanos::ZERO,
            jitter: Nanos::ZERO,
            pause: Nanos::ZERO,
            notice: Nanos::ZERO,
            think: Nanos::ZERO,
            pace: None,
        }
    }
}

/// What a job measured.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Of every command that completed in the measured time; of a finish job only finishes.
    pub latencies_ns: Vec<u64>,
    /// Length of that time.
    pub seconds: f64,
}

impl Outcome {
    pub fn per_s(&self) -> f64 {
        self.latencies_ns.len() as f64 / self.seconds
    }

    pub fn mean_us(&self) -> f64 {
        self.latencies_ns.iter().sum::<u64>() as f64 / self.latencies_ns.len().max(1) as f64 / 1e3
    }

    pub fn quantile_us(&mut self, share: f64) -> f64 {
        if self.latencies_ns.is_empty() {
            return f64::NAN;
        }
        let rank = ((share * self.latencies_ns.len() as f64).ceil() as usize).clamp(1, self.latencies_ns.len()) - 1;
        *self.latencies_ns.select_nth_unstable(rank).1 as f64 / 1e3
    }

    /// All jobs taken together.
    pub fn merge<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Outcome {
        let mut all = Outcome::default();
        for outcome in outcomes {
            all.latencies_ns.extend_from_slice(&outcome.latencies_ns);
            all.seconds = outcome.seconds;
        }
        all
    }
}

struct State {
    job: Job,
    /// When its core is free.
    core_free: Nanos,
    zone: u32,
    /// Blocks of `zone` asked for so far.
    written: u64,
    /// When a paced job may begin its next round.
    due: Nanos,
    outcome: Outcome,
    random: Random,
}

impl State {
    fn exponential(&mut self, mean: Nanos) -> Nanos {
        Nanos((-self.random.share().ln() * mean.0 as f64) as u64)
    }
}

/// Runs `jobs` together on `device` from `start` on and measures from `warm_up`
/// later for `length`. Returns what each measured; the clock is left at the end.
pub fn run(device: &mut dyn Device, start: Nanos, jobs: &[Job], warm_up: Nanos, length: Nanos) -> Vec<Outcome> {
    let identity = device.identity().clone();
    let zoned = identity.zoned.clone().unwrap();
    let lba_bytes = u64::from(identity.lba_bytes);
    let nsid = NamespaceId::FIRST;
    let (from, until) = (start + warm_up, start + warm_up + length);
    let mut states: Vec<State> = jobs
        .iter()
        .enumerate()
        .map(|(index, job)| State {
            job: job.clone(),
            core_free: start,
            zone: job.zones.start,
            written: 0,
            due: start,
            outcome: Outcome { seconds: length.as_secs_f64(), ..Outcome::default() },
            random: Random(0x9e37_79b9 + index as u64),
        })
        .collect();
    let mut timers = BinaryHeap::new();
    for (index, state) in states.iter().enumerate() {
        // Jobs do not start in step.
        for n in 0..u64::from(state.job.queue_depth) {
            timers.push(Reverse((start + Nanos(index as u64 * 1700 + n * 300), index)));
        }
    }
    let mut outstanding: HashMap<CommandId, (usize, Nanos, bool)> = HashMap::new();
    let mut next_cid = 0_u16;
    let mut completions = Vec::new();
    loop {
        let timer = timers.peek().map(|Reverse((at, _))| *at);
        let Some(now) = [timer, device.next_event()].into_iter().flatten().min().filter(|now| *now < until) else {
            break;
        };
        device.advance(now, &mut completions);
        for completion in completions.drain(..) {
            let (index, since, counts) = outstanding.remove(&completion.cid).unwrap();
            assert!(completion.status.is_success(), "{:?}: {:?}", states[index].job, completion.status);
            let state = &mut states[index];
            let noticed = completion.at + state.job.notice;
            if counts && noticed >= from && noticed < until {
                state.outcome.latencies_ns.push((noticed - since).0);
            }
            let mut jitter = state.exponential(state.job.jitter);
            if state.random.below(1_000) == 0 {
                jitter += state.exponential(state.job.pause);
            }
            state.core_free = state.core_free.max(noticed) + state.job.think + state.job.cpu + jitter;
            let paced = if counts { state.due } else { Nanos::ZERO };
            timers.push(Reverse((state.core_free.max(paced), index)));
        }
        while timers.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Reverse((at, index)) = timers.pop().unwrap();
            let state = &mut states[index];
            let blocks = (state.job.block_bytes / lba_bytes) as u32;
            let zone_start = |zone: u32| Lba(u64::from(zone) * zoned.zone_blocks);
            if matches!(state.job.work, Work::Write | Work::Append)
                && state.written + u64::from(blocks) > zoned.zone_capacity_blocks
            {
                (state.zone, state.written) = (state.zone + 1, 0);
            }
            assert!(state.zone < state.job.zones.end, "{:?} has used its zones up", state.job);
            let start = Lba(zone_start(state.zone).0 + state.written);
            let (command, counts) = match state.job.work {
                Work::Write => {
                    state.written += u64::from(blocks);
                    (Command::write(nsid, LbaRange { start, count: blocks }, false), true)
                }
                Work::Append => {
                    state.written += u64::from(blocks);
                    (Command::ZoneAppend { nsid, zone: zone_start(state.zone), blocks, fua: false }, true)
                }
                Work::Read => {
                    let zones = u64::from(state.job.zones.end - state.job.zones.start);
                    let zone = state.job.zones.start + state.random.below(zones) as u32;
                    let slot = state.random.below(zoned.zone_capacity_blocks / u64::from(blocks));
                    let start = Lba(zone_start(zone).0 + slot * u64::from(blocks));
                    (Command::Read { nsid, range: LbaRange { start, count: blocks }, fua: false }, true)
                }
                Work::Finish if state.written == 0 => {
                    state.written = 1;
                    (Command::write(nsid, LbaRange { start, count: 1 }, false), false)
                }
                Work::Reset | Work::Finish => {
                    let action =
                        if state.job.work == Work::Reset { ZoneSendAction::Reset } else { ZoneSendAction::Finish };
                    let start = zone_start(state.zone);
                    (state.zone, state.written) = (state.zone + 1, 0);
                    (Command::ZoneManagementSend { nsid, start, action, all: false, zrwa: false }, true)
                }
            };
            if let Some(pace) = state.job.pace.filter(|_| counts) {
                state.due = state.due.max(at) + pace;
            }
            // A finish lasts longer than identifiers do.
            while outstanding.contains_key(&CommandId(next_cid)) {
                next_cid = next_cid.wrapping_add(1);
            }
            let cid = CommandId(next_cid);
            next_cid = next_cid.wrapping_add(1);
            outstanding.insert(cid, (index, at.since(state.job.cpu), counts));
            let submission =
                Submission { queue: QueueId(index as u16 + 1), cid, command, data: None, request: RequestId(0) };
            device.submit(now, submission);
        }
    }
    states.into_iter().map(|state| state.outcome).collect()
}
