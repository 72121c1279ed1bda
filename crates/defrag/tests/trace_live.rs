//! Each source against programs that read and write in known ways, on each file system.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use defrag::access::{Filters, Recording, SourceKind, Trace, TraceError};
use defrag::{Access, IoKind};
use disk::guest::without_readahead_events;
use disk::{Disk, System};

const KIB: u64 = 1024;

/// Starts a recording, or says why not.
fn start(kind: SourceKind, filters: &Filters) -> Option<Recording> {
    match Recording::start(Some(kind), filters) {
        Ok(recording) => Some(recording),
        Err(error @ TraceError::Unavailable { .. }) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn sources() -> [SourceKind; 2] {
    [SourceKind::Bpf, SourceKind::Tracefs]
}

/// Waits for a program while the recording goes on.
#[track_caller]
fn wait(recording: &mut Recording, child: &mut Child) {
    let begin = Instant::now();
    loop {
        recording.poll().unwrap();
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "the program hangs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn run(recording: &mut Recording, command: &mut Command) {
    wait(recording, &mut command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
}

/// Accesses of a kind to the file at `path`: start and length in KiB, count.
fn of(trace: &Trace, path: &Path, kind: IoKind) -> Vec<(u64, u64, u64)> {
    let metadata = fs::metadata(path).unwrap();
    let mine = |access: &&Access| {
        (access.file.device, access.file.inode) == (metadata.dev(), metadata.ino()) && access.kind == kind
    };
    let of_kind = trace.accesses.iter().filter(mine);
    of_kind.map(|access| (access.range.start / KIB, access.range.len() / KIB, access.count)).collect()
}

/// KiB of a file of `size` KiB that are in any of the accesses.
fn covered(accesses: &[(u64, u64, u64)], size: u64) -> u64 {
    let is_in = |page: &u64| accesses.iter().any(|&(start, length, _)| start <= *page && *page < start + length);
    (0..size).filter(is_in).count() as u64
}

fn dd(path: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("dd");
    command.arg(format!("if={}", path.display())).arg("of=/dev/null").args(arguments);
    command
}

fn fio(path: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("fio");
    command.args(["--name=a", "--thread=0", "--size=1m", "--bs=64k", "--fallocate=none"]);
    command.arg(format!("--filename={}", path.display())).args(arguments);
    command
}

fn has_fio() -> bool {
    let is_there = Command::new("fio").arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: fio is not installed");
    }
    is_there
}

/// Ways that programs read, and what they have to leave in the trace.
fn every_way_is_seen(system: System) {
    if disk::skipped(system) {
        return;
    }
    let disk = Disk::new(system);
    let path = disk.fragmented("data", 1, 2 << 20, 16 << 10);
    for source in sources() {
        let filters = Filters { children: true, paths: vec![disk.place()], ..Filters::default() };
        let record = |commands: &mut [Command]| {
            let mut recording = start(source, &filters)?;
            for command in commands {
                run(&mut recording, command);
            }
            let trace = recording.finish().unwrap();
            assert_eq!((trace.source.as_str(), trace.lost), (source.name(), 0));
            Some(trace)
        };
        let what = format!("{source} on {}", system.name());

        let Some(trace) = record(&mut [dd(&path, &["bs=16k", "skip=2", "count=3"])]) else { continue };
        assert_eq!(of(&trace, &path, IoKind::BufferedRead), [(32, 16, 1), (48, 16, 1), (64, 16, 1)], "{what}");
        assert_eq!(trace.files.len(), 1, "{what}: {:?}", trace.files);
        let (file, at) = trace.files.first_key_value().unwrap();
        assert_eq!(at.as_deref(), Some(path.as_path()), "{what}");
        assert!(file.generation.is_some(), "{what}");

        // A read of many pages is one access, however many batches the kernel makes of it. That is told of pages that are in the cache,
        // out of which others may have pushed them.
        fs::read(&path).unwrap();
        let mut again = [dd(&path, &["bs=1M", "count=1"]), dd(&path, &["bs=1M", "count=1"])];
        let trace = record(&mut again).unwrap();
        assert_eq!(of(&trace, &path, IoKind::BufferedRead), [(0, 1024, 2)], "{what}");

        let trace = record(&mut [dd(&path, &["bs=64k", "count=2", "iflag=direct"])]).unwrap();
        assert_eq!(of(&trace, &path, IoKind::DirectRead), [(0, 64, 1), (64, 64, 1)], "{what}");

        // Not in the cache: readahead asks the device for all that is read.
        drop_cache(&path);
        let trace = record(&mut [dd(&path, &["bs=4k", "count=256"])]).unwrap();
        assert_eq!(covered(&of(&trace, &path, IoKind::BufferedRead), 2048), 1024, "{what}");
        let windows = of(&trace, &path, IoKind::Readahead);
        assert!(covered(&windows, 1024) == 1024 && windows.len() < 100, "{what}: {windows:?}");

        let mut mapped = Command::new(std::env::current_exe().unwrap());
        mapped.args(["the_program", "--exact"]).env("PLUMB_TEST_PROGRAM", "mmap").env("PLUMB_TEST_FILE", &path);
        let trace = record(&mut [mapped]).unwrap();
        let pages = of(&trace, &path, IoKind::Mapped);
        // Pages that a large folio brings along leave no event of their own.
        assert!(covered(&pages, 128) >= 96 && covered(&pages, 2048) < 1024, "{what}: {pages:?}");

        let mut sent = Command::new(std::env::current_exe().unwrap());
        sent.args(["the_program", "--exact"]).env("PLUMB_TEST_PROGRAM", "sendfile").env("PLUMB_TEST_FILE", &path);
        let trace = record(&mut [sent]).unwrap();
        let reads = of(&trace, &path, IoKind::BufferedRead);
        assert!(covered(&reads, 256) == 256 && covered(&reads, 2048) == 256, "{what}: {reads:?}");

        if !has_fio() {
            continue;
        }
        let blocks: Vec<_> = (0..16).map(|block| (block * 64, 64, 1)).collect();
        for arguments in [
            &["--ioengine=psync", "--rw=read", "--direct=1"][..],
            &["--ioengine=libaio", "--rw=randread", "--direct=1", "--iodepth=8"],
            &["--ioengine=io_uring", "--rw=randread", "--direct=1", "--iodepth=8"],
        ] {
            let trace = record(&mut [fio(&path, arguments)]).unwrap();
            let mut found = of(&trace, &path, IoKind::DirectRead);
            found.sort_unstable();
            // Btrfs begins each of io_uring's twice: first without waiting.
            if system == System::Btrfs && arguments.contains(&"--ioengine=io_uring") {
                found.iter_mut().for_each(|(.., count)| *count = 1);
            }
            assert_eq!(found, blocks, "{what}: {arguments:?}");
        }
        let trace = record(&mut [fio(&path, &["--ioengine=io_uring", "--rw=randread"])]).unwrap();
        // The kernel leaves the event out where a batch ends in a page that is not read yet; the
        // readahead of those pages has its own. What it does in threads that it starts itself is
        // followed by process, not by thread.
        let mut found = of(&trace, &path, IoKind::BufferedRead);
        assert!(!found.is_empty() || source == SourceKind::Tracefs, "{what}");
        assert_eq!(covered(&found, 2048), covered(&found, 1024), "{what}: {found:?}");
        found.extend(of(&trace, &path, IoKind::Readahead));
        assert!(covered(&found, 1024) == 1024 || source == SourceKind::Tracefs, "{what}: {found:?}");
        // Btrfs writes data with checksums through the page cache whatever is asked for, and has no event for that.
        if system != System::Btrfs {
            let trace = record(&mut [fio(&path, &["--ioengine=psync", "--rw=write", "--direct=1"])]).unwrap();
            assert_eq!(of(&trace, &path, IoKind::DirectWrite), blocks, "{what}");
            assert_eq!(of(&trace, &path, IoKind::DirectRead), [], "{what}");
            let trace = record(&mut [fio(&path, &["--ioengine=psync", "--rw=write"])]).unwrap();
            assert_eq!(covered(&of(&trace, &path, IoKind::BufferedWrite), 2048), 1024, "{what}");
        }
    }
}

fn drop_cache(path: &Path) {
    let file = fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

/// Windows are put together from folios that go into the page cache.
#[test]
fn readahead_is_seen_where_the_kernel_does_not_tell_it() {
    without_readahead_events("readahead_is_seen_where_the_kernel_does_not_tell_it", || {
        if disk::skipped(System::Ext4) {
            return;
        }
        let disk = Disk::new(System::Ext4);
        let path = disk.fragmented("data", 1, 2 << 20, 16 << 10);
        for source in sources() {
            let filters = Filters { children: true, paths: vec![disk.place()], ..Filters::default() };
            let windows_of = |command: &mut Command| {
                drop_cache(&path);
                let mut recording = start(source, &filters)?;
                run(&mut recording, command);
                Some(of(&recording.finish().unwrap(), &path, IoKind::Readahead))
            };
            let Some(windows) = windows_of(&mut dd(&path, &["bs=4k", "count=256"])) else { continue };
            println!("{source}: {windows:?}");
            // All that was read, and what readahead is ahead by, in few windows.
            assert!(covered(&windows, 1024) == 1024 && windows.len() <= 16, "{source}: {windows:?}");
            // Reading around a fault, which the program never asked for.
            let mut mapped = Command::new(std::env::current_exe().unwrap());
            mapped.args(["the_program", "--exact"]).env("PLUMB_TEST_PROGRAM", "mmap").env("PLUMB_TEST_FILE", &path);
            let around = windows_of(&mut mapped).unwrap();
            println!("{source}: {around:?}");
            assert!(covered(&around, 2048) >= 128, "{source}: {around:?}");
            // What is written is no readahead.
            let mut written = Command::new("dd");
            written.args(["if=/dev/zero", "bs=64k", "count=4", "conv=notrunc"]).arg(format!("of={}", path.display()));
            let written = windows_of(&mut written).unwrap();
            assert_eq!(written, [], "{source}");
        }
    });
}

#[test]
fn every_way_is_seen_on_ext4() {
    every_way_is_seen(System::Ext4);
}

#[test]
fn every_way_is_seen_on_xfs() {
    every_way_is_seen(System::Xfs);
}

#[test]
fn every_way_is_seen_on_btrfs() {
    every_way_is_seen(System::Btrfs);
}

/// Started by the tests above as a program of its own; by itself it does nothing.
#[test]
fn the_program() {
    let (Ok(what), Some(path)) = (std::env::var("PLUMB_TEST_PROGRAM"), std::env::var_os("PLUMB_TEST_FILE")) else {
        return;
    };
    let file = fs::File::open(path).unwrap();
    if what == "sendfile" {
        let null = fs::File::options().write(true).open("/dev/null").unwrap();
        let mut at = 0;
        while at < 256 * KIB {
            let rest = (256 * KIB - at) as usize;
            assert!(rustix::fs::sendfile(&null, &file, Some(&mut at), rest).unwrap() > 0);
        }
        return;
    }
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let length = 128 * 1024;
    // SAFETY: the address is the kernel's choice, and the mapping is only read below.
    let mapping = unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, &file, 0) }.unwrap();
    for page in (0..length).step_by(4096) {
        // SAFETY: the file is longer than the mapping, which stays until the process ends.
        std::hint::black_box(unsafe { mapping.cast::<u8>().add(page).read_volatile() });
    }
}

/// A shell that waits for a line and then becomes `dd`, so that its number is known before it reads.
fn waiting_dd(path: &Path, skip: u64) -> Child {
    let script = "read line; exec dd if=\"$1\" of=/dev/null bs=16k count=1 skip=\"$2\" iflag=direct";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(path).arg(skip.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn go(child: &mut Child) {
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
}

#[test]
fn processes_files_and_groups_are_filtered() {
    let system = System::Ext4;
    if disk::skipped(system) {
        return;
    }
    let disk = Disk::new(system);
    let path = disk.fragmented("data", 1, 1 << 20, 16 << 10);
    let other = disk.fragmented("other", 2, 1 << 20, 16 << 10);
    let group = Group::make();
    for source in sources() {
        let mut wanted = waiting_dd(&path, 1);
        let mut foreign = waiting_dd(&path, 2);
        let Some(mut recording) = start(source, &Filters { processes: vec![wanted.id()], ..Filters::default() }) else {
            let _ = (wanted.kill(), wanted.wait(), foreign.kill(), foreign.wait());
            continue;
        };
        for child in [&mut foreign, &mut wanted] {
            go(child);
            wait(&mut recording, child);
        }
        // By this process itself, which is never traced.
        fs::read(&path).unwrap();
        let trace = recording.finish().unwrap();
        assert_eq!(of(&trace, &path, IoKind::DirectRead), [(16, 16, 1)], "{source}: one process of two");
        assert_eq!(of(&trace, &path, IoKind::BufferedRead), [], "{source}");

        let mut recording = start(source, &Filters { paths: vec![path.clone()], ..Filters::default() }).unwrap();
        for file in [&path, &other] {
            run(&mut recording, &mut dd(file, &["bs=16k", "count=1", "iflag=direct"]));
        }
        let trace = recording.finish().unwrap();
        assert_eq!(of(&trace, &path, IoKind::DirectRead), [(0, 16, 1)], "{source}: one file of two");
        assert_eq!(trace.files.len(), 1, "{source}");

        let Some(group) = &group else { continue };
        let (mut inside, mut outside) = (waiting_dd(&path, 3), waiting_dd(&path, 4));
        fs::write(group.0.join("cgroup.procs"), inside.id().to_string()).unwrap();
        let filters = Filters { cgroups: vec![group.0.clone()], mounts: vec![disk.place()], ..Filters::default() };
        let mut recording = start(source, &filters).unwrap();
        for child in [&mut outside, &mut inside] {
            go(child);
            wait(&mut recording, child);
        }
        let trace = recording.finish().unwrap();
        assert_eq!(of(&trace, &path, IoKind::DirectRead), [(48, 16, 1)], "{source}: one group");
    }
}

/// A control group for a test.
struct Group(std::path::PathBuf);

impl Group {
    fn make() -> Option<Self> {
        let roots = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
        let root = roots
            .into_iter()
            .find(|root| root.join("cgroup.procs").exists() && root.join("cgroup.controllers").exists());
        let made = root.map(|root| root.join(format!("plumb-test-{}", std::process::id())));
        let made = made.filter(|folder| fs::create_dir(folder).is_ok());
        if made.is_none() {
            println!("skipped: no control group can be made");
        }
        made.map(Self)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// fanotify: ranges of reads and mappings of a process tree, the same file on each file system.
#[test]
fn fanotify_has_the_ranges() {
    for system in System::ALL {
        if disk::skipped(system) {
            continue;
        }
        let disk = Disk::new(system);
        let path = disk.fragmented("data", 1, 1 << 20, 16 << 10);
        let filters = Filters { paths: vec![path.clone()], children: true, ..Filters::default() };
        let Some(mut recording) = start(SourceKind::Fanotify, &filters) else { return };
        for arguments in [&["bs=16k", "skip=2", "count=2"][..], &["bs=64k", "count=1", "iflag=direct"]] {
            run(&mut recording, &mut dd(&path, arguments));
        }
        fs::read(&path).unwrap();
        let trace = recording.finish().unwrap();
        let expected = [(32, 16, 1), (48, 16, 1), (0, 64, 1)];
        assert_eq!(of(&trace, &path, IoKind::BufferedRead), expected, "{}: {trace:?}", system.name());
        assert_eq!((trace.files.len(), trace.unresolved), (1, 0), "{}", system.name());
    }
}

#[test]
fn nothing_is_left_behind() {
    let instances = Path::new("/sys/kernel/tracing/instances");
    let own = || {
        let prefix = format!("plumb-{}-", std::process::id());
        let names = fs::read_dir(instances).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().starts_with(&prefix)).collect::<Vec<_>>()
    };
    // Other tests of this process may have theirs at the moment.
    let before = own();
    let Some(mut recording) = start(SourceKind::Tracefs, &Filters::default()) else { return };
    let mine: Vec<_> = own().into_iter().filter(|name| !before.contains(name)).collect();
    assert!(!mine.is_empty());
    recording.poll().unwrap();
    drop(recording);
    let begin = Instant::now();
    while mine.iter().all(|name| own().contains(name)) {
        assert!(begin.elapsed() < Duration::from_secs(10), "{mine:?} stays");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Two subvolumes number their files alike: an access is given to the only file that is long enough for it, and to none
/// if there are two; a snapshot's copy is not in the way.
#[test]
fn subvolumes_are_told_apart_on_btrfs() {
    if disk::skipped(System::Btrfs) {
        return;
    }
    let disk = Disk::new(System::Btrfs);
    let [short, long] = ["one", "two"].map(|name| {
        disk::ran(Command::new("btrfs").args(["subvolume", "create"]).arg(disk.path(name)));
        disk.path(name).join("file")
    });
    fs::write(&short, vec![1; 64 << 10]).unwrap();
    fs::write(&long, vec![2; 1 << 20]).unwrap();
    assert_eq!(fs::metadata(&short).unwrap().ino(), fs::metadata(&long).unwrap().ino());
    disk::ran(
        Command::new("btrfs").args(["subvolume", "snapshot", "-r"]).arg(disk.path("two")).arg(disk.path("three")),
    );
    disk::drop_caches();
    for kind in sources() {
        let filters = Filters { mounts: vec![disk.place()], children: true, ..Filters::default() };
        let Some(mut recording) = start(kind, &filters) else { return };
        run(&mut recording, &mut dd(&long, &["bs=4k", "skip=128", "count=1", "iflag=direct"]));
        let trace = recording.finish().unwrap();
        assert_eq!(of(&trace, &long, IoKind::DirectRead), [(512, 4, 1)], "{kind:?}: {trace:?}");
        assert_eq!((trace.files.len(), trace.unresolved), (1, 0), "{kind:?}: {trace:?}");

        let Some(mut recording) = start(kind, &filters) else { return };
        run(&mut recording, &mut dd(&short, &["bs=4k", "count=1", "iflag=direct"]));
        let trace = recording.finish().unwrap();
        assert!(trace.accesses.is_empty() && trace.unresolved > 0, "{kind:?}: {trace:?}");
    }
}
