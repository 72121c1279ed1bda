//! What another program waits for its reads while a file is moved: printed, since a time asserted would be one of the machine.
//! What is asserted is that it reads what is there.
//!
//! A quick run has one short round of each; `PLUMB_LONG=1 cargo test --release -p plumb-defrag --test foreground -- --nocapture`
//! prints the tables of docs/defrag.md.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs::OpenOptions;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use disk::{Dice, Disk, System};
use plumb_defrag::extents::WriteBack;
use plumb_defrag::plan::Mode;
use plumb_defrag::run::{Cancel, Limits, RunOptions, carry_out};
use plumb_defrag::scan::{ScanOptions, Scanner};

const MIB: u64 = 1 << 20;
/// Of the file that is moved.
const PIECE: u64 = 8 << 10;
/// Of the file that is read.
const READ_FILE: u64 = 64 * MIB;
const READ: usize = 4096;
const RATE: u64 = 8 * MIB;
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
            Self::Rate => "run --rate 8MiB",
            Self::RateIdle => "run --rate 8MiB --io-class idle",
        }
    }

    fn limits(self) -> Limits {
        let rate_bytes_per_s = matches!(self, Self::Rate | Self::RateIdle).then_some(RATE);
        Limits { rate_bytes_per_s, idle: self == Self::RateIdle, ..Limits::default() }
    }
}

/// One phase: how long reads took, and how fast data was moved.
struct Phase {
    reads_per_s: f64,
    median_us: f64,
    p99_us: f64,
    moved_mib_per_s: f64,
}

/// Random reads past the page cache, one after the other, until it is over; nanoseconds of each.
fn read(path: &Path, content: &[u8], seed: u64, over: &AtomicBool) -> Vec<u64> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
    let mut buffer = vec![0; 2 * READ];
    let skew = buffer.as_ptr().align_offset(READ);
    let memory = &mut buffer[skew..skew + READ];
    let (mut dice, mut took) = (Dice(seed), Vec::new());
    while !over.load(Ordering::Relaxed) && took.len() < MOST_READS {
        let at = dice.below(content.len() as u64 / READ as u64) as usize * READ;
        let begun = Instant::now();
        file.read_exact_at(memory, at as u64).unwrap();
        took.push(begun.elapsed().as_nanos() as u64);
        assert!(memory == &content[at..at + READ], "what is at {at} is not what was written");
    }
    took
}

/// Moves all of a file that lies in pieces, or waits as long as that takes at the rate; MiB a second.
fn mend(path: &Path, beside: Beside, bytes: u64) -> f64 {
    if beside == Beside::Nothing {
        thread::sleep(Duration::from_secs_f64(bytes as f64 / RATE as f64));
        return 0.0;
    }
    let mut scanner =
        Scanner::new(ScanOptions { mode: Mode::Bypass, write_back: WriteBack::First, ..ScanOptions::default() });
    assert!(scanner.walk(path, &mut |_, _| ControlFlow::Continue(())).unwrap().is_continue());
    let plan = scanner.finish(None);
    let options = RunOptions { limits: beside.limits(), ..RunOptions::default() };
    let report = carry_out(&plan.files, &options, None, &Cancel::default(), &mut |_| ()).unwrap();
    // What of it the file system placed well by itself is not moved.
    assert!(report.is_complete() && report.ranges_moved() == plan.totals.moves && plan.totals.moves > 0, "{report}");
    assert!(report.written_bytes() > 0, "{report}");
    report.written_bytes() as f64 / MIB as f64 / report.seconds
}

fn phase(disk: &Disk, beside: Beside, number: u64, bytes: u64, content: &[u8]) -> Phase {
    let path = disk.fragmented(&format!("file-{number}"), number, bytes, PIECE);
    rustix::fs::syncfs(std::fs::File::open(disk.place()).unwrap()).unwrap();
    let (over, begun) = (AtomicBool::new(false), Instant::now());
    let (mut took, moved_mib_per_s) = thread::scope(|scope| {
        let reader = scope.spawn(|| read(&disk.path("read"), content, number, &over));
        let moved = mend(&path, beside, bytes);
        over.store(true, Ordering::Relaxed);
        (reader.join().unwrap(), moved)
    });
    let seconds = begun.elapsed().as_secs_f64();
    assert!(!took.is_empty());
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    std::fs::remove_file(&path).unwrap();
    let _ = std::fs::remove_file(disk::beside(&path, 0));
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
    std::fs::write(disk.path("read"), &content).unwrap();
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
