//! The description of a flash SSD, as a device profile writes it.
//!
//! Times and sizes are texts with units (`"45us"`, `"16KiB"`, `"960GB"`).
//! Bandwidths are sizes per second. Every key that has no default must be
//! given; an unknown key is an error.

use serde::{Deserialize, Serialize};
use units::{ByteSize, Nanos};

mod check;
pub use check::ConfigError;
pub(crate) use check::Layout;

/// A flash SSD.
///
/// Capacity: of `geometry.blocks_per_plane`, `namespaces` and
/// `over_provisioning` give two; the third follows. Over-provisioning is
/// (physical - logical) / logical, where physical counts every block outside
/// the SLC cache, the collector's reserve included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdConfig {
    /// Model name, as `nvme list` would show it.
    pub model: String,
    /// Logical block size: 512 B or 4 KiB.
    #[serde(default = "default_lba")]
    pub lba: ByteSize,
    /// What one map entry maps; a multiple of `lba`, and a page a multiple of it.
    #[serde(default = "default_mapping_unit")]
    pub mapping_unit: ByteSize,
    /// Largest transfer of one command (MDTS).
    #[serde(default = "default_max_transfer")]
    pub max_transfer: ByteSize,
    /// Size of each namespace; the first is namespace 1.
    #[serde(default)]
    pub namespaces: Vec<ByteSize>,
    /// (physical - logical) / logical, such as 0.07.
    #[serde(default)]
    pub over_provisioning: Option<f64>,
    /// How the flash is built.
    pub geometry: Geometry,
    /// What a cell does, and how fast.
    pub cell: Cell,
    /// A region of blocks written in SLC mode first, outside the capacity.
    #[serde(default)]
    pub slc_cache: Option<SlcCache>,
    /// The bus between controller and dies.
    pub channel: Channel,
    /// The controller's processors and firmware.
    pub controller: Controller,
    /// The host link.
    pub link: Link,
    /// The write buffer.
    pub buffer: Buffer,
    /// Garbage collection.
    #[serde(default)]
    pub gc: Gc,
    /// Program and erase suspend for waiting reads; absent: the die does without.
    #[serde(default)]
    pub suspend: Option<Suspend>,
    /// Power saving between commands; absent: always awake.
    #[serde(default)]
    pub sleep: Option<Sleep>,
    /// In which order the controller fetches commands of different queues; absent: as they come.
    #[serde(default)]
    pub arbitration: Option<Arbitration>,
    /// What becomes of the order that a host gives its writes (docs/ordering.md).
    #[serde(default)]
    pub order: OrderKind,
    /// How much of it the device keeps track of.
    #[serde(default)]
    pub order_tables: OrderTables,
    /// What the device holds when the run begins.
    #[serde(default)]
    pub initial: Initial,
}

/// What becomes of the order of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderKind {
    /// There is none, and a host is told so.
    #[default]
    None,
    /// It is kept.
    Streams,
    /// It is promised and not kept, as by drives that know nothing of it.
    Ignored,
}

/// Bounds of the tables of ordered writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OrderTables {
    /// Streams that can be open at once.
    pub streams: u32,
    /// Epochs of a stream that can be under way at once; writes of further ones wait.
    pub epochs: u32,
}

/// Arbitration among submission queues: each command comes to the controller within the window, by lot; those of one queue keep
/// their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arbitration {
    /// The longest that a command waits for its queue's turn.
    pub window: Nanos,
    /// What the lot depends on, beside the command's number.
    #[serde(default)]
    pub seed: u64,
}

/// How the flash is built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Buses to the flash, each independent.
    pub channels: u32,
    /// Chips (packages with their own enable line) on each channel.
    pub chips_per_channel: u32,
    /// Dies in each chip; each die works on its own.
    pub dies_per_chip: u32,
    /// Planes of a die, which program and erase together.
    pub planes_per_die: u32,
    /// Blocks of a plane outside the SLC cache; absent: as the capacity needs.
    #[serde(default)]
    pub blocks_per_plane: Option<u32>,
    /// Pages of a block, over all page types.
    pub pages_per_block: u32,
    /// Page size without spare area.
    pub page: ByteSize,
}

/// Bits per cell and array times.
///
/// Page `p` of a block is of type `p mod bits`: LSB first, then CSB, MSB. A list
/// of times holds one per page type, or one for all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// 1 SLC, 2 MLC, 3 TLC, 4 QLC.
    pub bits: u32,
    /// Array read (tR) per page type.
    pub read: Vec<Nanos>,
    /// Array program (tPROG) per page type; a single time with `one_shot`.
    pub program: Vec<Nanos>,
    /// Whether all page types of a word line are programmed in one operation.
    #[serde(default)]
    pub one_shot: bool,
    /// Block erase (tBERS).
    pub erase: Nanos,
}

/// A static region of blocks in SLC mode that takes host writes while it has
/// room; beyond, writes go to the cells directly. Folded back when idle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcCache {
    /// Data it takes; rounded up to whole blocks on every die.
    pub size: ByteSize,
    /// Array read (tR).
    pub read: Nanos,
    /// Array program (tPROG).
    pub program: Nanos,
    /// Block erase (tBERS).
    pub erase: Nanos,
    /// Time without a host command after which its data is moved out; absent: never.
    #[serde(default)]
    pub fold_after_idle: Option<Nanos>,
}

/// The bus of a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// Bytes per second.
    pub bandwidth: ByteSize,
    /// Command, address and status cycles of one data transfer.
    #[serde(default)]
    pub command_overhead: Nanos,
}

/// The controller's processors and firmware.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Commands processed at the same time.
    #[serde(default = "one")]
    pub processors: u32,
    /// Processing of a read: fetch, parse, map look-up.
    pub read: Nanos,
    /// Processing of a write or write-zeroes.
    pub write: Nanos,
    /// Processing of a flush.
    #[serde(default)]
    pub flush: Nanos,
    /// Processing of a deallocation.
    #[serde(default)]
    pub deallocate: Nanos,
    /// Firmware work before a flush that has something to write.
    #[serde(default)]
    pub flush_overhead: Nanos,
    /// Firmware work before a FUA write's data goes to flash.
    #[serde(default)]
    pub fua_overhead: Nanos,
    /// Map-journal pages that a flush programs, one after the other.
    #[serde(default = "one")]
    pub journal_pages_per_flush: u32,
    /// Map-journal pages that a FUA write programs, one after the other.
    #[serde(default = "one")]
    pub journal_pages_per_fua: u32,
    /// There are no writes with FUA: hosts flush after a write instead. Absent, there are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_fua: bool,
}

/// Whether both directions of the link work at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Duplex {
    /// As PCIe.
    #[default]
    Full,
    /// As SATA.
    Half,
}

/// The host link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Effective payload bytes per second in one direction.
    pub bandwidth: ByteSize,
    /// Whether both directions work at once.
    #[serde(default)]
    pub duplex: Duplex,
    /// From the host's doorbell to the command in the controller.
    #[serde(default)]
    pub submission_latency: Nanos,
    /// From the controller's completion to the host's notice.
    #[serde(default)]
    pub completion_latency: Nanos,
    /// I/O queues (SATA: 1).
    pub queues: u16,
    /// Entries of a queue (SATA: 32).
    pub queue_depth: u16,
}

/// The write buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Its size.
    pub size: ByteSize,
    /// Whether capacitors save it when the power goes.
    #[serde(default)]
    pub power_loss_protected: bool,
    /// How long data that does not fill a programming unit waits for more.
    #[serde(default = "default_destage_after")]
    pub destage_after: Nanos,
}

/// Which blocks the collector takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GcPolicyKind {
    /// The block with the fewest valid units.
    #[default]
    Greedy,
    /// The best of age x (1 - u) / 2u (Rosenblum and Ousterhout 1992).
    CostBenefit,
}

/// Garbage collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gc {
    /// Which blocks it takes.
    pub policy: GcPolicyKind,
    /// Collection begins on a die with fewer free blocks than this.
    pub start_below: u32,
    /// Collection ends on a die with this many free blocks.
    pub stop_at: u32,
}

/// Suspending a program or erase so that a read need not wait for its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspend {
    /// From the request to the array being free for the read.
    pub suspend: Nanos,
    /// Extra time of the operation when it goes on.
    pub resume: Nanos,
    /// Times one operation can be suspended.
    #[serde(default = "default_max_suspends")]
    pub max_per_operation: u32,
}

/// Power saving between commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sleep {
    /// Time without commands after which the device sleeps.
    pub after: Nanos,
    /// What the first command then waits.
    pub wake: Nanos,
}

/// How the data that the device holds at first was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overwritten {
    /// Once, in order of address.
    #[default]
    Never,
    /// Then overwritten at uniformly random addresses until nothing changed.
    Uniform,
    /// Then overwritten with the `hot` skew until nothing changed.
    HotCold,
}

/// The device's state when the run begins; computed, never replayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Initial {
    /// Share of the logical units that hold data, from the first address on.
    pub fill: f64,
    /// Program/erase cycles of every block.
    pub pe_cycles: u32,
    /// How the data was overwritten since.
    pub overwritten: Overwritten,
    /// The skew of `hot-cold`.
    pub hot: Option<HotCold>,
    /// Key of the permutation that lays out overwritten data.
    pub seed: u64,
}

/// A share of the writes that goes to a share of the space, uniformly in each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotCold {
    /// Share of the writes that hit the hot space.
    pub writes: f64,
    /// Share of the filled space that is hot, from the first address on.
    pub space: f64,
}

impl Default for OrderTables {
    fn default() -> Self {
        Self { streams: 128, epochs: 256 }
    }
}

impl Default for Gc {
    fn default() -> Self {
        Self { policy: GcPolicyKind::Greedy, start_below: 4, stop_at: 5 }
    }
}

fn default_lba() -> ByteSize {
    ByteSize(4096)
}
fn default_mapping_unit() -> ByteSize {
    ByteSize(4096)
}
fn default_max_transfer() -> ByteSize {
    ByteSize(512 << 10)
}
fn default_destage_after() -> Nanos {
    Nanos::from_millis(1)
}
fn default_max_suspends() -> u32 {
    8
}
fn one() -> u32 {
    1
}

impl SsdConfig {
    /// The reference device of the speed figures: 512 GiB on 8 channels x 4
    /// chips x 2 dies x 2 planes, TLC, NVMe over four PCIe 4 lanes.
    pub fn reference() -> Self {
        let micros = Nanos::from_micros;
        Self {
            model: "plumb reference 512 GiB".to_owned(),
            lba: default_lba(),
            mapping_unit: default_mapping_unit(),
            max_transfer: default_max_transfer(),
            namespaces: vec![ByteSize(512 << 30)],
            over_provisioning: Some(0.28),
            geometry: Geometry {
                channels: 8,
                chips_per_channel: 4,
                dies_per_chip: 2,
                planes_per_die: 2,
                blocks_per_plane: None,
                pages_per_block: 768,
                page: ByteSize(16 << 10),
            },
            cell: Cell {
                bits: 3,
                read: vec![micros(45), micros(55), micros(65)],
                program: vec![micros(400), micros(600), micros(800)],
                one_shot: false,
                erase: Nanos::from_millis(3),
            },
            slc_cache: None,
            channel: Channel { bandwidth: ByteSize(1_200_000_000), command_overhead: Nanos(300) },
            controller: Controller {
                processors: 4,
                read: micros(2),
                write: micros(2),
                flush: micros(2),
                deallocate: micros(2),
                flush_overhead: micros(20),
                fua_overhead: micros(20),
                journal_pages_per_flush: 1,
                journal_pages_per_fua: 1,
                without_fua: false,
            },
            link: Link {
                bandwidth: ByteSize(7_000_000_000),
                duplex: Duplex::Full,
                submission_latency: micros(1),
                completion_latency: micros(1),
                queues: 64,
                queue_depth: 1023,
            },
            buffer: Buffer {
                size: ByteSize(64 << 20),
                power_loss_protected: false,
                destage_after: default_destage_after(),
            },
            gc: Gc::default(),
            suspend: None,
            sleep: None,
            arbitration: None,
            order: OrderKind::None,
            order_tables: OrderTables::default(),
            initial: Initial::default(),
        }
    }
}
