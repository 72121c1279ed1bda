//! What the way through ublk costs, measured at start on this machine.
//!
//! A ublk device of its own, with a device of known latency behind it, is read
//! directly at queue depth one; what the reader sees beyond that latency is the
//! cost. It is not the disk that clients get, since whoever looks at a new disk
//! (udev) would keep the probe's bytes in the page cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use ssd::{Device, NullDevice};
use units::Nanos;

use super::control::{Control, disk_path};
use super::disk::Disk;
use super::front_end::UblkFrontEnd;
use crate::calibration::{Calibration, Probe, rounds};
use crate::error::ServeError;

/// The device that is measured with: a flash read.
const PROBE_LATENCY: Nanos = Nanos::from_micros(80);
/// Requests of one round; with the probe's latency and the cost, about 40 ms.
const PROBE_REQUESTS: usize = 300;
const PROBE_BYTES: usize = 4096;
/// How long the disk may take to appear.
const START_TIME: Duration = Duration::from_secs(10);

/// Measures with disks that are gone when it returns.
pub(crate) fn measure(spin: Nanos) -> Result<Calibration, ServeError> {
    rounds(|sofar| round(sofar, spin))
}

/// One round that gives answers early by what `sofar` says.
fn round(sofar: Calibration, spin: Nanos) -> Result<Calibration, ServeError> {
    let device = Box::new(NullDevice::new(256, PROBE_BYTES as u32, PROBE_LATENCY));
    let mut control = Control::open()?;
    let disk = Disk::add(&mut control, None, device.identity(), 0, true, &|_| {})?;
    let path = disk_path(disk.id);
    let (sender, started) = channel();
    // The one line that the front-end logs is that it is ready; a reader that is
    // gone has failed, which it reports itself.
    let log = |_line: &str| {
        let _ = sender.send(());
    };
    let front_end = UblkFrontEnd::new(control, vec![disk], &log, String::new())?;
    let reader = move || match started.recv_timeout(START_TIME) {
        Ok(()) => read_many(&path),
        Err(error) => Err(io::Error::other(error)),
    };
    let probed = Probe { front_end, device, sofar, spin }.run(reader, |_| {})?;
    Ok(probed.cost(probed.median(), PROBE_LATENCY))
}

/// Reads the disk directly, one block at a time; returns round-trip times.
fn read_many(path: &str) -> io::Result<Vec<Nanos>> {
    let disk: File = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path)?;
    let mut bytes = vec![0; 2 * PROBE_BYTES];
    // Direct I/O wants memory as aligned as the blocks.
    let start = bytes.as_ptr().align_offset(PROBE_BYTES).min(PROBE_BYTES);
    let block = bytes.get_mut(start..start + PROBE_BYTES).unwrap_or_default();
    let mut times = Vec::with_capacity(PROBE_REQUESTS);
    for _ in 0..PROBE_REQUESTS {
        let sent = Instant::now();
        disk.read_exact_at(block, 0)?;
        times.push(Nanos(sent.elapsed().as_nanos() as u64));
    }
    Ok(times)
}
