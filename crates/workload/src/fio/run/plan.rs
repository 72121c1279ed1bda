//! A job's options, resolved against the device it runs on.

use block::Limits;
use units::Nanos;

use crate::fio::generate::Region;
use crate::fio::parse::{EngineKind, Job, Options, Verify};
use crate::fio::{Direction, PerDirection};

/// Why a job cannot start on this host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// A region that the device does not have.
    #[error(
        "job `{job}`: bytes {start} to {end} are asked for, but the device has {device_bytes}: \
         lower size, offset, offset_increment or numjobs"
    )]
    OutsideDevice {
        /// The job.
        job: String,
        /// First byte asked for.
        start: u64,
        /// One past the last byte asked for.
        end: u64,
        /// The device's size.
        device_bytes: u64,
    },
    /// A block that is longer than the region.
    #[error(
        "job `{job}`: a block of {block_bytes} bytes does not fit the region of {region_bytes}: lower bs or raise size"
    )]
    BlockOutgrowsRegion {
        /// The job.
        job: String,
        /// The smallest block.
        block_bytes: u64,
        /// The region's length.
        region_bytes: u64,
    },
    /// A length or offset that direct I/O does not take.
    #[error(
        "job `{job}`: {what} {bytes} is not a multiple of the device's logical block of {logical_block_bytes} bytes"
    )]
    Misaligned {
        /// The job.
        job: String,
        /// The option.
        what: &'static str,
        /// Its value in bytes.
        bytes: u64,
        /// The device's logical block.
        logical_block_bytes: u32,
    },
    /// Verification on a device that keeps no contents.
    #[error("job `{job}`: verify needs a device that keeps contents; set its contents to memory, or write verify=null")]
    NoContents {
        /// The job.
        job: String,
    },
    /// Trims on a device without deallocation.
    #[error("job `{job}`: rw={pattern} trims, but the device does not support deallocation")]
    NoTrim {
        /// The job.
        job: String,
        /// Its pattern.
        pattern: &'static str,
    },
    /// A CPU that the host does not have.
    #[error("job `{job}`: cpus_allowed names CPU {cpu}, but the host has {cores}")]
    NoSuchCpu {
        /// The job.
        job: String,
        /// The CPU.
        cpu: u32,
        /// The host's cores.
        cores: u16,
    },
    /// A CPU list that the CPU model has no word for.
    #[error(
        "job `{job}`: cpus_allowed must name one CPU or all of them; \
         to spread threads over some, add cpus_allowed_policy=split"
    )]
    SharedCpus {
        /// The job.
        job: String,
    },
}

/// What one thread of a job does.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub region: Region,
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
pub(super) struct Machine {
    pub limits: Limits,
    pub keeps_contents: bool,
    pub cores: u16,
    pub seed: u64,
}

impl Plan {
    /// The plan of thread `number` of `numjobs`.
    pub fn new(job: &Job, number: u32, machine: &Machine) -> Result<Self, StartError> {
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
        let region = region(options, number, machine, smallest, u64::from(lba)).map_err(|(start, end)| {
            let device_bytes = machine.limits.capacity_sectors * block::Sector::BYTES;
            StartError::OutsideDevice { job: name(), start, end, device_bytes }
        })?;
        if used.iter().any(|direction| options.blocks[*direction].min() > region.bytes) {
            return Err(StartError::BlockOutgrowsRegion {
                job: name(),
                block_bytes: smallest,
                region_bytes: region.bytes,
            });
        }
        for (what, bytes) in lengths(options, &used).into_iter().chain([("offset", region.start)]) {
            if bytes % u64::from(lba) != 0 {
                return Err(StartError::Misaligned { job: name(), what, bytes, logical_block_bytes: lba });
            }
        }
        let checks_contents = !matches!(options.verify, Verify::None | Verify::Null);
        if checks_contents && !machine.keeps_contents {
            return Err(StartError::NoContents { job: name() });
        }
        if pattern.trims && machine.limits.max_discard_sectors == 0 {
            return Err(StartError::NoTrim { job: name(), pattern: pattern.name });
        }
        let depth = options.depth();
        let batch = if options.iodepth_batch == 0 { depth } else { options.iodepth_batch.min(depth) };
        // POSIX AIO has no call that submits several (aio_read(3) takes one).
        let batch = if options.engine.kind == EngineKind::PosixAio { 1 } else { batch };
        let complete_min = options.complete_min.min(depth);
        let once = options.io_size.map_or(region.bytes, |size| size.of(region.bytes, 0));
        let bounded_by_time = options.time_based;
        // A trimwrite moves every byte twice, and fio counts both.
        let factor = if pattern.is_trim_write() { 2 } else { 1 };
        let pass_bytes = once.saturating_mul(factor);
        let total = pass_bytes.saturating_mul(u64::from(options.loops));
        let repeats = bounded_by_time || options.io_size.is_some();
        Ok(Self {
            region,
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
fn region(options: &Options, number: u32, machine: &Machine, smallest: u64, lba: u64) -> Result<Region, (u64, u64)> {
    let device_bytes = machine.limits.capacity_sectors * block::Sector::BYTES;
    let align = if options.offset_align_bytes > 0 { options.offset_align_bytes } else { smallest };
    let place = |extent: crate::fio::parse::Extent| match extent {
        crate::fio::parse::Extent::Bytes(bytes) => bytes,
        percent => percent.of(device_bytes, 0).checked_next_multiple_of(align.max(1)).unwrap_or(device_bytes),
    };
    let increment = place(options.offset_increment).saturating_mul(u64::from(number));
    let start = place(options.offset).saturating_add(increment);
    let bytes = match options.size {
        Some(size @ crate::fio::parse::Extent::Bytes(_)) => size.of(device_bytes, 0),
        Some(percent) => percent.of(device_bytes, 0) / lba * lba,
        None => device_bytes.saturating_sub(start),
    };
    let end = start.saturating_add(bytes);
    if bytes == 0 || end > device_bytes { Err((start, end)) } else { Ok(Region { start, bytes }) }
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
    if !options.pattern.random {
        lengths.extend(options.modifier.map(|step| ("the step after rw", step.unsigned_abs())));
    }
    lengths
}

fn core(job: &Job, number: u32, cores: u16) -> Result<Option<u16>, StartError> {
    let allowed = &job.options.cpus_allowed;
    if let Some(cpu) = allowed.iter().find(|cpu| **cpu >= u32::from(cores)) {
        return Err(StartError::NoSuchCpu { job: job.name.clone(), cpu: *cpu, cores });
    }
    let chosen = match allowed.as_slice() {
        [] => return Ok(None),
        all if !job.options.cpus_split && all.len() == usize::from(cores) && all.len() > 1 => return Ok(None),
        [one] => one,
        several if job.options.cpus_split => &several[number as usize % several.len()],
        _ => return Err(StartError::SharedCpus { job: job.name.clone() }),
    };
    // Below `cores`, which is a u16.
    Ok(Some(*chosen as u16))
}
