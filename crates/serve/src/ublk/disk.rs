//! One namespace as one ublk device.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nvme::NamespaceId;
use rustix::io::{Errno as SystemError, pread, pwrite};
use ssd::Identity;

use super::abi::{self, DeviceInfo, SECTOR_BYTES, data_offset, feature};
use super::control::{Control, character_path, is_abandoned};
use super::descriptors::Descriptors;
use super::error::UblkError;
use super::operation::{Geometry, Operation};
use super::parameters::{max_request_bytes, parameters, queues};
use super::{errno::Errno, zones};

/// Kept in `DeviceInfo::ublksrv_flags`: a device that Plumb made.
const MARK: u64 = u64::from_le_bytes(*b"plumb\0\0\0");

/// How long the kernel may take to close what a killed server had open.
const DYING_TIME: Duration = Duration::from_secs(2);

/// A device that has been added and not yet deleted.
pub(crate) struct Disk {
    pub(crate) id: u32,
    pub(crate) nsid: NamespaceId,
    pub(crate) geometry: Geometry,
    pub(crate) read_only: bool,
    pub(crate) depth: u16,
    zone_bytes: u64,
    max_request_bytes: u32,
    character: File,
    queues: Vec<Descriptors>,
}

impl Disk {
    /// Adds a device for namespace `index` (from 0), which nobody sees before it is
    /// started.
    pub(crate) fn add(
        control: &mut Control,
        id: Option<u32>,
        identity: &Identity,
        index: usize,
        read_only: bool,
        log: &dyn Fn(&str),
    ) -> Result<Self, UblkError> {
        let parameters = parameters(identity, index, read_only)?;
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| u16::try_from(cpus.get()).unwrap_or(u16::MAX));
        let (queue_count, depth) = queues(identity, cpus);
        let zoned_flag = if identity.zoned.is_some() { feature::ZONED } else { 0 };
        let wanted = DeviceInfo {
            nr_hw_queues: queue_count,
            queue_depth: depth,
            max_io_buf_bytes: max_request_bytes(identity),
            flags: feature::IOCTL_ENCODE | feature::USER_COPY | zoned_flag,
            ublksrv_flags: MARK,
            ..DeviceInfo::default()
        };
        let info = add(control, id, wanted, log)?;
        let opened = Self::open(&info, identity, index, read_only).and_then(|disk| {
            control.set_parameters(disk.id, &parameters)?;
            Ok(disk)
        });
        if opened.is_err() {
            // The first error says more than one about clearing up.
            let _ = control.delete(info.dev_id);
        }
        opened
    }

    fn open(info: &DeviceInfo, identity: &Identity, index: usize, read_only: bool) -> Result<Self, UblkError> {
        let id = info.dev_id;
        let path = character_path(id);
        let opened = File::options().read(true).write(true).open(&path);
        let character = opened.map_err(|source| UblkError::Open { path, source })?;
        let queues: io::Result<Vec<Descriptors>> =
            (0..info.nr_hw_queues).map(|queue| Descriptors::map(character.as_fd(), queue, info.queue_depth)).collect();
        let queues = queues.map_err(|source| UblkError::Io { id, action: "mapping the descriptors", source })?;
        let zone_blocks = identity.zoned.as_ref().map_or(0, |zoned| zoned.zone_blocks);
        Ok(Self {
            id,
            nsid: NamespaceId(u32::try_from(index + 1).unwrap_or(u32::MAX)),
            geometry: Geometry { lba_bytes: identity.lba_bytes, zoned: identity.zoned.is_some() },
            read_only,
            depth: info.queue_depth,
            zone_bytes: zone_blocks * u64::from(identity.lba_bytes),
            max_request_bytes: info.max_io_buf_bytes,
            character,
            queues,
        })
    }

    pub(crate) fn character(&self) -> BorrowedFd<'_> {
        self.character.as_fd()
    }

    /// Each queue and tag.
    pub(crate) fn tags(&self) -> impl Iterator<Item = (u16, u16)> + use<> {
        let (queues, depth) = (self.queues.len() as u16, self.depth);
        (0..queues).flat_map(move |queue| (0..depth).map(move |tag| (queue, tag)))
    }

    /// The request of a tag whose fetch has completed, with its data.
    pub(crate) fn take(&self, queue: u16, tag: u16) -> Result<(Operation, Box<[u8]>), Errno> {
        let descriptor = self.queues.get(usize::from(queue)).and_then(|queue| queue.get(tag)).ok_or(Errno::INVALID)?;
        let operation = Operation::decode(&descriptor)?;
        if self.read_only && operation.changes_contents() {
            return Err(Errno::IO);
        }
        let mut data = vec![0; operation.payload_bytes() as usize].into_boxed_slice();
        self.copy(&mut data, queue, tag, |file, rest, at| pread(file, rest, at))?;
        Ok((operation, data))
    }

    /// Gives the driver what a request returns; returns the commit's result and
    /// address.
    pub(crate) fn give(&self, queue: u16, tag: u16, operation: Operation, data: &mut [u8], value: u64) -> (i32, u64) {
        let copied = |length: u32| i32::try_from(length).unwrap_or(i32::MAX);
        match operation {
            Operation::Read { length, .. } => {
                let given = self.copy(data, queue, tag, |file, rest, at| pwrite(file, rest, at));
                (given.map_or_else(Errno::as_result, |()| copied(length)), 0)
            }
            Operation::ReportZones { zones, .. } => {
                let mut report = zones::block_zones(data, zones, self.geometry.lba_bytes, self.zone_bytes);
                let given = self.copy(&mut report, queue, tag, |file, rest, at| pwrite(file, rest, at));
                // The request is as long as the driver's buffer, which only the
                // driver knows; it takes more for all of it.
                (given.map_or_else(Errno::as_result, |()| copied(self.max_request_bytes)), 0)
            }
            Operation::Append { length, .. } => {
                let sectors_per_block = u64::from(self.geometry.lba_bytes) / SECTOR_BYTES;
                (copied(length), value.saturating_mul(sectors_per_block))
            }
            Operation::Write { length, .. } => (copied(length), 0),
            _ => (0, 0),
        }
    }

    /// Copies all of `data` from or to the request of a tag.
    fn copy(
        &self,
        data: &mut [u8],
        queue: u16,
        tag: u16,
        step: impl Fn(&File, &mut [u8], u64) -> Result<usize, SystemError>,
    ) -> Result<(), Errno> {
        let base = data_offset(queue, tag);
        let mut done = 0;
        while let Some(rest) = data.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match step(&self.character, rest, base + done as u64) {
                // The request is shorter than its descriptor says, or gone.
                Ok(0) => return Err(Errno::IO),
                Ok(bytes) => done += bytes,
                Err(SystemError::INTR) => {}
                Err(_) => return Err(Errno::IO),
            }
        }
        Ok(())
    }
}

/// Adds a device, after deleting what a killed server left in its place.
fn add(control: &mut Control, id: Option<u32>, info: DeviceInfo, log: &dyn Fn(&str)) -> Result<DeviceInfo, UblkError> {
    let failed = |source: io::Error| match source.raw_os_error() {
        Some(libc::EPERM) => UblkError::Permission,
        Some(libc::EINVAL) if info.flags & feature::ZONED != 0 => {
            UblkError::TooOld { what: "zones (UBLK_F_ZONED with CONFIG_BLK_DEV_ZONED)", since: "6.6" }
        }
        _ => UblkError::Add { source },
    };
    match (control.add(id, info), id) {
        (Err(error), Some(taken)) if error.raw_os_error() == Some(libc::EEXIST) => {
            wait_for_the_dying(control, taken)?;
            log(&format!("ublk device {taken} was left behind by a server that was killed; it is deleted"));
            control.delete(taken)?;
            control.add(id, info).map_err(failed)
        }
        (added, _) => added.map_err(failed),
    }
}

/// Waits until nobody serves a device: the process of a killed server is gone
/// before the kernel has closed what it had open.
///
/// # Errors
///
/// When it is served by a process that lives, or still held after [`DYING_TIME`].
fn wait_for_the_dying(control: &mut Control, id: u32) -> Result<(), UblkError> {
    let deadline = Instant::now() + DYING_TIME;
    loop {
        let info = control.info(id).map_err(|source| UblkError::Control { command: "GET_DEV_INFO", id, source })?;
        if is_abandoned(&info) {
            return Ok(());
        }
        let pid = info.ublksrv_pid;
        if pid > 0 && Path::new(&format!("/proc/{pid}")).exists() {
            return Err(UblkError::InUse { id, server: format!("process {pid}") });
        }
        if Instant::now() >= deadline {
            return Err(UblkError::InUse { id, server: "a process that has not started it".to_owned() });
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Deletes the devices that killed servers of Plumb left behind, and names those
/// of other programs.
pub(crate) fn clear_up(control: &mut Control, ids: &[u32], log: &dyn Fn(&str)) {
    for &id in ids {
        let Ok(info) = control.info(id) else { continue };
        if !is_abandoned(&info) {
            continue;
        }
        if info.ublksrv_flags != MARK {
            log(&format!("note: ublk device {id} is served by nobody; `--ublk {id}` replaces it"));
            continue;
        }
        match control.delete(id) {
            Ok(()) => log(&format!("ublk device {id} was left behind by a server that was killed; it is deleted")),
            Err(error) => log(&format!("warning: ublk device {id} was left behind and stays: {error}")),
        }
    }
}

/// Requests outstanding over all queues of all disks.
pub(crate) fn requests(disks: &[Disk]) -> u32 {
    disks.iter().map(|disk| disk.queues.len() as u32 * u32::from(disk.depth)).sum()
}

const _: () = assert!(abi::MAX_REQUEST_BYTES <= i32::MAX as u32);
