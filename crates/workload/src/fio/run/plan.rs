//! A job's options, resolved against the device it runs on.

use std::rc::Rc;

use block::Limits;
use nvme::NamespaceId;
use units::Nanos;

use super::fragments::Fragments;
use super::start_error::StartFault;
use super::zones::{ZonePlan, Zones};
use crate::fio::generate::Region;
use crate::fio::parse::{EngineKind, Extent, Job, Options, Verify};
use crate::fio::{Direction, PerDirection};

/// What one thread of a job does.
#[derive(Clone)]
pub(super) struct ThreadPlan {
    pub nsid: NamespaceId,
    pub region: Region,
    /// Where the region is a file in pieces.
    pub fragments: Option<Fragments>,
    /// The region asked for, where it was rounded to zones.
    pub rounded_from: Option<Region>,
    /// Under `zonemode=zbd`.
    pub zones: Option<ZonePlan>,
    /// Bytes to issue; `None` where only time or the number of I/Os bounds them.
    pub target_bytes: Option<u64>,
    pub target_ios: Option<u64>,
    /// Whether the region is gone over again when it is exhausted.
    pub repeats: bool,
    /// Passes over the region, where it is not, and the bytes of each.
    pub passes: u32,
    pub pass_bytes: Option<u64>,
    pub runtime: Option<Nanos>,
    pub depth: u32,
    pub batch: u32,
    pub complete_min: u32,
    pub complete_max: u32,
    pub low: u32,
    /// The core it is bound to.
    pub core: Option<u16>,
    /// Random numbers' seed.
    pub seed: u64,
    /// Name of its random streams: the job's and the thread's number in it.
    pub stream: String,
    /// Bytes per second for each direction; 0 is no limit.
    pub rate_bytes_per_s: PerDirection<u64>,
}

/// What a plan depends on besides the job.
pub(super) struct Machine<'a> {
    pub nsid: NamespaceId,
    pub limits: Limits,
    /// The zones of the job, under `zonemode=zbd`.
    pub zones: Option<&'a Rc<Zones>>,
    pub keeps_contents: bool,
    pub cores: u16,
    pub seed: u64,
}

impl ThreadPlan {
    /// The plan of thread `number` of `numjobs`.
    pub fn new(job: &Job, number: u32, machine: &Machine<'_>) -> Result<Self, StartFault> {
        let options = &job.options;
        let name = || job.name.clone();
        let lba = machine.limits.logical_block_bytes;
        let pattern = options.pattern;
        let used: Vec<Direction> = Direction::ALL
            .into_iter()
            .filter(|direction| match direction {
                Direction::Read => pattern.reads,
                // A trimwrite writes the blocks it trimmed.
                Direction::Write => pattern.writes && !pattern.trims,
                Direction::Trim => pattern.trims,
            })
            .collect();
        let smallest = used.iter().map(|direction| options.blocks[*direction].min()).min().unwrap_or(4096);
        let mut region = region(options, number, machine, smallest, u64::from(lba)).map_err(|(start, end)| {
            let device_bytes = machine.limits.capacity_sectors * block::Sector::BYTES;
            StartFault::OutsideDevice { job: name(), start, end, device_bytes }
        })?;
        let asked = region;
        let zones = match machine.zones {
            Some(zones) => Some(zone_plan(job, zones, machine, &mut region)?),
            None => None,
        };
        if used.iter().any(|direction| options.blocks[*direction].min() > region.bytes) {
            return Err(StartFault::BlockOutgrowsRegion {
                job: name(),
                block_bytes: smallest,
                region_bytes: region.bytes,
            });
        }
        for (what, bytes) in lengths(options, &used).into_iter().chain([("offset", region.start)]) {
            if bytes % u64::from(lba) != 0 {
                return Err(StartFault::Misaligned { job: name(), what, bytes, logical_block_bytes: lba });
            }
        }
        let checks_contents = !matches!(options.verify, Verify::None | Verify::Null);
        if checks_contents && !machine.keeps_contents {
            return Err(StartFault::NoContents { job: name() });
        }
        if pattern.trims && zones.is_none() && machine.limits.max_discard_sectors == 0 {
            return Err(StartFault::NoTrim { job: name(), pattern: pattern.name });
        }
        let depth = options.depth();
        let batch = if options.iodepth_batch == 0 { depth } else { options.iodepth_batch.min(depth) };
        // POSIX AIO has no call that submits several (aio_read(3) takes one).
        let batch = if options.engine.kind == EngineKind::PosixAio { 1 } else { batch };
        let complete_min = options.complete_min.min(depth);
        let zone_bytes = zones.as_ref().map_or(0, |plan| plan.zones.zone_bytes());
        let once = options.io_size.map_or(asked.bytes, |size| size.of(asked.bytes, zone_bytes));
        let bounded_by_time = options.time_based;
        // A trimwrite moves every byte twice, and fio counts both.
        let factor = if pattern.is_trim_write() { 2 } else { 1 };
        let pass_bytes = once.saturating_mul(factor);
        let total = pass_bytes.saturating_mul(u64::from(options.loops));
        let repeats = bounded_by_time || options.io_size.is_some();
        if options.engine.kind.is_passthrough() {
            let limit = machine.limits.max_hw_sectors * block::Sector::BYTES;
            let longest = used.iter().filter(|direction| **direction != Direction::Trim);
            let longest = longest.map(|direction| options.blocks[*direction].max()).max().unwrap_or(0);
            if longest > limit {
                let must = format!("one passthrough command takes at most {limit}: lower bs");
                return Err(StartFault::BlockLength { job: name(), option: "bs", given: longest, must });
            }
        }
        Ok(Self {
            nsid: machine.nsid,
            zones,
            fragments: Fragments::new(options, region.start),
            region,
            rounded_from: Some(asked).filter(|asked| *asked != region),
            target_bytes: (!bounded_by_time).then_some(total),
            target_ios: options.number_ios,
            repeats,
            passes: options.loops,
            pass_bytes: (!repeats).then_some(pass_bytes),
            runtime: options.runtime,
            depth,
            batch,
            complete_min,
            complete_max: options.complete_max.unwrap_or(complete_min).max(complete_min).max(1),
            low: options.iodepth_low.unwrap_or(depth).min(depth),
            core: core(job, number, machine.cores)?,
            seed: options.randseed.unwrap_or(machine.seed),
            stream: format!("{}/{number}", job.name),
            rate_bytes_per_s: PerDirection::from_fn(|direction| {
                // fio turns IOPS into bytes of the smallest block.
                let by_iops = options.rate_iops[direction].saturating_mul(options.blocks[direction].min());
                options.rate_bytes_per_s[direction].max(by_iops)
            }),
        })
    }
}

/// The region of a thread, or the bytes that lie outside the device.
fn region(
    options: &Options,
    number: u32,
    machine: &Machine<'_>,
    smallest: u64,
    lba: u64,
) -> Result<Region, (u64, u64)> {
    let device_bytes = machine.limits.capacity_sectors * block::Sector::BYTES;
    let zone_bytes = machine.zones.map_or(0, |zones| zones.zone_bytes());
    let align = if options.offset_align_bytes > 0 { options.offset_align_bytes } else { smallest };
    let place = |extent: Extent| match extent {
        Extent::Percent(_) => extent.of(device_bytes, 0).checked_next_multiple_of(align.max(1)).unwrap_or(device_bytes),
        extent => extent.of(device_bytes, zone_bytes),
    };
    let increment = place(options.offset_increment).saturating_mul(u64::from(number));
    let start = place(options.offset).saturating_add(increment);
    let bytes = match options.size {
        Some(percent @ Extent::Percent(_)) => percent.of(device_bytes, 0) / lba * lba,
        Some(size) => size.of(device_bytes, zone_bytes),
        None => device_bytes.saturating_sub(start),
    };
    let end = match Fragments::new(options, start) {
        Some(fragments) => fragments.end(bytes),
        None => start.saturating_add(bytes),
    };
    if bytes == 0 || end > device_bytes { Err((start, end)) } else { Ok(Region { start, bytes }) }
}

/// Fits a region to zones (fio zbd.c, zbd_verify_sizes: up to the next zone, and
/// down to one, unless the job only reads), and checks what zones ask of a job.
fn zone_plan(job: &Job, zones: &Rc<Zones>, machine: &Machine<'_>, region: &mut Region) -> Result<ZonePlan, StartFault> {
    let options = &job.options;
    let name = || job.name.clone();
    let zone_bytes = zones.zone_bytes();
    let wrong = |option, given, must: String| Err(StartFault::BlockLength { job: name(), option, given, must });
    let (start, end) = (region.start, region.start + region.bytes);
    let index = |offset: u64| u32::try_from(offset / zone_bytes).unwrap_or(u32::MAX).min(zones.count());
    let pattern = options.pattern;
    let range = if pattern.writes || pattern.trims {
        index(start.next_multiple_of(zone_bytes))..index(end)
    } else {
        // The last zone counts as soon as the region reaches into it.
        index(start)..index(end.next_multiple_of(zone_bytes))
    };
    if range.is_empty() {
        return Err(StartFault::NoWholeZone { job: name(), start, end, zone_bytes });
    }
    if pattern.writes || pattern.trims {
        let start = u64::from(range.start) * zone_bytes;
        *region = Region { start, bytes: u64::from(range.end) * zone_bytes - start };
    }
    if pattern.trims && options.blocks.trim.max() != zone_bytes {
        return wrong("bs", options.blocks.trim.max(), format!("a trim resets a zone: write bs={zone_bytes}"));
    }
    let capacity_bytes = zones.capacity_bytes(&range);
    if pattern.writes && options.blocks.write.min() > capacity_bytes {
        return wrong("bs", options.blocks.write.min(), format!("a zone takes {capacity_bytes}: lower it"));
    }
    let skip_bytes = options.zones.skip.of(0, zone_bytes);
    if !skip_bytes.is_multiple_of(zone_bytes) {
        return wrong("zoneskip", skip_bytes, format!("it must be a multiple of the zone size, {zone_bytes}"));
    }
    if options.zones.append {
        let limits = machine.limits.zoned.as_ref();
        let Some(limits) = limits.filter(|_| zones.are_real()) else {
            return Err(StartFault::ImaginedZones { job: name(), option: "zone_append" });
        };
        let limit = limits.max_append_sectors * block::Sector::BYTES;
        if pattern.writes && options.blocks.write.max() > limit {
            return wrong("bs", options.blocks.write.max(), format!("an append takes at most {limit}: lower it"));
        }
    }
    if options.zones.finish_bytes.is_some() {
        if !zones.are_real() {
            return Err(StartFault::ImaginedZones { job: name(), option: "finish" });
        }
        let chunk = u64::from(options.zones.soft_finish_chunk_sectors) * block::Sector::BYTES;
        let lba = u64::from(machine.limits.logical_block_bytes);
        let limit = machine.limits.max_hw_sectors * block::Sector::BYTES;
        if options.zones.soft_finish && !chunk.is_multiple_of(lba) {
            return wrong("softfinish_chunk", chunk, format!("it must be a multiple of the logical block, {lba}"));
        }
        if options.zones.soft_finish && options.engine.kind.is_passthrough() && chunk > limit {
            return wrong(
                "softfinish_chunk",
                chunk,
                format!("one passthrough command takes at most {limit}: lower it"),
            );
        }
    }
    Ok(ZonePlan { zones: zones.clone(), range, skip_bytes })
}

/// Every length and alignment a job uses, with the option that gives it.
fn lengths(options: &Options, used: &[Direction]) -> Vec<(&'static str, u64)> {
    let mut lengths = Vec::new();
    for direction in used {
        match &options.blocks[*direction] {
            crate::fio::parse::BlockSizes::Split(parts) => lengths.extend(parts.iter().map(|part| ("bssplit", part.0))),
            sizes => lengths.push(("bs", sizes.min())),
        }
        lengths.extend(options.align_bytes[*direction].map(|align| ("blockalign", align)));
    }
    if options.frag_size_bytes > 0 {
        lengths.extend([("frag_size", options.frag_size_bytes), ("frag_distance", options.frag_distance_bytes)]);
    }
    if !options.pattern.random {
        lengths.extend(options.modifier.map(|step| ("the step after rw", step.unsigned_abs())));
    }
    lengths
}

fn core(job: &Job, number: u32, cores: u16) -> Result<Option<u16>, StartFault> {
    let allowed = &job.options.cpus_allowed;
    if let Some(cpu) = allowed.iter().find(|cpu| **cpu >= u32::from(cores)) {
        return Err(StartFault::NoSuchCpu { job: job.name.clone(), cpu: *cpu, cores });
    }
    let chosen = match allowed.as_slice() {
        [] => return Ok(None),
        all if !job.options.cpus_split && all.len() == usize::from(cores) && all.len() > 1 => return Ok(None),
        [one] => one,
        several if job.options.cpus_split => &several[number as usize % several.len()],
        _ => return Err(StartFault::SharedCpus { job: job.name.clone() }),
    };
    // Below `cores`, which is a u16.
    Ok(Some(*chosen as u16))
}
