//! Why jobs cannot start.

/// A job that cannot start on this host, with its place in the job file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {fault}")]
pub struct StartError {
    /// Name of the job file.
    pub file: String,
    /// Line where the job's section begins, from 1.
    pub line: usize,
    /// Why.
    pub fault: StartFault,
}

/// Why a job cannot start on this host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartFault {
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
    /// A namespace that the device does not have.
    #[error("job `{job}`: filename names namespace {namespace}, but the device has {namespaces}")]
    NoSuchNamespace {
        /// The job.
        job: String,
        /// The namespace asked for.
        namespace: u32,
        /// Namespaces of the device.
        namespaces: u32,
    },
    /// `zonemode=zbd` where there are no zones.
    #[error(
        "job `{job}`: zonemode=zbd, but the device has no zones: take a zoned device, \
         or write zonesize=SIZE to have zones imagined as fio does"
    )]
    NoZones {
        /// The job.
        job: String,
    },
    /// What only a device with zones can do.
    #[error("job `{job}`: {option} needs a device with zones, and this one's are imagined: take a zoned device")]
    ImaginedZones {
        /// The job.
        job: String,
        /// The option.
        option: &'static str,
    },
    /// A length that does not fit the device's commands or zones.
    #[error("job `{job}`: {option} is {given} bytes, but {must}")]
    BlockLength {
        /// The job.
        job: String,
        /// The option.
        option: &'static str,
        /// Its value in bytes.
        given: u64,
        /// What it must be, and the remedy.
        must: String,
    },
    /// A region without a whole zone.
    #[error(
        "job `{job}`: no whole zone of {zone_bytes} bytes lies between bytes {start} and {end}: \
         raise size, or write size and offset in zones (size=10z)"
    )]
    NoWholeZone {
        /// The job.
        job: String,
        /// First byte asked for.
        start: u64,
        /// One past the last byte asked for.
        end: u64,
        /// Size of a zone.
        zone_bytes: u64,
    },
    /// More zones open than the device lets be.
    #[error(
        "job `{job}`: max_open_zones={asked}, but the device lets {limit} be open: lower it, or add ignore_zone_limits=1"
    )]
    MaxOpenZones {
        /// The job.
        job: String,
        /// Zones asked for.
        asked: u32,
        /// The device's limit.
        limit: u32,
    },
    /// Limits that contradict each other.
    #[error(
        "job `{job}`: max_open_zones={asked}, but another job's limit on the same device is {other} (0 is none): \
         write the same in all, best under [global]"
    )]
    MaxOpenZonesDiffer {
        /// The job.
        job: String,
        /// Its limit.
        asked: u32,
        /// The other's.
        other: u32,
    },
    /// A thread's limit without one for all.
    #[error("job `{job}`: job_max_open_zones needs a limit for all jobs: add max_open_zones")]
    JobMaxOpenZonesAlone {
        /// The job.
        job: String,
    },
    /// Zones open already.
    #[error(
        "job `{job}`: more zones of its region are open than max_open_zones={limit} lets it write: \
         raise it, or finish zones before"
    )]
    OpenAlready {
        /// The job.
        job: String,
        /// The limit.
        limit: u32,
    },
    /// More writers than zones that may be open.
    #[error(
        "job `{job}`: {writers} threads at a time write to zones of their own, but {limit} zones may be open: \
         lower numjobs, or let threads share zones (offset_increment=0)"
    )]
    TooManyWriters {
        /// The job whose thread is one too many.
        job: String,
        /// Threads that write at a time.
        writers: u32,
        /// Zones that may be open.
        limit: u32,
    },
    /// Different regions under `zone_reset_frequency`.
    #[error("job `{job}`: jobs with zone_reset_frequency must have the same region; write the same offset and size")]
    ResetRegionsDiffer {
        /// The job.
        job: String,
    },
}
