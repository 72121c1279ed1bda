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
use std::thread;
use std::time::{Duration, Instant};

use ssd::{Device, NullDevice};
use units::Nanos;

use super::control::{Control, disk_path};
use super::disk::Disk;
use super::error::UblkError;
use super::front_end::UblkFrontEnd;
use crate::calibration::{Calibration, MAX_COST};
use crate::engine::Engine;
use crate::error::ServeError;
use crate::event_loop::EventLoop;
use crate::stop::Stop;

/// The device that is measured with: a flash read.
const PROBE_LATENCY: Nanos = Nanos::from_micros(80);
/// Requests of one round; with the probe's latency and the cost, about 40 ms.
const PROBE_REQUESTS: usize = 300;
const PROBE_BYTES: usize = 4096;
/// The median round counts, so that another program on the same CPUs may spoil
/// one of them. Each round gives answers early by what the one before it found.
const ROUNDS: usize = 3;
/// How long the disk may take to appear.
const START_TIME: Duration = Duration::from_secs(10);

/// Measures with disks that are gone when it returns.
pub(crate) fn measure(spin: Nanos) -> Result<Calibration, ServeError> {
    let mut found: Vec<Calibration> = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let sofar = found.last().copied().unwrap_or_default();
        found.push(round(sofar, spin)?);
    }
    let median = |part: fn(&Calibration) -> Nanos| {
        let mut parts: Vec<Nanos> = found.iter().map(part).collect();
        parts.sort_unstable();
        parts.get(ROUNDS / 2).copied().unwrap_or_default().min(MAX_COST)
    };
    Ok(Calibration { transport: median(|round| round.transport), overshoot: median(|round| round.overshoot) })
}

/// One round that gives answers early by what `sofar` says; medians.
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
    let mut served = EventLoop::new(front_end, Engine::new(device, sofar), spin)?;
    let stop = Stop::new().map_err(failed)?;
    let stopper = stop.try_clone().map_err(failed)?;
    let reader = thread::spawn(move || {
        let times = match started.recv_timeout(START_TIME) {
            Ok(()) => read_many(&path),
            Err(error) => Err(io::Error::other(error)),
        };
        stopper.ask();
        times
    });
    let ran = served.run(&stop);
    let in_server = served.engine.latencies().in_server_median();
    // A loop that failed answers nobody: its end fails the disk, and the reader.
    drop(served);
    let times = reader.join().map_err(|_| failed(io::Error::other("the reader panicked")))?;
    ran?;
    let mut times = times.map_err(failed)?;
    times.sort_unstable();
    let round_trip = times.get(times.len() / 2).copied().unwrap_or_default();
    Ok(Calibration {
        transport: round_trip.since(in_server),
        overshoot: (in_server + sofar.lead()).since(PROBE_LATENCY),
    })
}

fn failed(source: io::Error) -> UblkError {
    UblkError::Calibration { source }
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
