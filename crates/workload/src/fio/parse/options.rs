//! A job's options, typed.

use units::Nanos;

use super::zone_options::ZoneOptions;
use crate::fio::PerDirection;

/// Everything a job file can say about a job. The default is fio's.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// `description`.
    pub description: Option<String>,
    /// `ioengine`.
    pub engine: Engine,
    /// `filename`: kept for reports; the modelled device is always meant.
    pub filename: Option<String>,
    /// `direct`; `None` where the file does not say.
    pub direct: Option<bool>,
    /// `rw`.
    pub pattern: Pattern,
    /// What follows the colon in `rw`: bytes added after each sequential I/O,
    /// or I/Os per random offset.
    pub modifier: Option<i64>,
    /// `rw_sequencer`.
    pub sequencer: Sequencer,
    /// `bs`, `bsrange` or `bssplit`.
    pub blocks: PerDirection<BlockSizes>,
    /// `blockalign` in bytes.
    pub align_bytes: PerDirection<Option<u64>>,
    /// `size`.
    pub size: Option<Extent>,
    /// `offset`.
    pub offset: Extent,
    /// `offset_increment`.
    pub offset_increment: Extent,
    /// `offset_align` in bytes; 0 is the smallest block size.
    pub offset_align_bytes: u64,
    /// `frag_size` in bytes; 0 is one piece.
    pub frag_size_bytes: u64,
    /// `frag_distance` in bytes.
    pub frag_distance_bytes: u64,
    /// `io_size`.
    pub io_size: Option<Extent>,
    /// `number_ios`.
    pub number_ios: Option<u64>,
    /// `loops`.
    pub loops: u32,
    /// `iodepth` as given; see [`Options::depth`].
    pub iodepth: u32,
    /// `iodepth_batch`; 0 is `iodepth`.
    pub iodepth_batch: u32,
    /// `iodepth_batch_complete_min`.
    pub complete_min: u32,
    /// `iodepth_batch_complete_max`.
    pub complete_max: Option<u32>,
    /// `iodepth_low`.
    pub iodepth_low: Option<u32>,
    /// `io_submit_mode`.
    pub submit_mode: SubmitMode,
    /// `prioclass`.
    pub priority_class: PriorityClass,
    /// `numjobs`.
    pub numjobs: u32,
    /// `rwmixread` in percent.
    pub read_percent: u8,
    /// `random_distribution`.
    pub distribution: PerDirection<Distribution>,
    /// `percentage_random`.
    pub random_percent: PerDirection<u8>,
    /// `norandommap`.
    pub no_random_map: bool,
    /// `rate` in bytes per second; 0 is no limit.
    pub rate_bytes_per_s: PerDirection<u64>,
    /// `rate_iops`; 0 is no limit.
    pub rate_iops: PerDirection<u64>,
    /// `rate_process`.
    pub rate_process: RateProcess,
    /// `thinktime`.
    pub thinktime: Nanos,
    /// `thinktime_spin`.
    pub thinktime_spin: Nanos,
    /// `thinktime_blocks`.
    pub thinktime_blocks: u32,
    /// `fsync`: after so many writes; 0 is never.
    pub fsync: u32,
    /// `fdatasync`: after so many writes; 0 is never.
    pub fdatasync: u32,
    /// `end_fsync`.
    pub end_fsync: bool,
    /// `fsync_on_close`.
    pub fsync_on_close: bool,
    /// `sync`.
    pub sync: SyncWrites,
    /// `runtime`.
    pub runtime: Option<Nanos>,
    /// `time_based`.
    pub time_based: bool,
    /// `ramp_time`.
    pub ramp_time: Nanos,
    /// `startdelay`: lowest and highest.
    pub start_delay: (Nanos, Nanos),
    /// `stonewall`.
    pub stonewall: bool,
    /// `new_group`.
    pub new_group: bool,
    /// `group_reporting`.
    pub group_reporting: bool,
    /// `randseed`.
    pub randseed: Option<u64>,
    /// `verify`.
    pub verify: Verify,
    /// `verify_pattern`.
    pub verify_pattern: Vec<u8>,
    /// `do_verify`.
    pub do_verify: bool,
    /// `verify_fatal`.
    pub verify_fatal: bool,
    /// What writes carry, where the device keeps contents.
    pub contents: Contents,
    /// `log_avg_msec` as a time: the first interval of the series.
    pub log_interval: Option<Nanos>,
    /// `slat_percentiles`.
    pub slat_percentiles: bool,
    /// `clat_percentiles`.
    pub clat_percentiles: bool,
    /// `lat_percentiles`.
    pub lat_percentiles: bool,
    /// `percentile_list` in percent, ascending.
    pub percentiles: Vec<f64>,
    /// `unified_rw_reporting`.
    pub unified: Unified,
    /// `cpus_allowed`; empty is all.
    pub cpus_allowed: Vec<u32>,
    /// `cpus_allowed_policy=split`: each thread gets one CPU of the list.
    pub cpus_split: bool,
    /// `sqthread_poll`: a kernel thread polls for submissions.
    pub polled_submission: bool,
    /// `hipri`: the job polls for completions.
    pub polled_completion: bool,
    /// `zonemode` and what belongs to it.
    pub zones: ZoneOptions,
    /// `kb_base`: 1024 or 1000.
    pub kb_base: u64,
}

/// `ioengine`: how a job reaches the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine {
    /// fio's name.
    pub name: &'static str,
    /// How it behaves.
    pub kind: EngineKind,
}

/// The behaviours of engines that differ in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// One system call per I/O that returns when the I/O is done.
    Synchronous,
    /// Linux native AIO: batches by `io_submit`; `fsync` blocks the job
    /// (fio engines/libaio.c has no asynchronous sync).
    LinuxAio,
    /// Batches by `io_uring_enter`; `fsync` is queued as any I/O.
    IoUring,
    /// One submission per I/O to helper threads; `fsync` is queued as any I/O.
    PosixAio,
    /// As io_uring, with NVMe commands that pass the block layer by.
    UringCommand,
    /// A driver in the program itself: it polls, and never enters the kernel.
    Spdk,
}

impl Engine {
    /// Every engine taken, by fio's names.
    pub const ALL: [Self; 10] = [
        Self { name: "psync", kind: EngineKind::Synchronous },
        Self { name: "sync", kind: EngineKind::Synchronous },
        Self { name: "vsync", kind: EngineKind::Synchronous },
        Self { name: "pvsync", kind: EngineKind::Synchronous },
        Self { name: "pvsync2", kind: EngineKind::Synchronous },
        Self { name: "libaio", kind: EngineKind::LinuxAio },
        Self { name: "io_uring", kind: EngineKind::IoUring },
        Self { name: "posixaio", kind: EngineKind::PosixAio },
        Self { name: "io_uring_cmd", kind: EngineKind::UringCommand },
        Self { name: "spdk", kind: EngineKind::Spdk },
    ];
}

impl EngineKind {
    /// Whether NVMe commands go to the device without the block layer's rules.
    pub fn is_passthrough(self) -> bool {
        matches!(self, Self::UringCommand | Self::Spdk)
    }

    /// Whether it is one of the two that use io_uring.
    pub fn is_uring(self) -> bool {
        matches!(self, Self::IoUring | Self::UringCommand)
    }
}

/// `rw`: which operations, in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// fio's name.
    pub name: &'static str,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it trims.
    pub trims: bool,
    /// Whether offsets are random.
    pub random: bool,
}

impl Pattern {
    /// Every pattern, by fio's names.
    pub const ALL: [Self; 10] = [
        Self::new("read", [true, false, false], false),
        Self::new("write", [false, true, false], false),
        Self::new("trim", [false, false, true], false),
        Self::new("randread", [true, false, false], true),
        Self::new("randwrite", [false, true, false], true),
        Self::new("randtrim", [false, false, true], true),
        Self::new("rw", [true, true, false], false),
        Self::new("randrw", [true, true, false], true),
        Self::new("trimwrite", [false, true, true], false),
        Self::new("randtrimwrite", [false, true, true], true),
    ];

    const fn new(name: &'static str, [reads, writes, trims]: [bool; 3], random: bool) -> Self {
        Self { name, reads, writes, trims, random }
    }

    /// Whether each block is trimmed and then written.
    pub fn is_trim_write(self) -> bool {
        self.trims && self.writes
    }
}

/// `rw_sequencer`: what stands between two random offsets of `randread:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequencer {
    /// The blocks after the random one.
    Sequential,
    /// The same block again.
    Identical,
}

/// Lengths of a direction's I/Os.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockSizes {
    /// `bs`, in bytes.
    Fixed(u64),
    /// `bsrange`: multiples of the smallest, evenly likely, in bytes.
    Range(u64, u64),
    /// `bssplit`: bytes and percent; the percents sum to 100.
    Split(Vec<(u64, u8)>),
}

impl BlockSizes {
    /// The smallest length in bytes.
    pub fn min(&self) -> u64 {
        match self {
            Self::Fixed(bytes) | Self::Range(bytes, _) => *bytes,
            Self::Split(parts) => parts.iter().map(|part| part.0).min().unwrap_or(0),
        }
    }

    /// The largest length in bytes.
    pub fn max(&self) -> u64 {
        match self {
            Self::Fixed(bytes) | Self::Range(_, bytes) => *bytes,
            Self::Split(parts) => parts.iter().map(|part| part.0).max().unwrap_or(0),
        }
    }
}

/// A size in bytes, in parts of the device or in zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Bytes.
    Bytes(u64),
    /// Percent of the device (of the region, for `io_size`).
    Percent(u8),
    /// Zones.
    Zones(u32),
}

impl Extent {
    /// In bytes, where the whole is `whole` bytes and a zone, if there are any,
    /// `zone_bytes`.
    pub fn of(self, whole: u64, zone_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (u128::from(whole) * u128::from(percent) / 100) as u64,
            Self::Zones(zones) => u64::from(zones).saturating_mul(zone_bytes),
        }
    }
}

/// `random_distribution`.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Every block equally likely.
    Uniform,
    /// Zipf with exponent `theta`.
    Zipf {
        /// The exponent; not 1.
        theta: f64,
        /// Where the hottest block is, in 0..=1 of the region; anywhere if `None`.
        center: Option<f64>,
    },
    /// Pareto with power `h`, as fio defines it.
    Pareto {
        /// The power, between 0 and 1.
        h: f64,
        /// Where the hottest block is; anywhere if `None`.
        center: Option<f64>,
    },
    /// Gaussian.
    Normal {
        /// Standard deviation in percent of the region.
        deviation_percent: f64,
        /// Where the mean is, in 0..=1 of the region.
        center: f64,
    },
    /// `zoned` and `zoned_abs`: shares of the accesses to successive zones.
    Zoned(Vec<Zone>),
}

/// One zone of [`Distribution::Zoned`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Percent of the accesses.
    pub access_percent: u8,
    /// How much of the region it covers.
    pub extent: Extent,
}

/// `rate_process`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateProcess {
    /// Evenly spaced.
    Linear,
    /// Exponential gaps.
    Poisson,
}

/// `io_submit_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitMode {
    /// The job itself submits and reaps, and reaps all before it sleeps for its rate.
    Inline,
    /// Submission does not wait for completions: an open loop up to `iodepth`.
    Offload,
}

/// `prioclass`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorityClass {
    /// 0 or 2: best effort.
    BestEffort,
    /// 1: realtime.
    Realtime,
    /// 3: idle.
    Idle,
}

/// `sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncWrites {
    /// Plain writes.
    None,
    /// O_SYNC.
    Sync,
    /// O_DSYNC; the same on a block device.
    Dsync,
}

/// `verify`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Not at all.
    None,
    /// Header with offset and sequence, and CRC-32C of the block.
    Crc32c,
    /// Header with offset and sequence, and CRC-64 of the block.
    Crc64,
    /// Header with offset and sequence only.
    Meta,
    /// The block is `verify_pattern`, without a header.
    Pattern,
    /// Read back, compare nothing.
    Null,
}

/// What writes carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// `zero_buffers`.
    pub zero: bool,
    /// `refill_buffers`.
    pub refill: bool,
    /// `scramble_buffers`.
    pub scramble: bool,
    /// `buffer_pattern`; empty is none.
    pub pattern: Vec<u8>,
    /// `buffer_compress_percentage`.
    pub compress_percent: Option<u8>,
    /// `buffer_compress_chunk` in bytes.
    pub compress_chunk_bytes: u32,
}

/// `unified_rw_reporting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unified {
    /// Directions apart.
    None,
    /// Directions summed.
    Mixed,
    /// Apart, then summed.
    Both,
}

impl Default for Options {
    fn default() -> Self {
        let all = |value| PerDirection { read: value, write: value, trim: value };
        Self {
            description: None,
            engine: Engine::ALL[0],
            filename: None,
            direct: None,
            pattern: Pattern::ALL[0],
            modifier: None,
            sequencer: Sequencer::Sequential,
            blocks: PerDirection::from_fn(|_| BlockSizes::Fixed(4096)),
            align_bytes: PerDirection::default(),
            size: None,
            offset: Extent::Bytes(0),
            offset_increment: Extent::Bytes(0),
            offset_align_bytes: 0,
            frag_size_bytes: 0,
            frag_distance_bytes: 0,
            io_size: None,
            number_ios: None,
            loops: 1,
            iodepth: 1,
            iodepth_batch: 1,
            complete_min: 1,
            complete_max: None,
            iodepth_low: None,
            submit_mode: SubmitMode::Inline,
            priority_class: PriorityClass::BestEffort,
            numjobs: 1,
            read_percent: 50,
            distribution: PerDirection::from_fn(|_| Distribution::Uniform),
            random_percent: all(100),
            no_random_map: false,
            rate_bytes_per_s: PerDirection::default(),
            rate_iops: PerDirection::default(),
            rate_process: RateProcess::Linear,
            thinktime: Nanos::ZERO,
            thinktime_spin: Nanos::ZERO,
            thinktime_blocks: 1,
            fsync: 0,
            fdatasync: 0,
            end_fsync: false,
            fsync_on_close: false,
            sync: SyncWrites::None,
            runtime: None,
            time_based: false,
            ramp_time: Nanos::ZERO,
            start_delay: (Nanos::ZERO, Nanos::ZERO),
            stonewall: false,
            new_group: false,
            group_reporting: false,
            randseed: None,
            verify: Verify::None,
            verify_pattern: Vec::new(),
            do_verify: true,
            verify_fatal: false,
            contents: Contents {
                zero: false,
                refill: false,
                scramble: true,
                pattern: Vec::new(),
                compress_percent: None,
                compress_chunk_bytes: 512,
            },
            log_interval: None,
            slat_percentiles: false,
            clat_percentiles: true,
            lat_percentiles: false,
            percentiles: vec![
                1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99,
            ],
            unified: Unified::None,
            cpus_allowed: Vec::new(),
            cpus_split: false,
            polled_submission: false,
            polled_completion: false,
            zones: ZoneOptions::default(),
            kb_base: 1024,
        }
    }
}

impl Options {
    /// I/Os kept in flight: `iodepth`, or 1 for a synchronous engine.
    pub fn depth(&self) -> u32 {
        if self.engine.kind == EngineKind::Synchronous { 1 } else { self.iodepth }
    }

    /// The namespace that `filename` names: the number after the last `n` of
    /// `/dev/nvme0n2` and `/dev/ng0n2` (a partition's `p1` left out), or `ns=2` of
    /// an SPDK address; 1 for any other name.
    pub fn namespace(&self) -> u32 {
        let Some(name) = self.filename.as_deref() else { return 1 };
        if self.engine.kind == EngineKind::Spdk {
            let part = name.split_whitespace().find_map(|part| part.strip_prefix("ns="));
            return part.and_then(|number| number.parse().ok()).unwrap_or(1);
        }
        self.device_node().map_or(1, |node| node.namespace)
    }

    /// `filename` as a node of the NVMe driver, if it is one.
    pub(super) fn device_node(&self) -> Option<DeviceNode> {
        let name = self.filename.as_deref()?.rsplit('/').next()?;
        let (rest, generic) = match name.strip_prefix("nvme") {
            Some(rest) => (rest, false),
            None => (name.strip_prefix("ng")?, true),
        };
        let (controller, namespace) = rest.split_once('n')?;
        let namespace = namespace.split('p').next()?;
        controller.parse::<u32>().ok()?;
        Some(DeviceNode { namespace: namespace.parse().ok()?, generic })
    }
}

/// `/dev/nvmeXnY` or `/dev/ngXnY`.
pub(super) struct DeviceNode {
    pub namespace: u32,
    /// The generic character device, which takes passthrough commands alone.
    pub generic: bool,
}
