//! A closed-loop driver for bare devices, and the figures it takes.

use std::collections::BTreeMap;

use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId};
use serde::{Deserialize, Serialize};
use trace::RequestId;
use units::{ByteSize, Nanos};

use crate::{Device, Submission};

/// What the commands of a phase do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Flush.
    Flush,
    /// Nothing, for `duration`.
    Idle,
}

/// Where the commands of a phase go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Uniformly random multiples of the block size.
    #[default]
    Random,
    /// One after another from the start of the span, over and over.
    Sequential,
}

/// A run of like commands, a fixed number outstanding at any time.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// What they do.
    pub op: Op,
    /// Size of each read or write.
    #[serde(default = "default_block")]
    pub block: ByteSize,
    /// Where they go.
    #[serde(default)]
    pub pattern: Pattern,
    /// Commands outstanding.
    #[serde(default = "one")]
    pub queue_depth: u16,
    /// Whether writes carry Force Unit Access.
    #[serde(default)]
    pub fua: bool,
    /// Addresses used, from `offset` on; absent: the whole namespace.
    #[serde(default)]
    pub span: Option<ByteSize>,
    /// First address used.
    #[serde(default)]
    pub offset: ByteSize,
    /// Data to transfer; with `commands` absent, this sets their number.
    #[serde(default)]
    pub bytes: Option<ByteSize>,
    /// Number of commands.
    #[serde(default)]
    pub commands: Option<u64>,
    /// A write of this size, not counted, before each command.
    #[serde(default)]
    pub after_write: Option<ByteSize>,
    /// A pause before each command (one outstanding).
    #[serde(default)]
    pub idle_before: Option<Nanos>,
    /// Length of an `idle` phase.
    #[serde(default)]
    pub duration: Option<Nanos>,
}

/// Why a measurement has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MeasureError {
    /// A phase that makes no sense.
    #[error("{0}")]
    Phase(String),
    /// A command failed.
    #[error("{command:?} completed with status {status:?}")]
    Failed {
        /// The command.
        command: Command,
        /// Its status.
        status: nvme::Status,
    },
    /// The device has nothing to do and commands outstanding.
    #[error("the device stopped with {outstanding} commands outstanding at {at}")]
    Stuck {
        /// Commands never completed.
        outstanding: usize,
        /// When.
        at: Nanos,
    },
}

/// What a phase yielded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Latency of each command, in order of completion.
    pub latencies: Vec<Nanos>,
    /// From the first submission counted to the last completion.
    pub elapsed: Nanos,
    /// Data that the counted commands moved.
    pub bytes: u64,
}

/// Drives a device phase by phase on its own virtual clock.
pub struct Driver<'a> {
    device: &'a mut dyn Device,
    now: Nanos,
    state: u64,
    next_cid: u16,
    cursor: u64,
}

impl<'a> Driver<'a> {
    /// A driver whose addresses are drawn from `seed`.
    pub fn new(device: &'a mut dyn Device, seed: u64) -> Self {
        Self { device, now: Nanos::ZERO, state: seed, next_cid: 0, cursor: 0 }
    }

    /// Runs one phase and samples all of its commands after the first `warm_up`.
    pub fn run(&mut self, phase: &Phase, warm_up: u64) -> Result<Sample, MeasureError> {
        if phase.op == Op::Idle {
            let Some(duration) = phase.duration else {
                return Err(MeasureError::Phase("an idle phase needs `duration`".to_owned()));
            };
            self.idle(duration);
            return Ok(Sample::default());
        }
        let count = match (phase.commands, phase.bytes) {
            (Some(commands), _) => commands,
            (None, Some(bytes)) if phase.op != Op::Flush => bytes.0.div_ceil(phase.block.0.max(1)),
            _ => return Err(MeasureError::Phase("a phase needs `commands`, or `bytes` of reads or writes".to_owned())),
        };
        if phase.queue_depth == 0 || count == 0 {
            return Err(MeasureError::Phase("`queue_depth` and `commands` must be at least 1".to_owned()));
        }
        if phase.queue_depth > 1 && (phase.after_write.is_some() || phase.idle_before.is_some()) {
            return Err(MeasureError::Phase("`after_write` and `idle_before` go with `queue_depth = 1`".to_owned()));
        }
        self.closed_loop(phase, warm_up, count)
    }

    fn closed_loop(&mut self, phase: &Phase, warm_up: u64, count: u64) -> Result<Sample, MeasureError> {
        self.cursor = 0;
        let mut outstanding: BTreeMap<CommandId, (Nanos, Command)> = BTreeMap::new();
        let mut completions = Vec::new();
        let mut sample = Sample::default();
        let mut counted_from = None;
        let (mut submitted, mut completed) = (0, 0);
        while completed < count + warm_up {
            while outstanding.len() < usize::from(phase.queue_depth) && submitted < count + warm_up {
                if let Some(pause) = phase.idle_before {
                    self.idle(pause);
                }
                if let Some(block) = phase.after_write {
                    let write = Phase { op: Op::Write, block, after_write: None, idle_before: None, ..phase.clone() };
                    let sample = self.closed_loop(&write, 0, 1)?;
                    debug_assert_eq!(sample.latencies.len(), 1);
                }
                let command = self.command(phase)?;
                if submitted == warm_up {
                    counted_from = Some(self.now);
                }
                submitted += 1;
                let cid = self.submit(command.clone());
                outstanding.insert(cid, (self.now, command));
            }
            let Some(next) = self.device.next_event() else {
                return Err(MeasureError::Stuck { outstanding: outstanding.len(), at: self.now });
            };
            self.now = self.now.max(next);
            self.device.advance(self.now, &mut completions);
            for completion in completions.drain(..) {
                let Some((since, command)) = outstanding.remove(&completion.cid) else { continue };
                if !completion.status.is_success() {
                    return Err(MeasureError::Failed { command, status: completion.status });
                }
                completed += 1;
                if completed > warm_up {
                    sample.latencies.push(completion.at - since);
                    sample.bytes += if phase.op == Op::Flush { 0 } else { phase.block.0 };
                    sample.elapsed = completion.at - counted_from.unwrap_or_default();
                }
            }
        }
        Ok(sample)
    }

    fn idle(&mut self, duration: Nanos) {
        let until = self.now + duration;
        let mut completions = Vec::new();
        while let Some(next) = self.device.next_event().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.device.advance(self.now, &mut completions);
        }
        self.now = until;
    }

    fn submit(&mut self, command: Command) -> CommandId {
        let cid = CommandId(self.next_cid);
        self.next_cid = self.next_cid.wrapping_add(1);
        let request = RequestId::default();
        self.device.submit(self.now, Submission { queue: QueueId(1), cid, command, data: None, request });
        cid
    }

    fn command(&mut self, phase: &Phase) -> Result<Command, MeasureError> {
        let nsid = NamespaceId::FIRST;
        if phase.op == Op::Flush {
            return Ok(Command::Flush { nsid });
        }
        let identity = self.device.identity();
        let lba_bytes = u64::from(identity.lba_bytes);
        let size = identity.namespace_blocks[0] * lba_bytes;
        let span =
            phase.span.map_or(size - phase.offset.0.min(size), |span| span.0).min(size - phase.offset.0.min(size));
        let slots = span / phase.block.0.max(1);
        if slots == 0 || !phase.block.0.is_multiple_of(lba_bytes) || !phase.offset.0.is_multiple_of(lba_bytes) {
            return Err(MeasureError::Phase(format!(
                "blocks of {} do not fit {} of addresses from {} in logical blocks of {lba_bytes} bytes",
                phase.block,
                ByteSize(span),
                phase.offset
            )));
        }
        let slot = match phase.pattern {
            Pattern::Random => self.random() % slots,
            Pattern::Sequential => self.cursor % slots,
        };
        self.cursor += 1;
        let start = Lba((phase.offset.0 + slot * phase.block.0) / lba_bytes);
        let range = LbaRange { start, count: (phase.block.0 / lba_bytes) as u32 };
        Ok(match phase.op {
            Op::Read => Command::Read { nsid, range, fua: false },
            _ => Command::write(nsid, range, phase.fua),
        })
    }

    /// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Sample {
    /// Mean latency in nanoseconds.
    pub fn mean_latency_ns(&self) -> f64 {
        self.latencies.iter().map(|latency| latency.0 as f64).sum::<f64>() / self.latencies.len().max(1) as f64
    }

    /// The latency that `share` of the commands do not exceed, in nanoseconds.
    pub fn latency_quantile_ns(&self, share: f64) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).map_or(0.0, |latency| latency.0 as f64)
    }

    /// Bytes per second.
    pub fn throughput(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Commands per second.
    pub fn iops(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

fn default_block() -> ByteSize {
    ByteSize(4096)
}

fn one() -> u16 {
    1
}
