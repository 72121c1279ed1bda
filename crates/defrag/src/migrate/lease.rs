//! A file to oneself, for a moment.

use std::fs::{self, File};
use std::io;
use std::thread;
use std::time::Duration;

use super::ioctl::{give_lease_back, holds_lease, take_lease};
use super::segments::Left;
use crate::priority::Urgent;

/// Attempts before a file counts as open elsewhere, with a pause after each but the last that is twice the one before, 63 ms in all:
/// programs that open and close it often leave gaps, and a process that was just started has the files of the one that started it.
const ATTEMPTS: u32 = 7;
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Shortest time, in seconds, that the kernel must have whoever opens the file wait.
const LEAST_WAIT_S: u64 = 10;

/// A write lease (fcntl(2)): nobody else has the file open or mapped, and who opens it waits for the lease's end, or
/// for `/proc/sys/fs/lease-break-time`, 45 seconds by default.
#[derive(Debug)]
pub(super) struct Lease<'a> {
    file: &'a File,
    /// Others wait for this thread: its requests are not to be those that wait for everybody's.
    urgent: Option<Urgent>,
}

impl<'a> Lease<'a> {
    /// Takes it, in so many attempts; `None` if others have the file open.
    fn take(file: &'a File, attempts: u32) -> io::Result<Option<Self>> {
        // Before anybody can wait.
        let mut urgent = Some(Urgent::now());
        for attempt in 1..=attempts {
            match take_lease(file) {
                Ok(()) => return Ok(Some(Self { file, urgent: urgent.take() })),
                Err(error) if error.raw_os_error() != Some(libc::EAGAIN) => return Err(error),
                Err(_) if attempt < attempts => thread::sleep(FIRST_PAUSE * (1 << (attempt - 1))),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Takes it; why the file is to be left alone, if it is not available or would not keep others out long enough.
    pub fn take_or_leave(file: &'a File) -> Result<Self, Left> {
        Self::take_in(file, ATTEMPTS)
    }

    /// The same, if nobody has the file open just now.
    pub fn take_at_once(file: &'a File) -> Result<Self, Left> {
        Self::take_in(file, 1)
    }

    fn take_in(file: &'a File, attempts: u32) -> Result<Self, Left> {
        match (too_short(), Self::take(file, attempts)) {
            (None, Ok(Some(lease))) => Ok(lease),
            (_, Ok(None)) => Err(Left::Open),
            (Some(why), _) => Err(Left::Unsupported(why)),
            (None, Err(error)) => Err(Left::Unsupported(format!("no lease of it is available: {error}"))),
        }
    }

    /// Leaves it to the open file, which loses it when it is closed; this thread stays urgent for as long as what is
    /// returned.
    pub fn keep(mut self) -> Urgent {
        let urgent = self.urgent.take().unwrap_or_default();
        std::mem::forget(self);
        urgent
    }

    /// Whether nobody waits for it yet.
    pub fn is_undisturbed(&self) -> bool {
        holds_lease(self.file)
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // It fails only if there is none any more.
        let _ = give_lease_back(self.file);
    }
}

/// Why a lease would not keep others out long enough, if so.
fn too_short() -> Option<String> {
    let read = fs::read_to_string("/proc/sys/fs/lease-break-time").ok();
    match read.and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(seconds) if seconds >= LEAST_WAIT_S => None,
        Some(seconds) => Some(format!("fs.lease-break-time is {seconds}; {LEAST_WAIT_S} seconds are needed")),
        None => Some("/proc/sys/fs/lease-break-time cannot be read".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priority::IdleIo;

    /// In the idle class, the requests for which others wait would wait for everybody's.
    #[test]
    fn who_has_a_lease_is_not_idle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "content").unwrap();
        let file = File::open(&path).unwrap();
        let idle = IdleIo::enter().unwrap();
        assert!(IdleIo::is_in_force());
        match Lease::take(&file, ATTEMPTS) {
            Ok(lease) => {
                let lease = lease.unwrap();
                assert!(!IdleIo::is_in_force());
                drop(lease);
                assert!(IdleIo::is_in_force());
                let urgent = Lease::take(&file, ATTEMPTS).unwrap().unwrap().keep();
                assert!(!IdleIo::is_in_force());
                give_lease_back(&file).unwrap();
                drop(urgent);
            }
            Err(error) => println!("skipped: no leases here: {error}"),
        }
        assert!(IdleIo::is_in_force());
        drop(idle);
        assert!(!IdleIo::is_in_force());
    }

    #[test]
    fn only_one_has_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "content").unwrap();
        let file = File::open(&path).unwrap();
        let lease = match Lease::take(&file, ATTEMPTS) {
            Ok(lease) => lease.unwrap(),
            Err(error) => return println!("skipped: no leases here: {error}"),
        };
        assert!(lease.is_undisturbed());
        // Somebody opens it: they wait until the lease is given back.
        thread::scope(|scope| {
            let opener = scope.spawn(|| fs::read(&path).unwrap());
            while lease.is_undisturbed() {
                thread::sleep(Duration::from_millis(1));
            }
            assert!(!opener.is_finished());
            drop(lease);
            assert_eq!(opener.join().unwrap(), b"content");
        });
        let other = File::open(&path).unwrap();
        assert!(Lease::take(&file, ATTEMPTS).unwrap().is_none());
        drop(other);
        assert!(Lease::take(&file, ATTEMPTS).unwrap().is_some());
    }
}
