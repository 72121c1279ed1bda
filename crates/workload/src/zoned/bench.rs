//! A zoned device on a clock of its own.

use block::{Bio, BioFlags, BioOp, BlockDevice, QueueConfig, SchedulerKind, Sector, ZincConfig, ZoneOp};
use nvme::NamespaceId;
use sim::Executor;
use ssd::profile::{BuildOptions, Profile, ProfileError};
use trace::{Recorder, RequestId};
use units::Nanos;

use super::{HostPath, Operation};

/// Seed of every simulation here: a row's figures depend on nothing but the
/// row, the profile and the host.
pub(super) const SEED: u64 = 1;

/// How long a host that pads a zone itself by passthrough rests after each write.
const PADDING_REST: Nanos = Nanos::from_micros(50);

/// A zoned device on a virtual clock, driven by passthrough commands or through the
/// block layer.
pub struct Bench {
    /// The clock.
    pub executor: Executor,
    /// What its tasks share.
    pub rig: Rig,
}

/// What the tasks share.
#[derive(Clone)]
pub struct Rig {
    /// The clock and its tasks.
    pub sim: sim::Handle,
    disk: BlockDevice,
    /// The device's zones.
    pub zones: Zones,
    /// What the host adds.
    pub path: HostPath,
    /// Commands are passed through, or go through the block layer.
    flags: BioFlags,
}

/// The shape of the zones.
#[derive(Clone, Copy)]
pub struct Zones {
    /// How many.
    pub count: u32,
    /// How many may be open at once.
    pub max_open: Option<u32>,
    /// A logical block.
    pub block_bytes: u64,
    /// What may be written of each.
    pub capacity_bytes: u64,
    size_bytes: u64,
    append_limit_bytes: u64,
    transfer_limit_bytes: u64,
}

/// A zone by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone(pub u32);

/// The software between threads and device; without it commands are passed through.
#[derive(Clone, Debug)]
pub struct BlockLayer {
    /// The I/O scheduler.
    pub scheduler: SchedulerKind,
    /// The tunables of ZINC, where it is the scheduler.
    pub zinc: ZincConfig,
}

/// Why a device cannot be driven so.
#[derive(Debug, thiserror::Error)]
pub enum ZonedError {
    /// The profile is no device.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The device has no zones.
    #[error("`{0}` has no zones; its profile needs kind = \"zoned\"")]
    NoZones(String),
    /// More threads than processors can be.
    #[error("{0} threads are more than a host has")]
    Threads(u32),
    /// A transfer that is no whole number of logical blocks.
    #[error("{bytes} B is no multiple of the logical block, {block_bytes} B")]
    Unaligned {
        /// Of the transfer.
        bytes: u64,
        /// A logical block.
        block_bytes: u64,
    },
    /// A transfer that is larger than the device takes.
    #[error("one {operation} of {bytes} B is above the device's limit, {limit_bytes} B")]
    TooLarge {
        /// What is asked for.
        operation: Operation,
        /// Of the transfer.
        bytes: u64,
        /// What the device takes at most.
        limit_bytes: u64,
    },
}

/// A command that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device refused {op:?} in zone {zone} at {at} ({status})")]
pub struct CommandError {
    /// What was asked for.
    pub op: BioOp,
    /// Where.
    pub zone: u32,
    /// When it failed.
    pub at: Nanos,
    /// How.
    pub status: nvme::Status,
}

impl Bench {
    /// The device of `profile` with `threads` submitting CPUs, behind `block_layer`.
    ///
    /// # Errors
    /// When the profile is no zoned device, and when the threads are more than a host has.
    pub fn new(
        profile: &Profile,
        threads: u32,
        path: HostPath,
        block_layer: Option<BlockLayer>,
    ) -> Result<Self, ZonedError> {
        let cpus = u16::try_from(threads.max(1)).ok().and_then(std::num::NonZeroU16::new);
        let cpus = cpus.ok_or(ZonedError::Threads(threads))?;
        let options = BuildOptions { seed: Some(SEED), ..BuildOptions::default() };
        let device = profile.build(&options)?;
        let identity = device.identity().clone();
        let zoned = identity.zoned.as_ref().ok_or_else(|| ZonedError::NoZones(profile.name.clone()))?;
        let block_bytes = u64::from(identity.lba_bytes);
        let namespace_blocks = identity.namespace_blocks.first().copied().unwrap_or(0);
        let zones = Zones {
            count: u32::try_from(namespace_blocks / zoned.zone_blocks).unwrap_or(u32::MAX),
            max_open: zoned.max_open.into_iter().chain(zoned.max_active).min(),
            block_bytes,
            capacity_bytes: zoned.zone_capacity_blocks * block_bytes,
            size_bytes: zoned.zone_blocks * block_bytes,
            append_limit_bytes: zoned.append_limit_bytes.into(),
            transfer_limit_bytes: identity.max_transfer_bytes.into(),
        };
        let executor = Executor::new_virtual();
        let sim = executor.handle();
        let flags = if block_layer.is_some() { BioFlags::empty() } else { BioFlags::PASSTHROUGH };
        let usual = QueueConfig { scheduler: Some(SchedulerKind::None), cpus, ..QueueConfig::default() };
        let config = match block_layer {
            Some(BlockLayer { scheduler, zinc }) => QueueConfig { scheduler: Some(scheduler), zinc, ..usual },
            None => usual,
        };
        let disk = BlockDevice::new(&sim, device, config, Recorder::default());
        Ok(Self { executor, rig: Rig { sim, disk, zones, path, flags } })
    }
}

impl Zones {
    /// Whether a stream's blocks can be transferred at all.
    ///
    /// # Errors
    /// When they are no whole logical blocks, and when they are larger than the device takes or a zone holds.
    pub fn check_block(&self, operation: Operation, bytes: u64) -> Result<(), ZonedError> {
        let limit = if operation == Operation::Append { self.append_limit_bytes } else { self.transfer_limit_bytes };
        if !bytes.is_multiple_of(self.block_bytes) {
            return Err(ZonedError::Unaligned { bytes, block_bytes: self.block_bytes });
        }
        if bytes > limit || bytes > self.capacity_bytes {
            return Err(ZonedError::TooLarge { operation, bytes, limit_bytes: limit });
        }
        Ok(())
    }

    fn sector(&self, zone: Zone, offset_bytes: u64) -> Sector {
        Sector((u64::from(zone.0) * self.size_bytes + offset_bytes) / Sector::BYTES)
    }
}

impl Rig {
    /// One command, from `cpu`, `offset` bytes into the zone.
    ///
    /// # Errors
    /// When the device refuses it.
    pub async fn command(&self, cpu: u16, op: BioOp, zone: Zone, offset: u64, bytes: u64) -> Result<(), CommandError> {
        let bio = Bio {
            nsid: NamespaceId::FIRST,
            op,
            sector: self.zones.sector(zone, offset),
            bytes,
            flags: self.flags,
            data: None,
            order: None,
            request: RequestId(0),
        };
        let result = self.disk.submit(cpu, bio).await;
        if result.status.is_success() {
            return Ok(());
        }
        Err(CommandError { op, zone: zone.0, at: self.sim.now(), status: result.status })
    }

    /// Writes `bytes` from the start of a zone, in transfers as large as may be.
    ///
    /// # Errors
    /// When the device refuses one.
    pub async fn fill(&self, zone: Zone, bytes: u64) -> Result<(), CommandError> {
        let largest = self.zones.transfer_limit_bytes.min(1 << 20);
        let largest = largest - largest % self.zones.block_bytes;
        let mut offset = 0;
        while offset < bytes {
            let part = largest.min(bytes - offset);
            self.command(0, BioOp::Write, zone, offset, part).await?;
            offset += part;
        }
        Ok(())
    }

    /// Writes a zone from `offset` to its end, `chunk` bytes at a time.
    pub(super) async fn pad(&self, cpu: u16, zone: Zone, mut offset: u64, chunk: u64) -> Result<(), CommandError> {
        while offset < self.zones.capacity_bytes {
            let bytes = chunk.min(self.zones.capacity_bytes - offset);
            self.command(cpu, BioOp::Write, zone, offset, bytes).await?;
            if self.flags.contains(BioFlags::PASSTHROUGH) {
                self.sim.sleep(PADDING_REST).await;
            }
            offset += bytes;
        }
        Ok(())
    }

    /// Manages a zone.
    ///
    /// # Errors
    /// When the device refuses it.
    pub async fn manage(&self, op: ZoneOp, zone: Zone) -> Result<(), CommandError> {
        self.command(0, BioOp::Zone(op), zone, 0, 0).await
    }
}
