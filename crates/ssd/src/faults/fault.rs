//! What a fault is: which commands it hits, which of those, and what they suffer.

use nvme::{Command, LbaRange, NamespaceId, Status, Stream, WriteCommand};
use serde::{Deserialize, Serialize};
use units::Nanos;

use super::status_text;

/// How long a command that fails without having been executed takes, unless the
/// fault says otherwise: an answer in no time would let a host that tries again
/// do so for ever without the clock moving.
pub(super) const FAILURE_LATENCY: Nanos = Nanos::from_micros(10);

/// Longest delay.
const LONGEST_DELAY: Nanos = Nanos::from_secs(3600);

/// Most blocks of a media error that writes clear: one bit is kept for each.
const CLEARABLE_BLOCKS: u64 = 1 << 24;

/// Classes of commands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Write Zeroes.
    WriteZeroes,
    /// Flush.
    Flush,
    /// Dataset Management, Deallocate.
    Deallocate,
    /// Zone Append.
    Append,
    /// Zone Management Send.
    ZoneSend,
    /// Zone Management Receive.
    ZoneReceive,
    /// Stream Management.
    StreamManagement,
}

impl Operation {
    /// Every class.
    pub const ALL: &[Self] = &[
        Self::Read,
        Self::Write,
        Self::WriteZeroes,
        Self::Flush,
        Self::Deallocate,
        Self::Append,
        Self::ZoneSend,
        Self::ZoneReceive,
        Self::StreamManagement,
    ];

    /// The class of a command.
    pub fn of(command: &Command) -> Self {
        match command {
            Command::Read { .. } => Self::Read,
            Command::Write(_) => Self::Write,
            Command::WriteZeroes { .. } => Self::WriteZeroes,
            Command::Flush { .. } => Self::Flush,
            Command::Deallocate { .. } => Self::Deallocate,
            Command::ZoneAppend { .. } => Self::Append,
            Command::ZoneManagementSend { .. } => Self::ZoneSend,
            Command::ZoneManagementReceive { .. } => Self::ZoneReceive,
            Command::StreamManagement { .. } => Self::StreamManagement,
        }
    }

    /// Whether it changes what the device holds.
    pub fn changes(self) -> bool {
        !matches!(self, Self::Read | Self::Flush | Self::ZoneReceive | Self::StreamManagement)
    }
}

/// What happens to a command that is hit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Effect {
    /// It fails with `status` and is not executed.
    Error {
        /// The status, as [`super::parse_status`] reads it.
        #[serde(with = "status_text")]
        status: Status,
        /// How long it takes.
        #[serde(default = "failure_latency")]
        after: Nanos,
    },
    /// A read of the blocks fails with Unrecovered Read Error (2/81h). Needs a range.
    Media {
        /// Whether writing, zeroing or deallocating a block, or resetting its zone,
        /// makes it readable again.
        #[serde(default)]
        cleared_by_write: bool,
        /// How long a read that fails takes: a drive tries several times.
        #[serde(default = "failure_latency")]
        after: Nanos,
    },
    /// It takes so much longer.
    Delay {
        /// What is added.
        added: Nanos,
    },
    /// It takes so long, or as long as without the fault where that is longer.
    Latency {
        /// The least it takes.
        at_least: Nanos,
    },
    /// What would change the device fails with Namespace is Write Protected (0/20h).
    ReadOnly,
    /// It never completes and is not executed. Clearing the fault ends it with
    /// Command Abort Requested (0/07h); a power cut forgets it.
    Timeout,
    /// A flush completes without having committed anything, and a write with FUA
    /// as one without: the device lies about what a power cut leaves.
    LostFlush,
}

fn failure_latency() -> Nanos {
    FAILURE_LATENCY
}

impl Effect {
    /// A failure with `status`.
    pub fn error(status: Status) -> Self {
        Self::Error { status, after: FAILURE_LATENCY }
    }

    /// Whether it can befall a command at all.
    fn applies_to(&self, command: &Command) -> bool {
        match self {
            Self::Error { .. } | Self::Delay { .. } | Self::Latency { .. } | Self::Timeout => true,
            Self::Media { .. } => matches!(command, Command::Read { .. }),
            Self::ReadOnly => Operation::of(command).changes(),
            Self::LostFlush => match command {
                Command::Flush { .. } => true,
                Command::Write(WriteCommand { fua, .. })
                | Command::WriteZeroes { fua, .. }
                | Command::ZoneAppend { fua, .. } => *fua,
                _ => false,
            },
        }
    }
}

/// A fault. A command *matches* when operation, namespace and range do; matching
/// commands are counted from 1, and command `k` is *hit* when `k >= nth`, `k - nth` is
/// a multiple of `every` and the coin says so, until `times` commands have been hit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What happens.
    pub effect: Effect,
    /// Classes of commands it is limited to; empty: all that the effect can befall.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<Operation>,
    /// Namespace it is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nsid: Option<u32>,
    /// Blocks it is limited to, as first block and number of blocks: commands that
    /// touch one of them match. A flush or a command on all zones touches none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lbas: Option<(u64, u64)>,
    /// Stream of ordered writes it is limited to: writes that belong to it and commands that manage it match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<u16>,
    /// The first matching command that is hit.
    #[serde(default = "one")]
    pub nth: u64,
    /// Of the matching commands from there on, every so manieth is hit.
    #[serde(default = "one")]
    pub every: u64,
    /// Most commands that are hit; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// With which probability such a command is hit.
    #[serde(default = "certain")]
    pub probability: f64,
    /// What the coin depends on, beside the command's number.
    #[serde(default)]
    pub seed: u64,
}

fn one() -> u64 {
    1
}

fn certain() -> f64 {
    1.0
}

/// Why a fault cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FaultError {
    /// Counting begins at 1.
    #[error("{field} is 0; matching commands are counted from 1")]
    Zero {
        /// `nth` or `every`.
        field: &'static str,
    },
    /// Not a probability.
    #[error("probability {value} is not between 0 and 1")]
    Probability {
        /// What was given.
        value: f64,
    },
    /// An empty range, or one beyond the last address.
    #[error("{blocks} blocks from block {first} are no range of blocks")]
    Range {
        /// First block.
        first: u64,
        /// Number of blocks.
        blocks: u64,
    },
    /// Media errors are somewhere.
    #[error("a media error needs the blocks it is on (lbas)")]
    NoRange,
    /// One bit is kept for each block.
    #[error("a media error that writes clear covers at most {CLEARABLE_BLOCKS} blocks, not {blocks}; choose fewer")]
    TooManyBlocks {
        /// What was given.
        blocks: u64,
    },
    /// It would never hit.
    #[error("the effect cannot befall any of the operations given; leave them out for all that it can")]
    Operations,
    /// Nobody waits so long.
    #[error("{time} is more than the longest delay of {LONGEST_DELAY}; a command that never completes is a timeout")]
    TooLong {
        /// What was given.
        time: Nanos,
    },
    /// The plan is full.
    #[error("{limit} faults are injected already; clear some")]
    Full {
        /// Most faults of a plan.
        limit: usize,
    },
}

impl Fault {
    /// A fault that hits every command its effect can befall.
    pub fn new(effect: Effect) -> Self {
        Self {
            effect,
            operations: Vec::new(),
            nsid: None,
            lbas: None,
            stream: None,
            nth: 1,
            every: 1,
            times: None,
            probability: 1.0,
            seed: 0,
        }
    }

    /// Limits it to `blocks` blocks from `first` on.
    pub fn on(self, first: u64, blocks: u64) -> Self {
        Self { lbas: Some((first, blocks)), ..self }
    }

    pub(super) fn check(&self) -> Result<(), FaultError> {
        for (field, value) in [("nth", self.nth), ("every", self.every)] {
            if value == 0 {
                return Err(FaultError::Zero { field });
            }
        }
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(FaultError::Probability { value: self.probability });
        }
        if let Effect::Error { after: time, .. }
        | Effect::Media { after: time, .. }
        | Effect::Delay { added: time }
        | Effect::Latency { at_least: time } = self.effect
            && time > LONGEST_DELAY
        {
            return Err(FaultError::TooLong { time });
        }
        if let Some((first, blocks)) = self.lbas
            && (blocks == 0 || first.checked_add(blocks).is_none())
        {
            return Err(FaultError::Range { first, blocks });
        }
        let befalls = |operation: &Operation| match self.effect {
            Effect::Media { .. } => *operation == Operation::Read,
            Effect::ReadOnly => operation.changes(),
            Effect::LostFlush => {
                matches!(operation, Operation::Flush | Operation::Write | Operation::WriteZeroes | Operation::Append)
            }
            _ => true,
        };
        if !self.operations.is_empty() && !self.operations.iter().any(befalls) {
            return Err(FaultError::Operations);
        }
        match (&self.effect, self.lbas) {
            (Effect::Media { .. }, None) => Err(FaultError::NoRange),
            (Effect::Media { cleared_by_write: true, .. }, Some((_, blocks))) if blocks > CLEARABLE_BLOCKS => {
                Err(FaultError::TooManyBlocks { blocks })
            }
            _ => Ok(()),
        }
    }

    /// Whether a command matches; of a media error that writes clear, the blocks
    /// left are still to be asked.
    pub(super) fn matches(&self, command: &Command, zone_blocks: u64) -> bool {
        let nsid = command.nsid();
        let here = self.nsid.is_none_or(|wanted| NamespaceId(wanted) == nsid || nsid == NamespaceId::ALL);
        let class = self.operations.is_empty() || self.operations.contains(&Operation::of(command));
        here && class
            && self.effect.applies_to(command)
            && self.stream.is_none_or(|stream| names(command, Stream(stream)))
            && self.lbas.is_none_or(|(first, blocks)| {
                extents(command, zone_blocks)
                    .any(|(start, count)| start < first + blocks && first < start.saturating_add(count))
            })
    }

    /// Whether matching command number `k`, counted from 1, is hit, `times` aside.
    pub(super) fn hits(&self, k: u64) -> bool {
        k >= self.nth && (k - self.nth).is_multiple_of(self.every) && self.coin(k)
    }

    fn coin(&self, k: u64) -> bool {
        if self.probability >= 1.0 {
            return true;
        }
        // SplitMix64 as a hash: the decision on a command depends on nothing else.
        let mut z = self.seed.wrapping_add(k.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // The upper 53 bits are a fraction of 1.
        ((z >> 11) as f64) < self.probability * (1_u64 << 53) as f64
    }
}

/// Whether a command is about a stream.
fn names(command: &Command, stream: Stream) -> bool {
    match command {
        Command::Write(WriteCommand { order, .. }) => order.places().any(|(place, _)| place.stream == stream),
        Command::StreamManagement { stream: managed, .. } => *managed == stream,
        _ => false,
    }
}

/// The blocks that a command names: (first, count). A command on a zone names all
/// of that zone, whose size is `zone_blocks`.
pub(super) fn extents(command: &Command, zone_blocks: u64) -> impl Iterator<Item = (u64, u64)> {
    let one: Option<(u64, u64)> = match command {
        Command::Read { range, .. }
        | Command::Write(WriteCommand { range, .. })
        | Command::WriteZeroes { range, .. } => Some(of(range)),
        Command::ZoneAppend { zone, .. } => Some((zone.0, zone_blocks)),
        Command::ZoneManagementSend { start, all: false, .. } | Command::ZoneManagementReceive { start, .. } => {
            Some((start.0, zone_blocks))
        }
        _ => None,
    };
    let several: &[LbaRange] = if let Command::Deallocate { ranges, .. } = command { ranges } else { &[] };
    one.into_iter().chain(several.iter().map(of))
}

fn of(range: &LbaRange) -> (u64, u64) {
    (range.start.0, range.count.into())
}
