//! The description of a zoned SSD, as a device profile writes it.
//!
//! Times and sizes are texts with units (`"45us"`, `"16KiB"`). Bandwidths are
//! sizes per second. Every key that has no default must be given; an unknown
//! key is an error.

use serde::{Deserialize, Serialize};
use units::{ByteSize, Nanos};

pub use crate::config::Link;

mod check;
mod layout;
mod management;

pub use check::ZonedError;
pub(crate) use layout::ZonedLayout;
pub use management::{
    AppendTiming, FinishDesign, FinishJournal, FinishLaw, Management, MappingDesign, ResetDesign, ResetLaw,
    UnfinishedRise,
};

/// A zoned SSD.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonedConfig {
    /// Model name, as `nvme list` would show it.
    pub model: String,
    /// Logical block size: 512 B or 4 KiB.
    #[serde(default = "default_lba")]
    pub lba: ByteSize,
    /// Largest transfer of one command (MDTS).
    #[serde(default = "default_max_transfer")]
    pub max_transfer: ByteSize,
    /// Zones of each namespace; the first is namespace 1. They share the flash;
    /// each has its own limits of open and active zones.
    pub namespaces: Vec<u32>,
    /// The zones.
    pub zone: Zone,
    /// How the flash is built.
    pub geometry: ZonedGeometry,
    /// How a zone lies on it.
    pub stripe: Stripe,
    /// What the arrays do, and how fast.
    pub cell: ZonedCell,
    /// The bus between controller and arrays.
    pub channel: ZonedChannel,
    /// The controller's processors and firmware.
    pub controller: ZonedController,
    /// The host link; a bandwidth of 0 is no limit.
    pub link: Link,
    /// The write buffer; absent: every write waits for its program.
    #[serde(default)]
    pub buffer: Option<ZonedBuffer>,
    /// Program and erase suspend for host I/O; absent: the array does without.
    #[serde(default)]
    pub suspend: Option<ZonedSuspend>,
    /// The designs of zone management, by name.
    #[serde(default)]
    pub management: Management,
    /// What the device holds when the run begins.
    #[serde(default)]
    pub initial: ZonedInitial,
}

/// The zones of every namespace (ZNS 4.1.5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Distance between zone starts (ZSZE).
    pub size: ByteSize,
    /// Writable part of a zone (ZCAP).
    pub capacity: ByteSize,
    /// Zones of a namespace that may be open (MOR); absent: no limit.
    #[serde(default)]
    pub max_open: Option<u32>,
    /// Zones of a namespace that may be active (MAR); absent: no limit.
    #[serde(default)]
    pub max_active: Option<u32>,
    /// Largest Zone Append (ZASL); absent: `max_transfer`.
    #[serde(default)]
    pub append_limit: Option<ByteSize>,
    /// Whether a read may cross into the next zone.
    #[serde(default)]
    pub reads_across: bool,
    /// Size of a Zone Descriptor Extension, in steps of 64 bytes.
    #[serde(default)]
    pub descriptor_extension: ByteSize,
    /// Zone Random Write Areas.
    #[serde(default)]
    pub zrwa: Option<Zrwa>,
}

/// Zone Random Write Areas (TP 4076). They live in the write buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zrwa {
    /// Size of one.
    pub size: ByteSize,
    /// What a commit is a multiple of.
    pub granularity: ByteSize,
    /// Zones of a namespace that may have one.
    pub zones: u32,
}

/// How the flash is built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonedGeometry {
    /// Buses to the flash, each independent.
    pub channels: u32,
    /// Dies on each channel.
    pub ways: u32,
    /// Arrays of a die that work independently. A die whose planes only work
    /// together has one here, with the sum of their pages.
    #[serde(default = "one")]
    pub planes: u32,
    /// Page size without spare area.
    pub page: ByteSize,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Physical zones beyond those of the namespaces (on-demand mapping).
    #[serde(default)]
    pub spare_zones: u32,
}

/// In which order a zone's stripe units go round its dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StripeOrder {
    /// Every channel, then the next way (ConfZNS).
    #[default]
    ChannelFirst,
    /// Every way, then the next channel.
    WayFirst,
    /// The die of the zone that has the least to do, each the same number of
    /// times; ties go round channel first.
    LeastBusy,
}

/// How a zone lies on the flash. ConfZNS's classes: SU is 1 x 1, MU4 and MU8
/// are 4 and 8 dies, FU is every channel and way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stripe {
    /// Channels of one zone; divides `geometry.channels`.
    pub channels: u32,
    /// Ways of one zone; divides `geometry.ways`.
    pub ways: u32,
    /// What lies on one array before the next gets its turn; a multiple of
    /// `cell.program_unit`.
    pub unit: ByteSize,
    /// The order.
    #[serde(default)]
    pub order: StripeOrder,
}

/// Array times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonedCell {
    /// Array read of a page (tR), per page type: page `p` of a zone is of type
    /// `p mod n`, n being how many are given.
    #[serde(deserialize_with = "one_or_more")]
    pub read: Vec<Nanos>,
    /// Array program of a `program_unit` (tPROG).
    pub program: Nanos,
    /// The same for a unit of nothing but padding; absent: `program`.
    #[serde(default)]
    pub padding_program: Option<Nanos>,
    /// Programs take up to this share more or less than that, uniformly (0 to 1).
    #[serde(default)]
    pub variation: f64,
    /// Block erase (tBERS).
    pub erase: Nanos,
    /// What one program operation writes; absent: a page.
    #[serde(default)]
    pub program_unit: Option<ByteSize>,
}

/// Suspending programs and erases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonedSuspend {
    /// From the request to the array being free, on average.
    pub suspend: Nanos,
    /// Its coefficient of variation (0 to 1), exponential beyond a least time: an
    /// operation can stop only between its pulses.
    #[serde(default)]
    pub variation: f64,
    /// Extra time of the operation when it goes on.
    pub resume: Nanos,
    /// Times one operation can be suspended.
    #[serde(default = "default_max_suspends")]
    pub max_per_operation: u32,
}

/// When a read's transfer takes its place in the channel's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Booking {
    /// When the array has the data.
    #[default]
    WhenReady,
    /// When the command is processed: later commands wait behind it even while
    /// the channel idles (ConfZNS++'s next-free times).
    AtCommand,
}

/// The bus of a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonedChannel {
    /// Bytes per second.
    pub bandwidth: ByteSize,
    /// Command, address and status cycles of one transfer.
    #[serde(default)]
    pub command_overhead: Nanos,
    /// Whether a read of part of a page transfers all of it.
    #[serde(default)]
    pub whole_pages: bool,
    /// When reads book their transfers.
    #[serde(default)]
    pub booking: Booking,
    /// Whether an array does nothing else until its read has been transferred (it
    /// has one page register); needs `booking = "when-ready"`.
    #[serde(default)]
    pub hold_array: bool,
}

/// What the device holds when the run begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ZonedInitial {
    /// For each namespace, how many of its first zones the host has written to
    /// their capacity; a namespace not named has none.
    pub full_zones: Vec<u32>,
}

/// What one kind of command costs the firmware.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CommandCost {
    /// Time on a processor.
    pub service: Nanos,
    /// Further time on the processor for each KiB of data.
    pub service_per_kib: Nanos,
    /// Further time until the command completes, off the processors.
    pub delay: Nanos,
    /// Further such time for each KiB of data.
    pub delay_per_kib: Nanos,
    /// What data that does not fill whole units of the firmware's map costs more.
    pub partial: Option<PartialCost>,
}

/// The cost of part of a unit of the firmware's map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartialCost {
    /// The unit.
    pub unit: ByteSize,
    /// Further time on a processor.
    #[serde(default)]
    pub service: Nanos,
    /// Further time off the processors.
    #[serde(default)]
    pub delay: Nanos,
}

impl CommandCost {
    /// Mean time on a processor of a command with `bytes` of data.
    pub(crate) fn service_of(&self, bytes: u64) -> Nanos {
        let partial = self.partial_of(bytes).map_or(Nanos::ZERO, |partial| partial.service);
        self.service + Nanos(self.service_per_kib.0 * bytes / 1024) + partial
    }

    /// Time off the processors of a command with `bytes` of data.
    pub(crate) fn delay_of(&self, bytes: u64) -> Nanos {
        let partial = self.partial_of(bytes).map_or(Nanos::ZERO, |partial| partial.delay);
        self.delay + Nanos(self.delay_per_kib.0 * bytes / 1024) + partial
    }

    fn partial_of(&self, bytes: u64) -> Option<&PartialCost> {
        self.partial.as_ref().filter(|partial| !bytes.is_multiple_of(partial.unit.0))
    }
}

/// The controller's processors and firmware.
///
/// Service times vary: a mean of m takes m x (1 - `variation` + `variation` x E)
/// with E exponentially distributed (mean 1, from a seeded stream), so
/// `variation` is their coefficient of variation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ZonedController {
    /// Processors.
    pub processors: u32,
    /// Commands that a processor advances in turn, each at its share of the speed;
    /// further ones wait. Commands to one zone keep their order. With 1 a processor
    /// takes one after the other, and all commands keep their order.
    #[serde(default = "one")]
    pub sharing: u32,
    /// Coefficient of variation of service times, 0 to 1.
    pub variation: f64,
    /// Seed of the variation.
    pub seed: u64,
    /// Read.
    pub read: CommandCost,
    /// Write.
    pub write: CommandCost,
    /// Zone Append.
    pub append: CommandCost,
    /// Flush.
    pub flush: CommandCost,
    /// Open Zone.
    pub open: CommandCost,
    /// Close Zone.
    pub close: CommandCost,
    /// Finish Zone, before the design's own work.
    pub finish: CommandCost,
    /// Reset Zone, before the design's own work.
    pub reset: CommandCost,
    /// Any other Zone Management Send.
    pub manage: CommandCost,
    /// Zone Management Receive; its data is the report.
    pub report: CommandCost,
    /// Further delay of a write that opens its zone.
    pub implicit_open_write: Nanos,
    /// Further delay of an append that opens its zone.
    pub implicit_open_append: Nanos,
    /// Further delay of either beside that, if the zone was closed and holds data.
    pub reopen: Nanos,
}

/// The write buffer.
///
/// Commands get room in order of arrival and wait while there is none. A zone's data
/// is programmed `cell.program_unit` at a time, and its room comes free when the
/// program has ended. Zones with full units take turns at idle arrays; a zone that a
/// measured finish pads is one of them, and its padding takes no room.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonedBuffer {
    /// Its size.
    pub size: ByteSize,
    /// Whether capacitors save it when the power goes.
    #[serde(default)]
    pub power_loss_protected: bool,
}

fn default_lba() -> ByteSize {
    ByteSize(4096)
}
fn default_max_transfer() -> ByteSize {
    ByteSize(512 << 10)
}
fn default_max_suspends() -> u32 {
    8
}
fn one() -> u32 {
    1
}

/// Reads a time or a list of times.
fn one_or_more<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Nanos>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a time such as \"45us\", or a list of times, one per page type")]
    enum Times {
        One(Nanos),
        Each(Vec<Nanos>),
    }
    Ok(match Times::deserialize(deserializer)? {
        Times::One(time) => vec![time],
        Times::Each(times) => times,
    })
}

impl ZonedConfig {
    /// What one program operation writes, in bytes.
    pub(crate) fn program_unit_bytes(&self) -> u64 {
        self.cell.program_unit.unwrap_or(self.geometry.page).0
    }
}
