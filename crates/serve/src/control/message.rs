//! What is said on the control socket.

use std::collections::BTreeMap;

use nvme::ZoneState;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ssd::faults::{Fault, FaultId};
use ssd::{ControllerEvent, LiveState};

use crate::front_end::Clients;
use crate::latency::{LatencySummary, RecentLatency};
use crate::power::Survival;

/// Most zones of one reply.
pub(super) const MAX_ZONES: u32 = 4096;

/// What can be asked for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// How things stand: a [`Status`].
    Status,
    /// Cut the power: a [`crate::PowerLoss`].
    PowerCut {
        /// What survives of the writes that may or may not.
        #[serde(default)]
        survive: Survival,
        /// Leave the power off until a power-on; otherwise it is back at once.
        #[serde(default)]
        off: bool,
    },
    /// Give the device its power back.
    PowerOn,
    /// Add a fault: `{"id": N}`.
    Inject {
        /// The fault.
        fault: Fault,
    },
    /// The faults in force: a list of [`ssd::faults::FaultReport`].
    Faults,
    /// Take back a fault, or all: `{"cleared": N}`.
    Clear {
        /// Which; absent: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<FaultId>,
    },
    /// Some zones: a [`ZonePage`].
    Zones {
        /// Namespace.
        #[serde(default = "first_namespace")]
        nsid: u32,
        /// First zone.
        #[serde(default)]
        from: u32,
        /// Most zones; at most 4096 are given.
        #[serde(default = "most_zones")]
        count: u32,
    },
    /// Have the controller do something to a zone (ZNS 5.4 to 5.6, 2.1.1.3).
    ZoneEvent {
        /// Namespace.
        #[serde(default = "first_namespace")]
        nsid: u32,
        /// The zone's number.
        zone: u32,
        /// What happens.
        event: ZoneEventKind,
    },
    /// End serving, as SIGTERM does.
    Stop,
}

fn first_namespace() -> u32 {
    1
}

fn most_zones() -> u32 {
    MAX_ZONES
}

/// What the controller does to a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneEventKind {
    /// It can only be read from now on.
    ReadOnly,
    /// It is lost.
    Offline,
    /// The controller finishes it.
    Finished,
    /// Finish Zone Recommended.
    FinishRecommended,
    /// Reset Zone Recommended.
    ResetRecommended,
}

impl ZoneEventKind {
    pub(super) fn event(self) -> ControllerEvent {
        match self {
            Self::ReadOnly => ControllerEvent::ReadOnly,
            Self::Offline => ControllerEvent::Offline,
            Self::Finished => ControllerEvent::Finished,
            Self::FinishRecommended => ControllerEvent::FinishRecommended,
            Self::ResetRecommended => ControllerEvent::ResetRecommended,
        }
    }
}

/// The answer to a request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reply {
    /// Done.
    Done {
        /// What came of it; `null` where there is nothing to say.
        result: Value,
    },
    /// Not done.
    Failed {
        /// Why, and the remedy.
        error: String,
    },
}

/// How things stand.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The device's model name.
    pub model: String,
    /// Time since serving began.
    pub elapsed_ns: u64,
    /// Whether the device has power.
    pub powered: bool,
    /// The namespaces.
    pub namespaces: Vec<NamespaceStatus>,
    /// The front-end's clients.
    pub clients: Clients,
    /// Requests so far.
    pub requests: u64,
    /// Of these, reads.
    pub reads: u64,
    /// Of these, writes and appends.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Requests not yet answered.
    pub outstanding: u64,
    /// Queues that have something to do.
    pub queues: Vec<QueueStatus>,
    /// Latencies since the start.
    pub latency: LatencySummary,
    /// Latencies of the last whole second.
    pub recent: RecentLatency,
    /// Cache, garbage collection, zones.
    pub live: LiveState,
    /// Memory that contents take.
    pub memory_bytes: u64,
    /// The most that they may take; `None` without a bound.
    pub memory_limit_bytes: Option<u64>,
    /// Faults in force.
    pub faults: u64,
    /// Commands that they have hit.
    pub fault_hits: u64,
    /// The device's counters; the unit ends the name.
    pub counters: BTreeMap<String, u64>,
}

/// A namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NamespaceStatus {
    /// Its identifier.
    pub nsid: u32,
    /// Its size.
    pub bytes: u64,
    /// Its logical block.
    pub lba_bytes: u32,
    /// Zones, 0 where it has none.
    pub zones: u32,
}

/// A queue of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Its identifier; I/O queues begin at 1.
    pub queue: u16,
    /// Commands in the device.
    pub outstanding: u32,
    /// Requests that wait for a place.
    pub waiting: u32,
}

/// Some zones of a namespace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ZonePage {
    /// Zones that the namespace has.
    pub total: u32,
    /// Distance between zone starts in logical blocks.
    pub zone_blocks: u64,
    /// Writable blocks of each.
    pub capacity_blocks: u64,
    /// The zones asked for.
    pub zones: Vec<ZoneEntry>,
}

/// A zone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ZoneEntry {
    /// Its number.
    pub zone: u32,
    /// `empty`, `implicitly-opened`, `explicitly-opened`, `closed`, `full`,
    /// `read-only` or `offline`.
    pub state: String,
    /// Blocks written.
    pub written_blocks: u64,
}

/// A state's name in a [`ZoneEntry`].
pub(super) fn state_name(state: ZoneState) -> &'static str {
    match state {
        ZoneState::Empty => "empty",
        ZoneState::ImplicitlyOpened => "implicitly-opened",
        ZoneState::ExplicitlyOpened => "explicitly-opened",
        ZoneState::Closed => "closed",
        ZoneState::ReadOnly => "read-only",
        ZoneState::Full => "full",
        ZoneState::Offline => "offline",
    }
}

impl Reply {
    /// Done, with `result`.
    pub(super) fn done(result: impl Serialize) -> Self {
        match serde_json::to_value(result) {
            Ok(result) => Self::Done { result },
            Err(error) => Self::Failed { error: format!("the reply cannot be written as JSON: {error}") },
        }
    }

    /// Not done, because of `error`.
    pub(super) fn failed(error: impl ToString) -> Self {
        Self::Failed { error: error.to_string() }
    }
}
