//! A file system that a process of Plumb serves: how `mount` finds it, and when its process has ended.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::error::{GuestError, attempt};

/// Where mount(8) looks for who mounts a type; the layer over the host's files is the guest's own.
const HELPER: &str = "/sbin/mount.fuse.plumb";
/// How long a server may write what is left, in virtual milliseconds.
const PATIENCE_MS: u32 = 600_000;

/// Lets `mount -t fuse.plumb` find `plumb`, whatever the host has there.
pub(super) fn teach_mount(plumb: &Path) -> Result<(), GuestError> {
    let _ = fs::remove_file(HELPER);
    attempt(symlink(plumb, HELPER), || format!("cannot make {HELPER}"))
}

/// Waits until nobody has the device at `node` locked, as the server of a file system on it has until it has ended.
pub(super) fn wait_until_ended(node: &Path) -> Result<(), GuestError> {
    let failed = || format!("cannot see whether {} is served still", node.display());
    let device = attempt(File::open(node), failed)?;
    for _ in 0..PATIENCE_MS {
        match rustix::fs::flock(&device, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(1)),
            locked => return attempt(locked, failed),
        }
    }
    Err(GuestError::new(format!("the server of {} does not end after its unmounting", node.display())))
}
