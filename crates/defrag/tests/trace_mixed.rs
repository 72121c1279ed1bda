//! Reads and writes of one file at once, past the page cache and through it, in every way that programs have: the trace has
//! each in its own direction.
#![allow(clippy::unwrap_used)]

mod disk;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use defrag::IoKind;
use defrag::access::{Filters, Recording, SourceKind, Trace, TraceError};
use disk::{Dice, Disk, System};

const SIZE: u64 = 1 << 20;
const BLOCK: u64 = 4096;
const THREADS: u64 = 6;
const PROGRAM: &str = "PLUMB_TEST_MIXED";

/// Direct accesses: kind, start and length in bytes, to how often.
type Accesses = BTreeMap<(IoKind, u64, u64), u64>;

fn traced(trace: &Trace, path: &Path) -> Accesses {
    let metadata = fs::metadata(path).unwrap();
    let mine = trace.accesses.iter().filter(|access| {
        (access.file.device, access.file.inode) == (metadata.dev(), metadata.ino())
            && matches!(access.kind, IoKind::DirectRead | IoKind::DirectWrite)
    });
    mine.map(|access| ((access.kind, access.range.start, access.range.len()), access.count)).collect()
}

fn record(source: SourceKind, filters: &Filters, command: &mut Command) -> Option<Trace> {
    let mut recording = match Recording::start(Some(source), filters) {
        Err(error @ TraceError::Unavailable { .. }) => {
            println!("skipped: {error}");
            return None;
        }
        recording => recording.unwrap(),
    };
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let status = loop {
        recording.poll().unwrap();
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{status}");
    let trace = recording.finish().unwrap();
    assert_eq!(trace.lost, 0);
    Some(trace)
}

/// Lines `kind start length` of what a program did.
fn done(text: &str, is_write: impl Fn(&str) -> Option<bool>) -> Accesses {
    let mut all = Accesses::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[.., kind, start, length] = &words[..] else { continue };
        let Some(is_write) = is_write(kind) else { continue };
        let kind = if is_write { IoKind::DirectWrite } else { IoKind::DirectRead };
        *all.entry((kind, start.parse().unwrap(), length.parse().unwrap())).or_default() += 1;
    }
    all
}

fn directions_are_right(system: System) {
    if disk::skipped(system) {
        return;
    }
    let disk = Disk::in_memory(system);
    let path = disk.fragmented("data", 1, SIZE, 16 << 10);
    let log = disk.image().with_extension("log");
    for source in [SourceKind::Bpf, SourceKind::Tracefs] {
        let what = format!("{source} on {}", system.name());
        let filters = Filters { paths: vec![path.clone()], ..Filters::default() };
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["the_program", "--exact"]).env(PROGRAM, &path).env("PLUMB_TEST_LOG", &log);
        let Some(trace) = record(source, &filters, &mut program) else { continue };
        let expected = done(&fs::read_to_string(&log).unwrap(), |kind| Some(kind == "write"));
        fs::remove_file(&log).unwrap();
        let found = traced(&trace, &path);
        // Counts too, but where the page cache was in a write's way and it went through that in the end.
        let count = |all: &Accesses| all.values().sum::<u64>();
        let mut missing = 0;
        for (key, count) in &found {
            assert!(expected.get(key) >= Some(count), "{what}: {key:?} {count} times, {:?} done", expected.get(key));
        }
        for (key, count) in &expected {
            missing += count - found.get(key).unwrap_or(&0);
        }
        println!("{what}: {} direct accesses, {missing} through the page cache", count(&expected));
        assert!(missing * 10 < count(&expected), "{what}: {missing} of {}", count(&expected));

        if Command::new("fio").arg("--version").output().is_err() {
            println!("skipped: fio is not installed");
            continue;
        }
        for engine in ["io_uring", "libaio", "pvsync2"] {
            let mut fio = Command::new("fio");
            fio.args(["--name=a", "--rw=randrw", "--bsrange=4k-64k", "--bs_unaligned=0", "--direct=1", "--iodepth=8"]);
            fio.args(["--thread", "--numjobs=3", "--size=1m", "--io_size=2m", "--norandommap", "--fallocate=none"]);
            fio.args(["--randrepeat=0", "--overwrite=0", &format!("--ioengine={engine}")]);
            fio.arg(format!("--filename={}", path.display())).arg(format!("--write_iolog={}", log.display()));
            fio.current_dir(disk.image().parent().unwrap());
            let trace = record(source, &filters, &mut fio).unwrap();
            let mut text = String::new();
            for entry in fs::read_dir(log.parent().unwrap()).unwrap() {
                let entry = entry.unwrap().path();
                if entry.to_str().unwrap().starts_with(log.to_str().unwrap()) {
                    text += &fs::read_to_string(&entry).unwrap();
                    fs::remove_file(&entry).unwrap();
                }
            }
            let expected = done(&text, |kind| match kind {
                "read" => Some(false),
                "write" => Some(true),
                _ => None,
            });
            let found = traced(&trace, &path);
            // What could not be done without waiting is done again, and counts again.
            let key = |all: &Accesses| all.keys().copied().collect::<Vec<_>>();
            assert!(expected.len() > 50, "{what}, {engine}: {} accesses", expected.len());
            assert_eq!(key(&found), key(&expected), "{what}, {engine}");
            for (key, count) in &expected {
                assert!(found[key] >= *count, "{what}, {engine}: {key:?} {} times, {count} done", found[key]);
            }
        }
    }
}

#[test]
fn directions_are_right_on_ext4() {
    directions_are_right(System::Ext4);
}

#[test]
fn directions_are_right_on_xfs() {
    directions_are_right(System::Xfs);
}

/// Started by the tests above as a program of its own; by itself it does nothing.
#[test]
fn the_program() {
    let Some(path) = std::env::var_os(PROGRAM) else { return };
    let open = |direct: bool| {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if direct {
            options.custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32);
        }
        options.open(&path).unwrap()
    };
    let logs: Vec<String> = std::thread::scope(|scope| {
        let start = |number: u64| {
            let (direct, buffered) = (open(true), open(false));
            scope.spawn(move || mixed(number, &direct, &buffered))
        };
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    fs::write(std::env::var_os("PLUMB_TEST_LOG").unwrap(), logs.concat()).unwrap();
}

/// One thread's accesses; what of it went past the page cache.
fn mixed(number: u64, direct: &File, buffered: &File) -> String {
    use std::fmt::Write;
    let mut dice = Dice(number + 1);
    let mut memory = vec![0_u8; (32 * BLOCK) as usize];
    let skew = memory.as_ptr().align_offset(BLOCK as usize);
    let mut log = String::new();
    for _ in 0..400 {
        let length = (1 + dice.below(8)) * BLOCK;
        // Few starts, so that reads and writes of several lengths begin at the same, and end where others begin.
        let start = dice.below(24) * BLOCK;
        let buffer = &mut memory[skew..skew + length as usize];
        let what = dice.below(12);
        match what {
            0..4 => assert_eq!(direct.read_at(buffer, start).unwrap() as u64, length),
            4..7 => assert_eq!(direct.write_at(buffer, start).unwrap() as u64, length),
            7 | 8 => {
                let (one, two) = buffer.split_at_mut(BLOCK as usize);
                let done = if what == 7 {
                    rustix::io::preadv(direct, &mut [IoSliceMut::new(one), IoSliceMut::new(two)], start)
                } else {
                    rustix::io::pwritev(direct, &[IoSlice::new(one), IoSlice::new(two)], start)
                };
                assert_eq!(done.unwrap() as u64, length);
            }
            // Through the page cache, elsewhere and here.
            9 => drop(buffered.read_at(buffer, start).unwrap()),
            10 => drop(buffered.write_at(buffer, SIZE / 2 + start).unwrap()),
            _ => {
                use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
                // SAFETY: the address is the kernel's choice; the mapping is read below and taken away again.
                unsafe {
                    let shared = MapFlags::SHARED;
                    let address =
                        mmap(std::ptr::null_mut(), BLOCK as usize, ProtFlags::READ, shared, buffered, start).unwrap();
                    std::hint::black_box(address.cast::<u8>().read_volatile());
                    munmap(address, BLOCK as usize).unwrap();
                }
            }
        }
        if what < 9 {
            let kind = if (4..7).contains(&what) || what == 8 { "write" } else { "read" };
            writeln!(log, "{kind} {start} {length}").unwrap();
        }
    }
    log
}
