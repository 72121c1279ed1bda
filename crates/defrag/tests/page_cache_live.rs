//! What of a file is in memory is there after a move, too, and what is not is not; and what was said of the move holds.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use defrag::access::TraceError;
use defrag::extents::WriteBack;
use defrag::plan::{Mode, Plan};
use defrag::run::{Cancel, FileOutcome, Limits, RunOptions, carry_out};
use defrag::scan::{ScanOptions, Scanner};
use defrag::verify::{Replay, VerifyError, replay};
use defrag::{ByteRange, KeepFree};
use disk::{Disk, System, filefrag, seen, skipped};
use rustix::fs::Advice;

const MIB: u64 = 1 << 20;
const LENGTH: u64 = 12 * MIB;
const PIECE: u64 = 16 << 10;
const PAGE: u64 = 4096;
/// Longest that the kernel may take to read what it is asked for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether each page of a file is in memory and read, as mincore(2) tells it.
fn pages(path: &Path) -> Vec<bool> {
    let file = File::open(path).unwrap();
    let length = file.metadata().unwrap().len() as usize;
    let mut pages = vec![0_u8; length.div_ceil(PAGE as usize)];
    // SAFETY: the mapping is of `length` bytes and is not accessed; `pages` has a byte for each page of it.
    unsafe {
        let map = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(map, libc::MAP_FAILED);
        assert_eq!(libc::mincore(map, length, pages.as_mut_ptr()), 0);
        assert_eq!(libc::munmap(map, length), 0);
    }
    pages.iter().map(|page| page & 1 == 1).collect()
}

/// Leaves `ranges` of a file in memory and nothing else of it.
fn keep_in_memory(path: &Path, ranges: &[ByteRange]) {
    let file = File::open(path).unwrap();
    rustix::fs::fadvise(&file, 0, None, Advice::Random).unwrap();
    // Pages that other processors were just given stay for some moments.
    let begun = Instant::now();
    while pages(path).iter().any(|page| *page) && begun.elapsed() < PATIENCE {
        rustix::fs::syncfs(&file).unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    }
    for range in ranges {
        file.read_exact_at(&mut vec![0; range.len() as usize], range.start).unwrap();
    }
    assert_eq!(pages(path), wanted(ranges));
}

fn wanted(ranges: &[ByteRange]) -> Vec<bool> {
    let is_in = |at: u64| ranges.iter().any(|range| range.start <= at && at < range.end);
    (0..LENGTH).step_by(PAGE as usize).map(is_in).collect()
}

/// Waits until `ranges` of a file are in memory and nothing else of it is.
fn wait_for(path: &Path, ranges: &[ByteRange]) {
    let begun = Instant::now();
    while pages(path) != wanted(ranges) && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
    let found = pages(path);
    let wrong: Vec<_> =
        (0..).zip(found.iter().zip(wanted(ranges))).filter(|(_, (found, wanted))| *found != wanted).collect();
    let number = wrong.len();
    assert!(wrong.is_empty(), "{number} pages of {} are otherwise, from {:?} on", found.len(), wrong.first());
}

fn planned(path: &Path) -> Plan {
    let options = ScanOptions { mode: Mode::Whole, write_back: WriteBack::First, ..ScanOptions::default() };
    let mut scanner = Scanner::new(options);
    let _ = scanner.walk(path, &mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
    scanner.finish(None)
}

/// Prints why a test does nothing, and says whether it does nothing.
fn unable(system: System) -> bool {
    // SAFETY: the call does nothing but fail without a file.
    let done = unsafe { libc::syscall(451, -1, std::ptr::null::<u64>(), std::ptr::null::<u64>(), 0) };
    let unknown = done < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS);
    if unknown {
        println!("skipped: this kernel does not tell what is in memory (cachestat, Linux 6.5)");
    }
    unknown || skipped(system)
}

fn stays_in_memory(system: System) {
    if unable(system) {
        return;
    }
    let mut disk = Disk::in_memory(system);
    let path = disk.fragmented("file", 9, LENGTH, PIECE);
    let before = seen(&path);
    // More than a slice, a part of one, and all up to the end; and a page for itself, which is not worth a request.
    let in_memory = [(0, 5 * MIB), (7 * MIB, 8 * MIB), (LENGTH - MIB / 2, LENGTH)];
    let in_memory = in_memory.map(|(start, end)| ByteRange { start, end });
    let alone = ByteRange { start: 9 * MIB, end: 9 * MIB + PAGE };
    keep_in_memory(&path, &[&in_memory[..], &[alone]].concat());

    let plan = planned(&path);
    let options = RunOptions { keep_free: KeepFree::Bytes(0), ..RunOptions::default() };
    let given = disk.written_bytes();
    let report = carry_out(&plan.files, &options, None, &Cancel::default(), &mut |_| ()).unwrap();
    let given = disk.written_bytes() - given;
    println!("{system:?}: {given} bytes given to the device; {report}");
    wait_for(&path, &in_memory);

    // As the plan has it.
    assert_eq!(report.files[0].outcome, FileOutcome::Done);
    assert_eq!((report.written_bytes(), report.ranges_moved()), (plan.totals.bytes_to_move, plan.totals.moves));
    assert_eq!(report.requests().1, plan.totals.requests_after);
    assert!(given <= LENGTH * 11 / 10 + 4 * MIB, "{given}");
    assert_eq!(filefrag(&path), 1);
    let whole = [Replay { path: path.clone(), ranges: vec![ByteRange { start: 0, end: LENGTH }] }];
    match replay(&whole, &mut |_| true) {
        Err(VerifyError::Trace(why @ TraceError::Unavailable { .. })) => println!("requests are not counted: {why}"),
        verified => {
            let verified = verified.unwrap();
            assert!(verified.is_as_predicted(), "{verified}");
        }
    }
    assert_eq!(planned(&path).totals.moves, 0);
    assert_eq!(seen(&path), before);
    disk.check();
}

/// Where the requests of a device can be listened to, for a time.
struct Requests(PathBuf);

impl Requests {
    fn of(disk: &Disk) -> Option<Self> {
        let folder = PathBuf::from(format!("/sys/kernel/tracing/instances/page-cache-{}", std::process::id()));
        let event = folder.join("events/block/block_rq_issue");
        fs::create_dir(&folder).ok()?;
        let made = Self(folder);
        let device = fs::metadata(disk.device()).unwrap().rdev();
        // As the kernel has it in its events.
        let device = u64::from(rustix::fs::major(device)) << 20 | u64::from(rustix::fs::minor(device));
        let tells_class = fs::read_to_string(event.join("format")).ok()?.contains("ioprio");
        fs::write(event.join("filter"), format!("dev == {device}")).ok()?;
        fs::write(event.join("enable"), "1").ok()?;
        tells_class.then_some(made)
    }

    /// What is read of files, as (bytes, I/O class).
    fn reads(&self) -> Vec<(u64, String)> {
        let text = fs::read_to_string(self.0.join("trace")).unwrap();
        let fields = |line: &str| {
            let mut fields = line.split_once("block_rq_issue: ")?.1.split(' ');
            let (kind, bytes) = (fields.nth(1)?, fields.next()?.parse().ok()?);
            let class = fields.find_map(|field| field.strip_suffix(",4").or(field.strip_suffix(",0")))?;
            let class = class.split(',').next()?.to_owned();
            (kind.starts_with('R') && !kind.contains('M')).then_some((bytes, class))
        };
        text.lines().filter_map(fields).collect()
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("events/enable"), "0");
        let _ = fs::remove_dir(&self.0);
    }
}

/// Somebody who wants a page that is being read waits for that request, which must not be one that waits for everybody else's.
#[test]
fn a_run_in_the_class_idle_reads_again_in_the_usual_one() {
    if unable(System::Xfs) {
        return;
    }
    let mut disk = Disk::in_memory(System::Xfs);
    let path = disk.fragmented("file", 9, LENGTH, PIECE);
    let whole = ByteRange { start: 0, end: LENGTH };
    keep_in_memory(&path, &[whole]);
    let plan = planned(&path);
    let Some(requests) = Requests::of(&disk) else {
        return println!("skipped: this kernel does not tell the class of a request (tracefs, Linux 6.11)");
    };
    let options = RunOptions {
        limits: Limits { idle: true, ..Limits::default() },
        keep_free: KeepFree::Bytes(0),
        ..RunOptions::default()
    };
    let report = carry_out(&plan.files, &options, None, &Cancel::default(), &mut |_| ()).unwrap();
    assert_eq!(report.written_bytes(), LENGTH, "{report}");
    wait_for(&path, &[whole]);
    let reads = requests.reads();
    drop(requests);
    assert_eq!(reads.iter().map(|(bytes, _)| bytes).sum::<u64>(), LENGTH, "each byte is read once: {reads:?}");
    assert!(reads.iter().all(|(_, class)| class == "be"), "{reads:?}");
    disk.check();
}

#[test]
fn xfs_keeps_what_is_in_memory() {
    stays_in_memory(System::Xfs);
}

#[test]
fn xfs_that_exchanges_keeps_what_is_in_memory() {
    stays_in_memory(System::XfsExchange);
}
