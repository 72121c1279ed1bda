//! What tracing costs a program: the time of a cached 4 KiB read without and with each source.
//!
//! ```text
//! cargo run --release -p plumb-defrag --example trace_cost -- /path/on/the/disk
//! ```
//!
//! A process of its own reads one file of 4 MiB, in the page cache, again and again in random
//! order; the sources are taken in turns, five times, and the medians (of the rounds, each the
//! median of batches of 200 reads) printed. Once only that
//! file is traced, once another one (what everybody else on the machine pays).

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use defrag::access::{Filters, Recording, SourceKind};

const FILE_BYTES: u64 = 4 << 20;
const READ_BYTES: u64 = 4096;
const READS: u32 = 400_000;
/// Each of fanotify's takes many times as long.
const FEW_READS: u32 = 40_000;
const ROUNDS: usize = 5;
const BATCH: u32 = 200;
const READER: &str = "--reader";

type Failure = Box<dyn std::error::Error>;
/// By which source which file is traced, if any is.
type Case<'a> = Option<(SourceKind, &'a Path)>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, path, reads] = &arguments[..]
        && flag == READER
    {
        println!("{}", nanoseconds(Path::new(path), reads.parse()?)?);
        return Ok(());
    }
    let folder = arguments.get(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let (read, other) = (folder.join("trace_cost.read"), folder.join("trace_cost.other"));
    for path in [&read, &other] {
        let mut file = File::create(path)?;
        file.write_all(&vec![7; FILE_BYTES as usize])?;
        file.sync_all()?;
    }
    let measured = measure(&read, &other);
    for path in [&read, &other] {
        fs::remove_file(path)?;
    }
    measured
}

fn measure(read: &Path, other: &Path) -> Result<(), Failure> {
    let mut cases: Vec<(Case<'_>, Vec<f64>)> = vec![(None, Vec::new())];
    for source in SourceKind::ALL {
        cases.push((Some((source, read)), Vec::new()));
        cases.push((Some((source, other)), Vec::new()));
    }
    for _ in 0..ROUNDS {
        for (case, times) in &mut cases {
            times.push(one(read, *case)?);
        }
    }
    println!("{:<10} {:<14} {:>12} {:>12}", "source", "traced", "ns a read", "more");
    let mut base = 0.0;
    for (case, times) in &mut cases {
        times.sort_by(f64::total_cmp);
        let median = times.get(ROUNDS / 2).copied().unwrap_or(f64::NAN);
        let (source, traced) = match case {
            None => ("none", ""),
            Some((source, path)) if *path == read => (source.name(), "the file"),
            Some((source, _)) => (source.name(), "another file"),
        };
        if case.is_none() {
            base = median;
        }
        println!("{source:<10} {traced:<14} {median:>12.0} {:>12.0}", median - base);
    }
    Ok(())
}

/// Nanoseconds of a read in a process of its own, while `case` is traced.
fn one(read: &Path, case: Case<'_>) -> Result<f64, Failure> {
    let reads = if matches!(case, Some((SourceKind::Fanotify, _))) { FEW_READS } else { READS };
    let Some((source, traced)) = case else { return finished(reader(read, reads)?) };
    let mut recording = Recording::start(Some(source), &Filters { paths: vec![traced.into()], ..Filters::default() })?;
    let mut child = reader(read, reads)?;
    while child.try_wait()?.is_none() {
        recording.poll()?;
        std::thread::sleep(Duration::from_millis(20));
    }
    let trace = recording.finish()?;
    let expected = if traced == read { u64::from(reads) } else { 0 };
    let events = trace.events() + trace.lost;
    if events < expected {
        return Err(format!("{source}: {events} of {expected} reads were traced").into());
    }
    finished(child)
}

fn reader(read: &Path, reads: u32) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(READER).arg(read).arg(reads.to_string()).stdout(Stdio::piped()).spawn()
}

fn finished(child: Child) -> Result<f64, Failure> {
    let output = child.wait_with_output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

fn nanoseconds(path: &Path, reads: u32) -> io::Result<f64> {
    let file = File::open(path)?;
    let mut memory = vec![0; READ_BYTES as usize];
    let pages = FILE_BYTES / READ_BYTES;
    let mut page = 1_u64;
    // Of short batches, other load disturbs few: their median is not disturbed.
    let mut batches = Vec::new();
    let mut begin = Instant::now();
    for read in 1..=reads {
        // A generator modulo 2^64 (Knuth's MMIX): its upper bits are random enough.
        page = page.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        file.read_exact_at(&mut memory, (page >> 40) % pages * READ_BYTES)?;
        if read % BATCH == 0 {
            batches.push(begin.elapsed().as_nanos() as f64 / f64::from(BATCH));
            begin = Instant::now();
        }
    }
    batches.sort_by(f64::total_cmp);
    batches.get(batches.len() / 2).copied().ok_or_else(|| io::Error::other("too few reads"))
}
