//! What the way through FUSE and loop costs, measured at start on this machine.
//!
//! A loop device of its own, with a device of known latency behind it, is read
//! directly at queue depth one; what the reader sees beyond that latency is the
//! cost. The same loop device shows whether a flush holds everything else up.
//! It is not the one that clients get, since whoever looks at a new disk (udev)
//! would keep the probe's bytes in the page cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ssd::Device;
use units::Nanos;

use super::error::LoopError;
use super::front_end::{LoopFrontEnd, Notes};
use super::loop_device::LoopNumber;
use super::probe_device::ProbeDevice;
use crate::calibration::{Calibration, MAX_COST};
use crate::engine::Engine;
use crate::error::ServeError;
use crate::event_loop::EventLoop;
use crate::stop::Stop;

/// The device that is measured with: a flash read. A process that sleeps longer
/// wakes up into colder caches and a deeper idle state.
const PROBE_LATENCY: Nanos = Nanos::from_micros(80);
/// Requests of one round; with the probe's latency and the cost, about 40 ms.
const PROBE_REQUESTS: usize = 300;
const PROBE_BYTES: usize = 4096;
/// The median round counts, so that another program on the same CPUs may spoil
/// two of them. Each round gives answers early by what the one before it found.
const ROUNDS: usize = 5;

/// A flush long enough to be told from a scheduler's delay.
const FLUSH_LATENCY: Nanos = Nanos::from_millis(20);
/// Flushes that a read is sent behind; the shortest wait counts.
const FLUSHES: usize = 3;

/// What was found.
pub(crate) struct Measured {
    pub(crate) calibration: Calibration,
    /// How long a read that came behind a flush of [`FLUSH_LATENCY`] waited, where
    /// it waited for the flush.
    pub(crate) flush_stall: Option<Nanos>,
}

/// How long the loop device may take to appear.
const ATTACH_TIME: Duration = Duration::from_secs(10);

/// Measures on a loop device with blocks of `lba_bytes`.
pub(crate) fn measure(lba_bytes: u32, spin: Nanos, label: &str, io_uring: bool) -> Result<Measured, ServeError> {
    let (sender, numbers) = channel();
    let notes = ProbeNotes { sender };
    let mut number = None;
    let measured = rounds(&notes, numbers, lba_bytes, spin, label, io_uring, &mut number);
    // By now nobody serves it: whoever reads it gets an error, and nobody waits.
    if let Some(number) = number {
        number.detach().map_err(|source| LoopError::Detach { path: number.path(), source })?;
    }
    measured
}

/// Tells the reader which device it is; the device stays from round to round.
struct ProbeNotes {
    sender: Sender<LoopNumber>,
}

impl Notes for ProbeNotes {
    fn ready(&self, device: LoopNumber, _through_ring: bool) {
        // A reader that is gone has failed, which its round reports.
        let _ = self.sender.send(device);
    }

    fn line(&self, _line: &str) {}

    fn stays(&self) -> bool {
        true
    }
}

fn rounds(
    notes: &ProbeNotes,
    mut numbers: Receiver<LoopNumber>,
    lba_bytes: u32,
    spin: Nanos,
    label: &str,
    io_uring: bool,
    number: &mut Option<LoopNumber>,
) -> Result<Measured, ServeError> {
    let device = || Box::new(ProbeDevice::new(lba_bytes, PROBE_LATENCY, FLUSH_LATENCY));
    let mut front_end =
        LoopFrontEnd::new(device().identity(), "calibration", false, label.to_owned(), io_uring, notes)?;
    let mut found: Vec<Calibration> = Vec::with_capacity(ROUNDS);
    loop {
        let sofar = found.last().copied().unwrap_or_default();
        let mut served = EventLoop::new(front_end, Engine::new(device(), sofar), spin)?;
        let stop = Stop::new().map_err(failed)?;
        let stopper = stop.try_clone().map_err(failed)?;
        let reads = if found.len() < ROUNDS { read_many } else { read_behind_flushes };
        let reader = thread::spawn(move || {
            let device = numbers.recv_timeout(ATTACH_TIME).map_err(io::Error::other);
            let times = device.and_then(reads);
            stopper.ask();
            (numbers, times)
        });
        let ran = served.run(&stop);
        *number = served.front_end.number().or(*number);
        let in_server = served.engine.latencies().in_server_median();
        // A loop that failed answers nobody: its end lets the reader go.
        let after = ran.map(|()| served.front_end);
        let (channel, times) = reader.join().map_err(|_| failed(io::Error::other("the reader panicked")))?;
        front_end = after?;
        numbers = channel;
        let mut times = times.map_err(failed)?;
        times.sort_unstable();
        if found.len() < ROUNDS {
            let round_trip = usual_mean(&times);
            let transport = round_trip.since(in_server);
            found.push(Calibration { transport, overshoot: (in_server + sofar.lead()).since(PROBE_LATENCY) });
            continue;
        }
        let flush_stall = times.first().copied().filter(|shortest| shortest.0 > FLUSH_LATENCY.0 / 2);
        let median = |part: fn(&Calibration) -> Nanos| {
            let mut parts: Vec<Nanos> = found.iter().map(part).collect();
            parts.sort_unstable();
            parts.get(ROUNDS / 2).copied().unwrap_or_default().min(MAX_COST)
        };
        let calibration =
            Calibration { transport: median(|round| round.transport), overshoot: median(|round| round.overshoot) };
        return Ok(Measured { calibration, flush_stall });
    }
}

/// Mean of sorted times without the slowest hundredth. The mean is what a client at
/// queue depth one sees as throughput; a descheduled CPU's milliseconds would spoil it.
fn usual_mean(sorted: &[Nanos]) -> Nanos {
    let usual = &sorted[..sorted.len() - sorted.len() / 100];
    let sum: u64 = usual.iter().map(|time| time.0).sum();
    Nanos(sum / usual.len().max(1) as u64)
}

fn failed(source: io::Error) -> LoopError {
    LoopError::Calibration { source }
}

/// A buffer as direct I/O wants it.
struct Page {
    bytes: Vec<u8>,
    start: usize,
}

impl Page {
    fn new() -> Self {
        let bytes = vec![0; 2 * PROBE_BYTES];
        let start = bytes.as_ptr().align_offset(PROBE_BYTES).min(PROBE_BYTES);
        Self { bytes, start }
    }

    fn read(&mut self, file: &File) -> io::Result<Nanos> {
        let room = self.bytes.get_mut(self.start..self.start + PROBE_BYTES).unwrap_or_default();
        let sent = Instant::now();
        file.read_exact_at(room, 0)?;
        Ok(Nanos(sent.elapsed().as_nanos() as u64))
    }
}

fn open(number: LoopNumber) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(number.path())
}

/// Round-trip times at queue depth one.
fn read_many(number: LoopNumber) -> io::Result<Vec<Nanos>> {
    let (file, mut page) = (open(number)?, Page::new());
    (0..PROBE_REQUESTS).map(|_| page.read(&file)).collect()
}

/// How long reads wait that come a quarter of a flush's time behind a flush.
fn read_behind_flushes(number: LoopNumber) -> io::Result<Vec<Nanos>> {
    let (file, mut page) = (open(number)?, Page::new());
    let mut times = Vec::with_capacity(FLUSHES);
    for _ in 0..FLUSHES {
        let flushed = file.try_clone()?;
        let flusher = thread::spawn(move || flushed.sync_all());
        thread::sleep(Duration::from_nanos(FLUSH_LATENCY.0 / 4));
        times.push(page.read(&file)?);
        flusher.join().map_err(|_| io::Error::other("the flushing thread panicked"))??;
    }
    Ok(times)
}
