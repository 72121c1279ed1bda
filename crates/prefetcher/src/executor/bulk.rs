//! Whole files and mappings, loaded chunk after chunk beside the program.

use std::collections::VecDeque;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use prefetch::Range;

use super::open::{self, Opened};
use super::{Common, Next, next};
use crate::policies::{PAGE_BYTES, Plan};
use crate::shared::{Kind, Request};

/// Loaded of a mapping before the program has touched anything.
const FIRST_BYTES: u64 = 64 << 20;

/// Bytes that are loaded for each that the program has mapped in by touching them since.
const AHEAD_OF_TOUCHED: u64 = 8;

/// A pass over this much says how fast the device is.
const MEASURED_BYTES: u64 = 16 << 20;

/// Read at a time, where the kernel is to read ahead.
const SCRATCH_BYTES: u64 = 1 << 20;

/// Small reads that are measured.
const SAMPLES: u64 = 9;

/// What is on its way at most, and for how long readers may wait behind it: large requests one at a time keep no fast device busy.
const MOST_UNDER_WAY: u64 = 8 << 20;
const UNDER_WAY: Duration = Duration::from_millis(1);

/// How long a program that touches nothing is waited for, at first: what it takes to read as much as was loaded ahead. Each further
/// wait is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_millis(32);

/// Waits in a row after which it is left alone: some five seconds.
const MOST_WAITS: u32 = 160;

/// What is to be loaded.
pub struct Job {
    /// The file.
    pub opened: Opened,
    /// The range, and who asked.
    pub request: Request,
    /// Its place in the table.
    pub index: usize,
    /// Bytes that one call loads at most.
    pub clamp_bytes: u64,
    /// What the kernel reads ahead comes in large folios.
    pub large_folios: bool,
}

/// Regions of files that are read at random, between two looks at how long a small read takes.
const REGIONS_MEASURED: u32 = 64;

/// What is being measured of the device.
#[derive(Default)]
struct Measured {
    bytes: u64,
    elapsed: Duration,
    regions: u32,
    /// The last chunk of the job before, whose end nobody has waited for: one job is at the device while the next is begun.
    under_way: Option<(OwnedFd, u64)>,
}

/// Does jobs until it is told to stop.
pub fn run(common: &Common, jobs: &Receiver<Job>) {
    let mut measured = Measured::default();
    loop {
        match next(jobs, &common.stop) {
            Next::Job(job) => load(common, &job, &mut measured),
            // No file stays open.
            Next::None => measured.under_way = None,
            Next::End => return,
        }
    }
}

/// A job that is not done: reads at random may ask again.
pub fn refuse(common: &Common, job: &Request, index: usize) {
    common.table.header.done.refused.fetch_add(1, Ordering::Relaxed);
    let file = common.table.file(index);
    if job.kind == Kind::Pass as u32
        && let Some(mut guard) = file.try_lock()
    {
        guard.bulk.dropped(&job.plan, file.file_bytes.load(Ordering::Relaxed));
    }
}

/// Loads as much of a job as there is memory for, and as the program seems to want.
fn load(common: &Common, job: &Job, measured: &mut Measured) {
    let counts = &common.table.header.done;
    let plan = open::within(job.request.plan, job.opened.bytes);
    let file = &job.opened.file;
    let Some(range) = plan.ranges().next() else { return };
    let wanted = range.bytes();
    let known = common.residency.resident_pages(file.as_fd(), range);
    let resident = known.unwrap_or(0).saturating_mul(PAGE_BYTES).min(wanted);
    if resident * 10 >= wanted * 9 {
        counts.resident_bytes.fetch_add(resident, Ordering::Relaxed);
        return;
    }
    // All of it or nothing: of what does not fit, the first part would be gone before the last is read.
    let is_mapping = job.request.kind == Kind::Map as u32;
    if wanted - resident > common.memory.free_bytes() || !is_mapping && !common.admits(job.index) {
        refuse(common, &job.request, job.index);
        return;
    }
    counts.bulk.fetch_add(1, Ordering::Relaxed);
    let (dev, ino) = common.table.file(job.index).identity();
    common.with_loaded(|loaded, budget_bytes| loaded.make_room(wanted - resident, budget_bytes, counts));
    let mut touched = Touched::of(job.request.process);
    if job.request.kind == Kind::Pass as u32 {
        if measured.regions.is_multiple_of(REGIONS_MEASURED) {
            measure_latency(common, file, range);
        }
        measured.regions += 1;
    }
    let begun = Instant::now();
    let mut under_way = UnderWay::default();
    let mut loaded = 0;
    for chunk in plan.chunks(job.clamp_bytes) {
        // A mapping may be of a file of which little is looked at.
        if is_mapping && !touched.has_come(common, loaded) {
            return;
        }
        if common.stop.load(Ordering::SeqCst) || common.memory.free_bytes() < chunk.bytes() {
            return;
        }
        // Readers at random wait behind what is on its way, and gain by what they find.
        let most = if job.request.kind == Kind::Pass as u32 { gained(common, job) } else { u64::MAX };
        while let Some(oldest) = under_way.beyond(chunk.bytes(), loaded, begun.elapsed(), most) {
            read_page(file, oldest.end_bytes.saturating_sub(PAGE_BYTES));
        }
        // Regions are small, and their readers are elsewhere by then.
        let is_read = job.large_folios && job.request.kind != Kind::Pass as u32;
        if !is_read {
            under_way.add(chunk);
        }
        if common.residency.is_resident(file.as_fd(), chunk) != Some(true) {
            let asked = if is_read {
                read_through(common, file, chunk)
            } else {
                common.residency.load(file.as_fd(), chunk).ok()
            };
            let Some(asked) = asked else { return };
            counts.loaded_bytes.fetch_add(asked, Ordering::Relaxed);
            let chunk = Plan::contiguous(chunk.start_bytes, chunk.end_bytes);
            common.note_load((dev, ino), &chunk);
            common.with_loaded(|loaded, _| loaded.load(&job.request, dev, ino, &chunk));
        }
        loaded += chunk.bytes();
    }
    if is_mapping || resident > 0 {
        return;
    }
    let last = under_way.last().and_then(|last| Some((file.try_clone().ok()?, last.end_bytes)));
    if let Some((file, end_bytes)) = std::mem::replace(&mut measured.under_way, last) {
        read_page(&file, end_bytes.saturating_sub(PAGE_BYTES));
    }
    measured.bytes += loaded;
    measured.elapsed += begun.elapsed();
    // Less says more of the processor than of the device.
    if measured.bytes >= MEASURED_BYTES && !measured.elapsed.is_zero() {
        let bandwidth = u128::from(measured.bytes) * 1_000_000_000 / measured.elapsed.as_nanos();
        common.table.header.bandwidth_bytes_per_second.store(bandwidth as u64, Ordering::Relaxed);
        common.table.header.is_measured.store((measured.regions > 0).into(), Ordering::Release);
        (measured.bytes, measured.elapsed) = (0, Duration::ZERO);
    }
}

/// Bytes of a file's regions that may be on their way at once.
fn gained(common: &Common, job: &Job) -> u64 {
    let file = common.table.file(job.index);
    let bytes = file.file_bytes.load(Ordering::Relaxed);
    file.try_lock().map_or(job.clamp_bytes, |guard| guard.bulk.under_way_bytes(job.clamp_bytes, bytes))
}

/// Chunks that were asked for and nobody has waited for.
#[derive(Default)]
struct UnderWay {
    chunks: VecDeque<Range>,
    bytes: u64,
}

impl UnderWay {
    fn add(&mut self, chunk: Range) {
        self.bytes += chunk.bytes();
        self.chunks.push_back(chunk);
    }

    fn last(&self) -> Option<Range> {
        self.chunks.back().copied()
    }

    /// The oldest chunk, which is to be waited for before `next_bytes` more are asked for: beyond two, what the device takes a
    /// millisecond for, as far as `loaded_bytes` in so long a time have shown, and `most_bytes` at most.
    fn beyond(&mut self, next_bytes: u64, loaded_bytes: u64, elapsed: Duration, most_bytes: u64) -> Option<Range> {
        let rate = u128::from(loaded_bytes) * UNDER_WAY.as_nanos() / elapsed.as_nanos().max(1);
        let most = u64::try_from(rate).unwrap_or(u64::MAX).min(MOST_UNDER_WAY).min(most_bytes);
        if self.chunks.len() < 2 || self.bytes.saturating_add(next_bytes) <= most {
            return None;
        }
        let oldest = self.chunks.pop_front()?;
        self.bytes -= oldest.bytes();
        Some(oldest)
    }
}

/// Measures what a small read that is not in memory takes: the middle one of several.
fn measure_latency(common: &Common, file: &OwnedFd, range: Range) {
    let step = range.bytes() / (SAMPLES + 1) / PAGE_BYTES * PAGE_BYTES;
    let mut taken: Vec<u64> = (1..=SAMPLES)
        .map(|sample| range.start_bytes + sample * step)
        .filter(|at| {
            let page = Range { start_bytes: *at, end_bytes: at + PAGE_BYTES };
            common.residency.resident_pages(file.as_fd(), page) == Some(0)
        })
        .map(|at| {
            let begun = Instant::now();
            read_page(file, at);
            begun.elapsed().as_nanos() as u64
        })
        .collect();
    taken.sort_unstable();
    if let Some(middle) = taken.get(taken.len() / 2) {
        common.table.header.latency_ns.store(*middle, Ordering::Relaxed);
    }
}

/// Reads a page, wherever it is by then.
fn read_page(file: &OwnedFd, at: u64) {
    let mut page = [0_u8; PAGE_BYTES as usize];
    // What is in it matters to nobody.
    let _ = rustix::io::pread(file, &mut page, at);
}

/// Has the kernel read a range ahead of reads that nobody looks at: so it comes in large folios, for the price of a copy. None at the end.
fn read_through(common: &Common, file: &OwnedFd, range: Range) -> Option<u64> {
    let mut scratch = vec![0; range.bytes().min(SCRATCH_BYTES) as usize];
    let mut at = range.start_bytes;
    while at < range.end_bytes {
        if common.stop.load(Ordering::SeqCst) {
            return None;
        }
        let length = (range.end_bytes - at).min(SCRATCH_BYTES) as usize;
        match rustix::io::pread(file, &mut scratch[..length], at) {
            Ok(0) => break,
            Ok(count) => at += count as u64,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(at - range.start_bytes)
}

/// What a program has mapped in by touching it, since it was looked at first.
struct Touched {
    process: i32,
    /// What was mapped when it was looked at last; nothing of a program that has ended.
    mapped_bytes: Option<u64>,
    /// All that came since, also where it was taken away again: threads unmap what they have read.
    come_bytes: u64,
}

impl Touched {
    fn of(process: i32) -> Self {
        Self { process, mapped_bytes: mapped_bytes(process), come_bytes: 0 }
    }

    fn look(&mut self, mapped_bytes: Option<u64>) {
        let before = self.mapped_bytes.unwrap_or(0);
        self.come_bytes += mapped_bytes.unwrap_or(0).saturating_sub(before);
        self.mapped_bytes = mapped_bytes;
    }

    /// Waits until so much has come that more than `loaded_bytes` is worth loading; not if that takes long.
    fn has_come(&mut self, common: &Common, loaded_bytes: u64) -> bool {
        let mut wait = FIRST_WAIT;
        for _ in 0..MOST_WAITS {
            self.look(mapped_bytes(self.process));
            if self.mapped_bytes.is_none() {
                return false;
            }
            let wanted = self.come_bytes.saturating_mul(AHEAD_OF_TOUCHED);
            if loaded_bytes <= FIRST_BYTES.saturating_add(wanted) {
                return true;
            }
            if common.stop.load(Ordering::SeqCst) {
                return false;
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        false
    }
}

/// Bytes of files that a process has mapped in now: `shared` of proc_pid_statm(5). None if it has ended.
fn mapped_bytes(process: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    text.split(' ').nth(2)?.parse::<u64>().ok()?.checked_mul(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_device_has_more_on_its_way_than_a_slow_one() {
        let under_way = |bytes_per_ms: u64| {
            let mut under_way = UnderWay::default();
            for chunk in 0..64 {
                let range = Range { start_bytes: chunk << 20, end_bytes: (chunk + 1) << 20 };
                while under_way.beyond(1 << 20, bytes_per_ms * 10, Duration::from_millis(10), u64::MAX).is_some() {}
                under_way.add(range);
            }
            (under_way.chunks.len(), under_way.bytes >> 20)
        };
        assert_eq!([0, 150_000, 5 << 20, 100 << 20].map(under_way), [(2, 2), (2, 2), (5, 5), (8, 8)]);
    }

    #[test]
    fn a_process_that_is_there_has_touched_something() {
        assert!(mapped_bytes(std::process::id() as i32).unwrap() > 0);
        assert_eq!(mapped_bytes(-1), None);
    }

    #[test]
    fn what_was_touched_and_unmapped_has_been_touched() {
        let mut touched = Touched { process: -1, mapped_bytes: Some(100), come_bytes: 0 };
        for mapped_bytes in [150, 20, 90, 90] {
            touched.look(Some(mapped_bytes));
        }
        assert_eq!(touched.come_bytes, 50 + 70);
    }
}
