//! What other programs wait for their reads of another file, and for an open(2) of the file that is moved: printed, since a time
//! asserted would be one of the machine. What is asserted is that they read what is there.
//!
//! A quick run has one short round of each; `PLUMB_LONG=1 cargo test --release -p plumb-defrag --test foreground -- --nocapture`
//! prints the tables of docs/defrag.md.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs::{self, File, OpenOptions};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use defrag::extents::WriteBack;
use defrag::plan::{Mode, Plan};
use defrag::run::{Cancel, Limits, RunOptions, carry_out};
use defrag::scan::{ScanOptions, Scanner};
use disk::scheduler::Scheduler;
use disk::{Dice, Disk, System};

const MIB: u64 = 1 << 20;
/// Of the file that is moved.
const PIECE: u64 = 8 << 10;
/// Of the file that is read.
const READ_FILE: u64 = 64 * MIB;
const READ: usize = 4096;
const RATE: u64 = 8 * MIB;
/// Of the file that others open: some leases.
const OPENED_FILE: u64 = 32 * MIB;
/// Readers beside an opener.
const READERS: u64 = 4;
/// Between two opens, long enough for the lease to be available once more.
const OPEN_EACH: Duration = Duration::from_millis(20);
/// Runs after which a file that others open all the time is moved.
const MOST_RUNS: u32 = 200;
/// Reads kept of a phase, at most.
const MOST_READS: usize = 1 << 20;

/// One file system's times are not to be those of three at once.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn is_long() -> bool {
    std::env::var_os("PLUMB_LONG").is_some()
}

/// What goes on beside the reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beside {
    Nothing,
    FullSpeed,
    Idle,
    Rate,
    RateIdle,
}

impl Beside {
    /// A quick run has none in the idle class: beside a busy reader a disk with mq-deadline lets each of its requests wait
    /// for up to ten seconds (`prio_aging_expire`).
    fn all() -> &'static [Self] {
        const ALL: [Beside; 4] = [Beside::Nothing, Beside::FullSpeed, Beside::Rate, Beside::RateIdle];
        if is_long() { &ALL } else { &ALL[..3] }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::FullSpeed => "run",
            Self::Idle => "run --io-class idle",
            Self::Rate => "run --rate 8MiB",
            Self::RateIdle => "run --rate 8MiB --io-class idle",
        }
    }

    fn limits(self) -> Limits {
        let rate_bytes_per_s = matches!(self, Self::Rate | Self::RateIdle).then_some(RATE);
        Limits { rate_bytes_per_s, idle: matches!(self, Self::Idle | Self::RateIdle), ..Limits::default() }
    }
}

/// One phase: how long reads took, and how fast data was moved.
struct Phase {
    reads_per_s: f64,
    median_us: f64,
    p99_us: f64,
    moved_mib_per_s: f64,
}

/// Random reads past the page cache, one after the other, until it is over; nanoseconds of each. At least one: a run beside
/// other programs may be over before the reader has had a processor.
fn read(path: &Path, content: &[u8], seed: u64, over: &AtomicBool) -> Vec<u64> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
    let mut buffer = vec![0; 2 * READ];
    let skew = buffer.as_ptr().align_offset(READ);
    let memory = &mut buffer[skew..skew + READ];
    let (mut dice, mut took) = (Dice(seed), Vec::new());
    while took.is_empty() || !over.load(Ordering::Relaxed) && took.len() < MOST_READS {
        let at = dice.below(content.len() as u64 / READ as u64) as usize * READ;
        let begun = Instant::now();
        file.read_exact_at(memory, at as u64).unwrap();
        took.push(begun.elapsed().as_nanos() as u64);
        assert!(memory == &content[at..at + READ], "what is at {at} is not what was written");
    }
    took
}

fn planned(path: &Path) -> Plan {
    let mut scanner =
        Scanner::new(ScanOptions { mode: Mode::Bypass, write_back: WriteBack::First, ..ScanOptions::default() });
    assert!(scanner.walk(path, &mut |_, _| ControlFlow::Continue(())).unwrap().is_continue());
    scanner.finish(None)
}

/// Moves all of a file that lies in pieces, or waits as long as that takes at the rate; MiB a second.
fn defragment(path: &Path, beside: Beside, bytes: u64) -> f64 {
    if beside == Beside::Nothing {
        thread::sleep(Duration::from_secs_f64(bytes as f64 / RATE as f64));
        return 0.0;
    }
    let plan = planned(path);
    let options = RunOptions { limits: beside.limits(), ..RunOptions::default() };
    let report = carry_out(&plan.files, &options, None, &Cancel::default(), &mut |_| ()).unwrap();
    // What of it the file system placed well by itself is not moved.
    assert!(report.is_complete() && report.ranges_moved() == plan.totals.moves && plan.totals.moves > 0, "{report}");
    assert!(report.written_bytes() > 0, "{report}");
    report.written_bytes() as f64 / MIB as f64 / report.seconds
}

fn phase(disk: &Disk, beside: Beside, number: u64, bytes: u64, content: &[u8]) -> Phase {
    let path = disk.fragmented(&format!("file-{number}"), number, bytes, PIECE);
    rustix::fs::syncfs(File::open(disk.place()).unwrap()).unwrap();
    let (over, begun) = (AtomicBool::new(false), Instant::now());
    let (mut took, moved_mib_per_s) = thread::scope(|scope| {
        let reader = scope.spawn(|| read(&disk.path("read"), content, number, &over));
        let moved = defragment(&path, beside, bytes);
        over.store(true, Ordering::Relaxed);
        (reader.join().unwrap(), moved)
    });
    let seconds = begun.elapsed().as_secs_f64();
    assert!(!took.is_empty());
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    fs::remove_file(&path).unwrap();
    let _ = fs::remove_file(disk::beside(&path, 0));
    Phase { reads_per_s: took.len() as f64 / seconds, median_us: at(0.5), p99_us: at(0.99), moved_mib_per_s }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn reads_beside(system: System) {
    if disk::skipped(system) {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (rounds, bytes) = if is_long() { (5, 8 * MIB) } else { (1, MIB) };
    let mut disk = Disk::new(system);
    let content = Dice(99).bytes(READ_FILE as usize);
    fs::write(disk.path("read"), &content).unwrap();
    // In turns, so that what else the machine does falls on each alike.
    let mut phases: [Vec<Phase>; 4] = Default::default();
    for round in 0..rounds {
        for (number, (beside, phases)) in (0..).zip(Beside::all().iter().zip(&mut phases)) {
            phases.push(phase(&disk, *beside, round * 4 + number, bytes, &content));
        }
    }
    println!("\n| {}, beside | reads/s | median us | p99 us | p99, ratio | moved, MiB/s |", system.name());
    println!("|---|---:|---:|---:|---:|---:|");
    let [alone, ..] = &phases;
    for (beside, phases) in Beside::all().iter().zip(&phases) {
        let of = |what: fn(&Phase) -> f64| median(phases.iter().map(what));
        println!(
            "| {} | {:.0} | {:.0} | {:.0} | {:.2} | {:.1} |",
            beside.name(),
            of(|phase| phase.reads_per_s),
            of(|phase| phase.median_us),
            of(|phase| phase.p99_us),
            median(phases.iter().zip(alone).map(|(phase, alone)| phase.p99_us / alone.p99_us)),
            of(|phase| phase.moved_mib_per_s),
        );
    }
    disk.check();
}

#[test]
fn reads_beside_a_run_on_ext4() {
    reads_beside(System::Ext4);
}

#[test]
fn reads_beside_a_run_on_xfs() {
    reads_beside(System::Xfs);
}

#[test]
fn reads_beside_a_run_on_btrfs() {
    reads_beside(System::Btrfs);
}

/// Opens of a file that met a lease, and what they waited for it, in ns, until it is over.
fn open_again_and_again(path: &Path, over: &AtomicBool) -> Vec<u64> {
    let mut waited = Vec::new();
    while !over.load(Ordering::Relaxed) && waited.len() < MOST_READS {
        let begun = Instant::now();
        let at_once = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map(drop);
        if let Err(error) = at_once {
            assert_eq!(error.raw_os_error(), Some(libc::EWOULDBLOCK), "{error}");
            drop(File::open(path).unwrap());
            waited.push(begun.elapsed().as_nanos() as u64);
        }
        thread::sleep(OPEN_EACH);
    }
    waited
}

/// Moves a file that another program opens all the time, beside four readers of another one; what the opens waited.
fn opens_in_a_phase(disk: &Disk, beside: Beside, number: u64, bytes: u64, content: &[u8]) -> Vec<u64> {
    let path = disk.fragmented(&format!("opened-{number}"), number, bytes, PIECE);
    rustix::fs::syncfs(File::open(disk.place()).unwrap()).unwrap();
    let over = AtomicBool::new(false);
    let waited = thread::scope(|scope| {
        for reader in 0..READERS {
            let over = &over;
            scope.spawn(move || read(&disk.path("read"), content, number * READERS + reader, over));
        }
        let opener = scope.spawn(|| open_again_and_again(&path, &over));
        let options = RunOptions { limits: beside.limits(), ..RunOptions::default() };
        let mut is_moved = false;
        for _ in 0..MOST_RUNS {
            // A plan leaves out what somebody has open just now, and says so.
            let plan = planned(&path);
            is_moved = plan.files.is_empty() && plan.skipped.iter().all(|skipped| skipped.reason.is_in_order());
            if is_moved {
                break;
            }
            let report = carry_out(&plan.files, &options, None, &Cancel::default(), &mut |_| ()).unwrap();
            assert!(report.error.is_none() && report.stopped.is_none(), "{report}");
        }
        over.store(true, Ordering::Relaxed);
        assert!(is_moved, "{beside:?}: it was not moved");
        opener.join().unwrap()
    });
    assert!(fs::read(&path).unwrap() == Dice(number).bytes(bytes as usize));
    fs::remove_file(&path).unwrap();
    let _ = fs::remove_file(disk::beside(&path, 0));
    waited
}

fn opens_beside(system: System, in_memory: bool) {
    if disk::skipped(system) {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (rounds, bytes) = if is_long() { (5, OPENED_FILE) } else { (1, 4 * MIB) };
    let mut disk = if in_memory { Disk::in_memory(system) } else { Disk::new(system) };
    let scheduler = Scheduler::deadline(disk.device());
    let content = Dice(99).bytes(READ_FILE as usize);
    fs::write(disk.path("read"), &content).unwrap();
    let all = [Beside::FullSpeed, Beside::Rate, Beside::Idle];
    let beside = if is_long() { &all[..] } else { &all[..2] };
    let mut waited: [Vec<u64>; 3] = Default::default();
    for round in 0..rounds {
        for (number, (beside, waited)) in (0..).zip(beside.iter().zip(&mut waited)) {
            // Its requests may wait for ten seconds each.
            let bytes = if *beside == Beside::Idle { bytes / 8 } else { bytes };
            waited.extend(opens_in_a_phase(&disk, *beside, round * 3 + number, bytes, &content));
        }
    }
    let place = if in_memory { "memory" } else { "disk" };
    println!("\n{}, {place}, {}", system.name(), fs::read_to_string(&scheduler.queue).unwrap().trim());
    println!("| opens beside | waited | median ms | p99 ms | most ms |");
    println!("|---|---:|---:|---:|---:|");
    for (beside, waited) in beside.iter().zip(&mut waited) {
        waited.sort_unstable();
        let at = |share: f64| {
            let place = (waited.len().saturating_sub(1) as f64 * share) as usize;
            waited.get(place).map_or(f64::NAN, |ns| *ns as f64 / 1e6)
        };
        println!("| {} | {} | {:.1} | {:.1} | {:.1} |", beside.name(), waited.len(), at(0.5), at(0.99), at(1.0));
    }
    disk.check();
}

#[test]
fn opens_beside_a_run_on_ext4() {
    opens_beside(System::Ext4, true);
    if is_long() {
        opens_beside(System::Ext4, false);
    }
}

#[test]
fn opens_beside_a_run_on_xfs() {
    opens_beside(System::Xfs, true);
    if is_long() {
        opens_beside(System::Xfs, false);
    }
}
