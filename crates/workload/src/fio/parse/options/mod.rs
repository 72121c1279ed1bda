//! A job's options, typed.

mod distribution;
mod engine;
mod pattern;

pub use distribution::{Distribution, Zone};
pub use engine::{Engine, EngineKind};
pub use pattern::{BlockSizes, Extent, Pattern, Sequencer};
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
