//! A drive's load simulated as fio jobs on Plumb's model of the host.

use block::{BlockDevice, QueueConfig};
use sim::Executor;
use sim::cpu::{CpuConfig, Cpus};
use ssd::profile::{BuildOptions, Profile};
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use trace::Recorder;
use units::{ByteSize, Nanos};
use workload::fio::{self, JobFile, parse::Source};
use workload::{Host, IoCosts};

use super::super::figure::{Figure, Figures};
use super::super::simulate::Unfit;
use super::{Drive, DriveEngine};
use crate::results::{DirectionResult, Latency};

/// Seed of every simulation here.
const SEED: u64 = 1;

/// Virtual time between two looks at the stop flag.
const SLICE: Nanos = Nanos::from_millis(5);

/// What is taken for a rate that nobody measured.
const RATE_UNKNOWN: f64 = 10_000.0;

/// How often a load is tried for sixteen times as long.
const SLOWER_MAX: usize = 4;

/// Longest load that is simulated, and the shortest.
const WINDOW_S: (f64, f64) = (0.002, 60.0);

/// So many times a buffer's size is written before what counts, ...
const FULL: f64 = 1.25;

/// ... or so many times, ...
const FULL_SURELY: f64 = 8.0;

/// ... where that is no more I/Os than these.
const FULL_IOS: f64 = 20_000.0;

/// How much is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Bed {
    /// I/Os counted, ...
    pub ios: u64,
    /// ... but so many for each one in flight, if that is more.
    pub rounds: u64,
    /// A load of writes that did no more I/Os than these is simulated as it ran, from an
    /// idle drive on: how much of it a write cache took depends on its length.
    pub whole_writes: u64,
    /// Whether the host takes no time.
    pub free_host: bool,
}

impl Bed {
    /// Enough for percentiles.
    pub const THOROUGH: Self = Self { ios: 20_000, rounds: 24, whole_writes: 50_000, free_host: false };
    /// Enough for rates and means, many times over.
    pub const QUICK: Self = Self { ios: 1_500, rounds: 16, whole_writes: 10_000, free_host: false };
}

/// The modelled figures of a load.
///
/// # Errors
/// When the device cannot do what the load asks.
pub fn simulate(profile: &Profile, drive: &Drive, bed: Bed, halted: &dyn Fn() -> bool) -> Result<Figures, Unfit> {
    let mut drive = *drive;
    for _ in 0..SLOWER_MAX {
        match attempt(profile, &drive, bed, halted)? {
            Some(figures) => return Ok(figures),
            // The device is slower than what was measured: longer.
            None => (drive.rate, drive.ran) = (Some(drive.rate.unwrap_or(RATE_UNKNOWN) / 16.0), None),
        }
    }
    Err(Unfit("not one I/O was done in the simulated time".to_owned()))
}

/// The figures; `None` where too few I/Os ended in the window.
fn attempt(profile: &Profile, drive: &Drive, bed: Bed, halted: &dyn Fn() -> bool) -> Result<Option<Figures>, Unfit> {
    let (mut executor, host) = build(profile, drive, bed)?;
    let capacity = host.disk.with_device(|device| {
        let identity = device.identity();
        identity.namespace_blocks.first().copied().unwrap_or(0) * u64::from(identity.lba_bytes)
    });
    let end = drive.offset_bytes.saturating_add(drive.span_bytes.unwrap_or(0));
    if end > capacity {
        return Err(Unfit(format!("{} are used; the device has {}", ByteSize(end), ByteSize(capacity))));
    }
    let text = job(profile, drive, bed);
    let source = Source { name: "load", text: text.as_bytes(), variables: &BTreeMap::new(), overrides: &[] };
    let jobs = JobFile::parse(&source).map_err(|error| Unfit(error.kind.to_string()))?;
    let started = fio::start(&host, &jobs).map_err(|error| Unfit(error.fault.to_string()))?;
    let mut deadline = SLICE;
    while executor.run_tasks(deadline) > 0 {
        if halted() {
            return Err(Unfit("interrupted".to_owned()));
        }
        deadline += SLICE;
    }
    let results = crate::workload::job_results(&started.finish());
    let name = if drive.op.reads() { "read" } else { "write" };
    let parts = results.iter().flat_map(|job| &job.directions).filter(|part| part.direction == name);
    let enough = u64::from(drive.jobs) * u64::from(drive.queue_depth) + 8;
    let Some(part) = DirectionResult::together(parts).filter(|part| part.ios >= enough) else { return Ok(None) };
    let mut figures = Figures::default();
    figures.put(Figure::Iops, Some(part.iops()));
    figures.put(Figure::Bandwidth, Some(part.bytes_per_s() / 1e6));
    figures.put(Figure::Mean, Some(part.lat.mean_ns / 1e3));
    let latency: &Latency = part.clat.as_ref().filter(|_| drive.completion).unwrap_or(&part.lat);
    for (figure, percent) in Figure::PERCENTILES {
        figures.put(figure, Some(latency.percentile_ns(percent) as f64 / 1e3));
    }
    Ok(Some(figures))
}

fn build(profile: &Profile, drive: &Drive, bed: Bed) -> Result<(Executor, Host), Unfit> {
    let options = BuildOptions { seed: Some(SEED), ..BuildOptions::default() };
    let device = profile.build(&options).map_err(|error| Unfit(error.to_string()))?;
    if device.identity().zoned.is_some() {
        return Err(Unfit("the device has zones; a table with `concurrent_zones` says how many are used".to_owned()));
    }
    let executor = Executor::new_virtual();
    let sim = executor.handle();
    let recorder = Recorder::default();
    let usual = CpuConfig::default();
    let cores = u16::try_from(drive.jobs).ok().and_then(NonZeroU16::new).unwrap_or(usual.cores).max(usual.cores);
    let cpu = if bed.free_host { CpuConfig::free(cores) } else { CpuConfig { cores, ..usual } };
    let cpus = Cpus::new(&sim, cpu, recorder.clone());
    let costs = if bed.free_host { IoCosts::FREE } else { IoCosts::default() };
    let config = QueueConfig { cpus: cores, ..QueueConfig::default() };
    let disk = BlockDevice::new(&sim, device, config, recorder.clone());
    Ok((executor, Host { sim, disk, cpus, costs, seed: SEED, recorder }))
}

/// Bytes that a device takes before writes go at the speed of its media.
fn buffered_bytes(profile: &Profile) -> u64 {
    match &profile.config {
        ssd::profile::DeviceConfig::Ssd(config) => config.buffer.size.0,
        ssd::profile::DeviceConfig::Disk(config) => config.cache.write.0,
        ssd::profile::DeviceConfig::Card(_) | ssd::profile::DeviceConfig::Zoned(_) => 0,
    }
}

/// The load as a job file: as it ran, where that is short; else long enough for the I/Os
/// that count, after the buffers are full.
fn job(profile: &Profile, drive: &Drive, bed: Bed) -> String {
    let in_flight = u64::from(drive.jobs) * u64::from(drive.queue_depth);
    let rate = drive.rate.filter(|rate| rate.is_finite() && *rate > 0.0).unwrap_or(RATE_UNKNOWN);
    let buffered = if drive.op.reads() { 0.0 } else { buffered_bytes(profile) as f64 / drive.block_bytes as f64 };
    // What comes in while the buffer fills also goes out: where that is little work, many times over.
    let filling = (buffered * FULL).max((buffered * FULL_SURELY).min(FULL_IOS));
    let first = (in_flight * 4) as f64 + filling;
    // A full buffer empties in waves: as long again, so that they even out.
    let counted = (bed.ios.max(in_flight * bed.rounds) as f64).max(filling);
    let clamp = |s: f64| s.clamp(WINDOW_S.0, WINDOW_S.1);
    let us = |s: f64| format!("{}us", (s * 1e6).round() as u64);
    let whole = drive.ran.filter(|ran| !drive.op.reads() && rate * (ran.ramp_s + ran.run_s) <= bed.whole_writes as f64);
    let (ramp_s, window_s) = whole.map_or((clamp(first / rate), clamp(counted / rate)), |ran| (ran.ramp_s, ran.run_s));
    let (ramp, window) = (us(ramp_s), us(window_s));
    let span = drive.span_bytes.map(|bytes| format!("size={bytes}\n")).unwrap_or_default();
    let offset = if drive.offset_bytes > 0 { format!("offset={}\n", drive.offset_bytes) } else { String::new() };
    let depth = if drive.engine == DriveEngine::Synchronous { 1 } else { drive.queue_depth };
    format!(
        "[load]\nioengine={}\ndirect=1\nrw={}\nbs={}\niodepth={depth}\nnumjobs={}\nthread=1\ngroup_reporting=1\n\
         norandommap=1\ntime_based=1\nruntime={window}\nramp_time={ramp}\n{span}{offset}",
        drive.engine.name(),
        drive.op.name(),
        drive.block_bytes,
        drive.jobs,
    )
}
