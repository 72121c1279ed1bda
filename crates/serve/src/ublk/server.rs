//! Serving a device over ublk from start to end.

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::configure_io_flusher_behavior;
use ssd::{Device, Identity};

use super::abi::feature;
use super::calibrate::measure;
use super::control::{Control, disk_path, existing};
use super::disk::{Disk, clear_up};
use super::error::UblkError;
use super::front_end::UblkFrontEnd;
use crate::calibration::Calibration;
use crate::error::ServeError;
use crate::run::{ServeOptions, ServeReport, serve};
use crate::stop::Stop;

/// Serves a device as `/dev/ublkbN`.
pub struct Server {
    control: Control,
    features: u64,
    id: Option<u32>,
}

impl Server {
    /// Opens the driver. With `id`, namespace 1 becomes `/dev/ublkb<id>`, namespace
    /// 2 the next, and so on; without, the driver chooses free numbers.
    ///
    /// # Errors
    ///
    /// Where the driver is missing, too old, or not for this user; the message says
    /// how to repair it.
    pub fn open(id: Option<u32>) -> Result<Self, UblkError> {
        let mut control = Control::open()?;
        let features = control.features()?;
        if features & feature::USER_COPY == 0 {
            return Err(UblkError::TooOld { what: "copying by the server (UBLK_F_USER_COPY)", since: "6.5" });
        }
        Ok(Self { control, features, id })
    }

    /// Serves `device` until somebody asks through `stop`; then the kernel writes
    /// back what it holds, the disks go, and the device is flushed. The line that
    /// begins `ready at` names the disks once they can be opened.
    ///
    /// Devices that killed servers of Plumb left behind are deleted first.
    ///
    /// # Errors
    ///
    /// A device that the block layer has no words for, a number that is taken, or
    /// a failure of the driver or the loop.
    pub fn run(
        mut self,
        device: Box<dyn Device>,
        options: &ServeOptions,
        stop: &Stop,
    ) -> Result<ServeReport, ServeError> {
        let log = &*options.log;
        let identity = device.identity().clone();
        if identity.zoned.is_some() && self.features & feature::ZONED == 0 {
            return Err(UblkError::TooOld { what: "zones (UBLK_F_ZONED)", since: "6.6" }.into());
        }
        protect(log);
        clear_up(&mut self.control, &existing(), log);
        let calibration = if options.calibrate { measure(options.spin)? } else { Calibration::default() };
        let disks = add_all(&mut self.control, self.id, &identity, options.read_only, log)?;
        let paths: Vec<String> = disks.iter().map(|disk| disk_path(disk.id)).collect();
        let ready_line = format!("ready at {}; {calibration}", paths.join(" "));
        let front_end = UblkFrontEnd::new(self.control, disks, log, ready_line)?;
        serve(front_end, device, options, calibration, None, stop)
    }
}

/// Tells the kernel that its own writeback waits for this process, which then must
/// not wait for writeback when it asks for memory (PR_SET_IO_FLUSHER), and keeps
/// what it has in memory.
fn protect(log: &dyn Fn(&str)) {
    if let Err(error) = configure_io_flusher_behavior(true) {
        log(&format!("warning: the kernel does not take this process for an I/O flusher ({error})"));
    }
    if let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT) {
        log(&format!("warning: memory is not locked ({error}); under memory pressure the disk may stall"));
    }
}

/// A disk for each namespace; none where one of them fails.
fn add_all(
    control: &mut Control,
    first: Option<u32>,
    identity: &Identity,
    read_only: bool,
    log: &dyn Fn(&str),
) -> Result<Vec<Disk>, UblkError> {
    let mut disks: Vec<Disk> = Vec::with_capacity(identity.namespace_blocks.len());
    for index in 0..identity.namespace_blocks.len() {
        let id = first.map(|first| first.saturating_add(index as u32));
        match Disk::add(control, id, identity, index, read_only, log) {
            Ok(disk) => disks.push(disk),
            Err(error) => {
                for disk in disks {
                    let id = disk.id;
                    drop(disk);
                    // The first error says more than one about clearing up.
                    let _ = control.delete(id);
                }
                return Err(error);
            }
        }
    }
    Ok(disks)
}
