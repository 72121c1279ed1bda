//! What the way through FUSE and loop costs, measured at start on this machine.
//!
//! A loop device of its own, with a device of known latency behind it, is read
//! directly at queue depth one; what the reader sees beyond that latency is the
//! cost. The same loop device shows whether a flush holds everything else up.
//! It is not the one that clients get, since whoever looks at a new disk (udev)
//! would keep the probe's bytes in the page cache.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ssd::Device;
use units::Nanos;

use super::error::LoopError;
use super::front_end::{LoopFrontEnd, Notes};
use super::loop_device::LoopNumber;
use super::probe_device::ProbeDevice;
use crate::calibration::{Calibration, Probe, Probed, failed, rounds};
use crate::error::ServeError;

/// The device that is measured with: a flash read. A process that sleeps longer
/// wakes up into colder caches and a deeper idle state.
const PROBE_LATENCY: Nanos = Nanos::from_micros(80);
/// Requests of one round; with the probe's latency and the cost, about 40 ms.
const PROBE_REQUESTS: usize = 300;
const PROBE_BYTES: usize = 4096;
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
    let notes = ProbeNotes::default();
    let device = ProbeDevice::new(lba_bytes, PROBE_LATENCY, FLUSH_LATENCY);
    let front_end = LoopFrontEnd::new(device.identity(), "calibration", false, label.to_owned(), io_uring, &notes)?;
    let mut served = Served { front_end: Some(front_end), notes: &notes, number: None, lba_bytes, spin };
    let measured = served.measure();
    // By now nobody serves it: whoever reads it gets an error, and nobody waits.
    if let Some(number) = served.number {
        number.detach(label).map_err(|source| LoopError::Detach { path: number.path(), source })?;
    }
    measured
}

/// Tells a round's reader which device it is; the device stays from round to round.
#[derive(Default)]
struct ProbeNotes {
    reader: RefCell<Option<Sender<LoopNumber>>>,
}

impl Notes for ProbeNotes {
    fn ready(&self, device: LoopNumber, _through_ring: bool) {
        if let Some(reader) = &*self.reader.borrow() {
            // A reader that is gone has failed, which its round reports.
            let _ = reader.send(device);
        }
    }

    fn line(&self, _line: &str) {}

    fn stays(&self) -> bool {
        true
    }
}

/// The loop device that is measured with, from round to round.
struct Served<'a> {
    /// None while a round is under way, and after one that failed.
    front_end: Option<LoopFrontEnd<'a>>,
    notes: &'a ProbeNotes,
    /// The device, once it was attached.
    number: Option<LoopNumber>,
    lba_bytes: u32,
    spin: Nanos,
}

impl Served<'_> {
    fn measure(&mut self) -> Result<Measured, ServeError> {
        let calibration = rounds(|sofar| {
            self.round(sofar, read_many, |probed| probed.cost(usual_mean(&probed.round_trips), PROBE_LATENCY))
        })?;
        let shortest = self.round(calibration, read_behind_flushes, |probed| probed.round_trips.first().copied())?;
        let flush_stall = shortest.filter(|shortest| shortest.0 > FLUSH_LATENCY.0 / 2);
        Ok(Measured { calibration, flush_stall })
    }

    /// Serves while `reads` run, and gives what `result` makes of them.
    fn round<R>(
        &mut self,
        sofar: Calibration,
        reads: fn(LoopNumber) -> io::Result<Vec<Nanos>>,
        result: impl FnOnce(&Probed<LoopFrontEnd<'_>>) -> R,
    ) -> Result<R, ServeError> {
        let front_end = self.front_end.take().ok_or_else(|| failed(io::ErrorKind::NotConnected.into()))?;
        let (sender, number) = channel();
        self.notes.reader.replace(Some(sender));
        let device = Box::new(ProbeDevice::new(self.lba_bytes, PROBE_LATENCY, FLUSH_LATENCY));
        let reader = move || number.recv_timeout(ATTACH_TIME).map_err(io::Error::other).and_then(reads);
        let known = &mut self.number;
        let ended = |front_end: &LoopFrontEnd<'_>| *known = front_end.number().or(*known);
        let probed = Probe { front_end, device, sofar, spin: self.spin }.run(reader, ended)?;
        let result = result(&probed);
        self.front_end = Some(probed.front_end);
        Ok(result)
    }
}

/// Mean of sorted times without the slowest hundredth. The mean is what a client at
/// queue depth one sees as throughput; a descheduled CPU's milliseconds would spoil it.
fn usual_mean(sorted: &[Nanos]) -> Nanos {
    let usual = &sorted[..sorted.len() - sorted.len() / 100];
    let sum: u64 = usual.iter().map(|time| time.0).sum();
    Nanos(sum / usual.len().max(1) as u64)
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
