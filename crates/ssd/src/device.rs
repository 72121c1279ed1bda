//! What every modelled device offers.

use crash::order::Places;
use nvme::{ChangedZoneList, Command, CommandId, Lba, NamespaceId, QueueId, Status, WriteOrder, ZoneState};
use trace::{Recorder, RequestId};
use units::Nanos;

use crate::contents::Store;
use crate::live::LiveState;
use crate::zoned::ControllerEvent;

/// Bytes that travel with a command; `None` in timing-only runs.
pub type Payload = Option<Box<[u8]>>;

/// A command on its way into the device.
#[derive(Debug)]
pub struct Submission {
    /// Submission queue.
    pub queue: QueueId,
    /// Identifier the completion will carry.
    pub cid: CommandId,
    /// The command.
    pub command: Command,
    /// A write's data: exactly `count * lba_bytes` long, or `None`.
    pub data: Payload,
    /// The host request it serves, for the trace.
    pub request: RequestId,
}

/// A finished command.
#[derive(Debug)]
pub struct Completion {
    /// Submission queue it came from.
    pub queue: QueueId,
    /// Its identifier.
    pub cid: CommandId,
    /// How it ended.
    pub status: Status,
    /// Command specific result (dwords 0 and 1 of the completion entry): the first
    /// block that a Zone Append wrote; 0 for other commands.
    pub result: u64,
    /// A read's data, where the device keeps contents, or a zone report.
    pub data: Payload,
    /// When it finished; never later than the `now` given to `advance`.
    pub at: Nanos,
}

/// What a host needs to know to drive a device (Identify Controller and Namespace).
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// Model name, as `nvme list` would show it.
    pub model: String,
    /// Logical block size in bytes.
    pub lba_bytes: u32,
    /// Size of each namespace in logical blocks; index 0 is namespace 1.
    pub namespace_blocks: Vec<u64>,
    /// I/O queues the controller offers.
    pub queues: u16,
    /// Entries in each queue.
    pub queue_depth: u16,
    /// Largest transfer of one command in bytes (MDTS).
    pub max_transfer_bytes: u32,
    /// Whether writes complete into a cache that a power cut empties (VWC).
    pub volatile_write_cache: bool,
    /// Whether the device honours FUA itself.
    pub supports_fua: bool,
    /// Whether it takes Dataset Management / TRIM.
    pub supports_deallocate: bool,
    /// Whether positioning dominates (`queue/rotational`).
    pub rotational: bool,
    /// Whether reads return the bytes written.
    pub keeps_contents: bool,
    /// The zones, on a zoned device: the same shape in every namespace.
    pub zoned: Option<ZonedIdentity>,
    /// What it says of keeping the order of writes; `None`: it keeps none.
    pub ordering: Option<OrderingIdentity>,
}

/// How much order a device keeps (`docs/nvme-ordering-fields.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderingIdentity {
    /// Streams that can be open at once.
    pub streams: u32,
    /// Epochs of a stream that can be under way at once.
    pub epochs: u32,
    /// Logical blocks that can be accepted and still wait for their turn.
    pub delayed_blocks: u32,
}

/// The zones of a namespace (Identify Namespace and Controller, I/O Command Set
/// specific; ZNS 4.1.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonedIdentity {
    /// Zone size in logical blocks (ZSZE): the distance between zone starts.
    pub zone_blocks: u64,
    /// Writable blocks of each zone (ZCAP).
    pub zone_capacity_blocks: u64,
    /// Zones that may be open at once (MOR); `None`: no limit.
    pub max_open: Option<u32>,
    /// Zones that may be active, open or closed, at once (MAR); `None`: no limit.
    pub max_active: Option<u32>,
    /// Largest Zone Append in bytes (ZASL).
    pub append_limit_bytes: u32,
    /// Whether a read may cross into the next zone (OZCS.RAZB).
    pub reads_across_zones: bool,
    /// Size of a Zone Descriptor Extension in bytes (ZDES), 0 where there is none.
    pub descriptor_extension_bytes: u32,
    /// Zone Random Write Areas, where the device has them.
    pub zrwa: Option<ZrwaIdentity>,
}

/// Zone Random Write Areas (TP 4076).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZrwaIdentity {
    /// Size of one in logical blocks (ZRWAS).
    pub size_blocks: u32,
    /// Blocks a commit is a multiple of (ZRWAFG).
    pub commit_granularity_blocks: u32,
    /// How many zones may have one at once (NUMZRWA).
    pub zones_max: u32,
}

/// A zone as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneStatus {
    /// Its state.
    pub state: ZoneState,
    /// Writable blocks (ZCAP).
    pub capacity_blocks: u64,
    /// Where the write pointer stands, in blocks from the zone's start; the
    /// capacity where the zone is full.
    pub written_blocks: u64,
}

/// A write that a power cut may or may not leave behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolatileWrite {
    /// Position in the device's order of acceptance.
    pub sequence: u64,
    /// Namespace.
    pub nsid: NamespaceId,
    /// First block.
    pub start: Lba,
    /// Number of blocks.
    pub blocks: u32,
    /// The bytes, where the device keeps contents; `None` also for a deallocation.
    pub data: Payload,
    /// The epochs that it belongs to, on a device that keeps order.
    pub places: Places,
}

/// What a power cut leaves.
///
/// Everything that a completed flush or FUA write covered has survived and is
/// what the device reads back now. `undecided` lists, oldest first, the newer
/// writes: any subset of them may have reached the media (later ones of the
/// same block winning over earlier ones), as far as the order of those that
/// belong to streams allows ([`crash::order`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PowerCut {
    /// Writes that may or may not have survived.
    pub undecided: Vec<VolatileWrite>,
}

/// A modelled storage device.
pub trait Device {
    /// Its description; never changes.
    fn identity(&self) -> &Identity;

    /// Gives the device a command at `now`, which never decreases. A malformed
    /// command is not an error here: it completes with a status that says so.
    fn submit(&mut self, now: Nanos, submission: Submission);

    /// When `advance` next has something to do, if ever.
    fn next_event(&self) -> Option<Nanos>;

    /// Does everything due at or before `now`, in time order, and appends what
    /// finished to `completions`.
    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>);

    /// Does what is due before `limit` and completes nothing, up to the first event
    /// that may complete a command: as `advance` would at each of its instants, for a
    /// driver that has nothing to do before `limit` and would only ask for the next.
    /// Returns the last of these instants.
    fn advance_unseen(&mut self, _limit: Nanos) -> Option<Nanos> {
        None
    }

    /// The zones of a namespace as they are now, for a host that asks for a report
    /// before the clock starts. Empty where the namespace has none.
    fn zones(&self, _nsid: NamespaceId) -> Vec<ZoneStatus> {
        Vec::new()
    }

    /// Something happens to a zone without a command, at `now` (ZNS 2.1.1.2, 5.4 to
    /// 5.6): whoever drives the device says so, since the model's flash does not fail
    /// by itself. Returns whether it applies to the zone in its state; if so the zone
    /// is on the namespace's Changed Zone List.
    fn zone_event(&mut self, _now: Nanos, _nsid: NamespaceId, _zone: u32, _event: ControllerEvent) -> bool {
        false
    }

    /// Whether the Changed Zone List of a namespace has entries: the condition of the
    /// Zone Descriptor Changed asynchronous event (ZNS 4.1.2).
    fn has_zone_events(&self, _nsid: NamespaceId) -> bool {
        false
    }

    /// The Changed Zone List log page (BFh; ZNS 4.1.4.1) of a namespace. Reading it
    /// empties it unless `retain` (Retain Asynchronous Event) is set. Empty where the
    /// namespace has no zones.
    fn changed_zones(&mut self, _nsid: NamespaceId, _retain: bool) -> ChangedZoneList {
        ChangedZoneList::of([])
    }

    /// A write of these streams failed before the device saw it: as if it had failed there, the device keeps their order no more
    /// and fails what waits in them.
    fn break_streams(&mut self, _now: Nanos, _order: &WriteOrder) {}

    /// Closes every stream, as Stream Management does: what waits in them is aborted.
    fn close_streams(&mut self, _now: Nanos) {}

    /// How things stand now.
    fn live_state(&self) -> LiveState {
        LiveState::default()
    }

    /// Cuts the power at `now`: outstanding commands vanish, volatile state is
    /// lost, and the device is as after the next power-on with none of the
    /// undecided writes; the caller applies a choice with [`Device::survive`].
    fn power_cut(&mut self, now: Nanos) -> PowerCut;

    /// Makes one undecided write of the last power cut have survived. Call in
    /// ascending order of sequence, before any new submission.
    fn survive(&mut self, write: &VolatileWrite);

    /// Records the device's own spans into `recorder`.
    fn set_recorder(&mut self, recorder: Recorder);

    /// Where its bytes live, for whoever bounds the memory and watches the image; `None` where it has none of its
    /// own.
    fn store(&self) -> Option<&Store> {
        None
    }

    /// The same, to try again what an image has not taken.
    fn store_mut(&mut self) -> Option<&mut Store> {
        None
    }

    /// Counters and busy times so far, in a fixed order: (name, value).
    /// Names end in their unit (`host_written_bytes`, `channel3_busy_ns`).
    fn counters(&self) -> Vec<(String, u64)>;
}
