//! Control commands: adding, starting, stopping and deleting devices.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use io_uring::squeue::Entry128;
use uring::Ring;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::abi::{self, CONTROL_PATH, ControlCommand, DeviceInfo, Parameters, control};
use super::commands::control_command;
use super::error::UblkError;

/// Of no queue (`UBLK` control commands want all ones).
const NO_QUEUE: u16 = u16::MAX;

/// The driver chooses the number.
const ANY_ID: u32 = u32::MAX;

/// Room for the largest structure that a command carries.
const BUFFER_BYTES: usize = 128;

/// Commands that take a while and are not waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slow {
    /// START_DEV: completes when the kernel has read zones and partition table.
    Start,
    /// STOP_DEV: completes when everything dirty has been written back.
    Stop,
}

/// What [`Control::finished`] reports.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) slow: Slow,
    pub(crate) result: Result<(), UblkError>,
}

/// The driver's control device.
///
/// Every command runs in a worker thread of the kernel (the driver refuses to run
/// one inline), so even those that wait for requests to be served can be given by
/// the thread that serves.
pub(crate) struct Control {
    file: File,
    ring: Ring<Entry128>,
    buffer: Box<[u8; BUFFER_BYTES]>,
    /// Slow commands that ended while another was waited for.
    early: Vec<Finished>,
}

/// Token of the command that is waited for; slow ones have their id and kind.
const WAITED: u64 = u64::MAX;

impl Control {
    /// Opens the control device.
    pub(crate) fn open() -> Result<Self, UblkError> {
        let file = File::options().read(true).write(true).open(CONTROL_PATH).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => UblkError::NoDriver,
            io::ErrorKind::PermissionDenied => UblkError::Permission,
            _ => UblkError::Open { path: CONTROL_PATH.to_owned(), source },
        })?;
        // The smallest; the two slow commands of a few disks and one other.
        let ring = Ring::new(0).map_err(|source| UblkError::Ring { source })?;
        Ok(Self { file, ring, buffer: Box::new([0; BUFFER_BYTES]), early: Vec::new() })
    }

    /// What the driver can do (`UBLK_F_*`).
    pub(crate) fn features(&mut self) -> Result<u64, UblkError> {
        match self.exchange(control::GET_FEATURES, ANY_ID, &0_u64) {
            Ok(features) => Ok(features),
            Err(source) if source.raw_os_error() == Some(libc::EPERM) => Err(UblkError::Permission),
            // Drivers before it know neither the command nor user copy.
            Err(_) => Err(UblkError::TooOld { what: "copying by the server (UBLK_F_USER_COPY)", since: "6.5" }),
        }
    }

    /// Adds a device, with `id` or any free number; the driver corrects `info`.
    pub(crate) fn add(&mut self, id: Option<u32>, mut info: DeviceInfo) -> io::Result<DeviceInfo> {
        info.dev_id = id.unwrap_or(ANY_ID);
        self.exchange(control::ADD_DEV, info.dev_id, &info)
    }

    /// What the driver knows of a device.
    pub(crate) fn info(&mut self, id: u32) -> io::Result<DeviceInfo> {
        self.exchange(control::GET_DEV_INFO, id, &DeviceInfo::default())
    }

    /// Sets the parameters of a device that has not been started.
    pub(crate) fn set_parameters(&mut self, id: u32, parameters: &Parameters) -> Result<(), UblkError> {
        let set = self.exchange(control::SET_PARAMS, id, parameters);
        set.map(drop).map_err(|source| UblkError::Control { command: "SET_PARAMS", id, source })
    }

    /// Deletes a device, without waiting for those who still have its disk open
    /// where the driver can do so.
    pub(crate) fn delete(&mut self, id: u32) -> Result<(), UblkError> {
        let unknown = [libc::EOPNOTSUPP, libc::EINVAL];
        let deleted = match self.exchange(control::DEL_DEV_ASYNC, id, &[0_u8; 0]) {
            Err(error) if error.raw_os_error().is_some_and(|errno| unknown.contains(&errno)) => {
                self.exchange(control::DEL_DEV, id, &[0_u8; 0])
            }
            deleted => deleted,
        };
        deleted.map(drop).map_err(|source| UblkError::Control { command: "DEL_DEV", id, source })
    }

    /// Gives a slow command, whose end [`finished`](Self::finished) reports.
    pub(crate) fn begin(&mut self, slow: Slow, id: u32) -> Result<(), UblkError> {
        let (code, data) = match slow {
            Slow::Start => (control::START_DEV, u64::from(std::process::id())),
            Slow::Stop => (control::STOP_DEV, 0),
        };
        let command = ControlCommand { dev_id: id, queue_id: NO_QUEUE, data, ..ControlCommand::default() };
        // SAFETY: the command carries no address.
        let given = unsafe { control_command(&mut self.ring, self.file.as_fd(), code, command, token(slow, id)) };
        given.and_then(|()| self.ring.submit()).map_err(|source| failure(slow, id, source))
    }

    /// A slow command that has ended, if one has.
    pub(crate) fn finished(&mut self) -> Option<Finished> {
        if let Some(finished) = self.early.pop() {
            return Some(finished);
        }
        let completed = self.ring.completed()?;
        Some(finished_of(completed.token, completed.result))
    }

    /// Gives a command with a structure and waits for the structure as the driver
    /// leaves it.
    fn exchange<T: FromBytes + IntoBytes + Immutable>(&mut self, code: u32, id: u32, value: &T) -> io::Result<T> {
        let length = size_of::<T>();
        debug_assert!(length <= BUFFER_BYTES);
        self.buffer[..length].copy_from_slice(value.as_bytes());
        let addr = if length == 0 { 0 } else { self.buffer.as_mut_ptr() as u64 };
        let command = ControlCommand {
            dev_id: id,
            queue_id: NO_QUEUE,
            // `length` is at most BUFFER_BYTES.
            len: length as u16,
            addr,
            ..ControlCommand::default()
        };
        // SAFETY: the buffer is on the heap, not touched until the command has
        // completed, and leaked where that cannot be known.
        unsafe { control_command(&mut self.ring, self.file.as_fd(), code, command, WAITED)? };
        let result = loop {
            if let Err(error) = self.ring.wait() {
                std::mem::forget(std::mem::replace(&mut self.buffer, Box::new([0; BUFFER_BYTES])));
                return Err(error);
            }
            match self.ring.completed() {
                Some(completed) if completed.token == WAITED => break completed.result,
                Some(completed) => self.early.push(finished_of(completed.token, completed.result)),
                None => {}
            }
        };
        if result < 0 {
            return Err(io::Error::from_raw_os_error(-result));
        }
        T::read_from_bytes(&self.buffer[..length]).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

fn token(slow: Slow, id: u32) -> u64 {
    u64::from(id) << 1 | u64::from(slow == Slow::Stop)
}

fn finished_of(token: u64, result: i32) -> Finished {
    let slow = if token & 1 == 0 { Slow::Start } else { Slow::Stop };
    let id = (token >> 1) as u32;
    let result = match result {
        0.. => Ok(()),
        errno => Err(failure(slow, id, io::Error::from_raw_os_error(-errno))),
    };
    Finished { slow, result }
}

fn failure(slow: Slow, id: u32, source: io::Error) -> UblkError {
    let command = match slow {
        Slow::Start => "START_DEV",
        Slow::Stop => "STOP_DEV",
    };
    UblkError::Control { command, id, source }
}

/// The devices that exist, by number.
pub(crate) fn existing() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/sys/class/ublk-char") else { return Vec::new() };
    let number = |name: &Path| name.to_str()?.strip_prefix("ublkc")?.parse().ok();
    let mut ids: Vec<u32> = entries.filter_map(|entry| number(Path::new(&entry.ok()?.file_name()))).collect();
    ids.sort_unstable();
    ids
}

/// Path of a device's character file.
pub(crate) fn character_path(id: u32) -> String {
    format!("/dev/ublkc{id}")
}

/// Path of a device's disk.
pub(crate) fn disk_path(id: u32) -> String {
    format!("/dev/ublkb{id}")
}

/// Whether a device that the driver calls dead is served by nobody: its character
/// file can be opened once.
pub(crate) fn is_abandoned(info: &DeviceInfo) -> bool {
    info.state == abi::STATE_DEAD && File::options().read(true).write(true).open(character_path(info.dev_id)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back() {
        for slow in [Slow::Start, Slow::Stop] {
            let finished = finished_of(token(slow, 7), 0);
            assert_eq!(finished.slow, slow);
            assert!(finished.result.is_ok());
            let failed = finished_of(token(slow, u32::MAX - 1), -libc::EEXIST);
            assert_eq!(failed.slow, slow);
            assert!(matches!(failed.result, Err(UblkError::Control { id, .. }) if id == u32::MAX - 1));
        }
        assert_ne!(token(Slow::Stop, u32::MAX), WAITED);
    }
}
