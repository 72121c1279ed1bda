//! The published synthetic layout on real file systems, and each way of repairing it beside the others: requests that
//! the device gets, bytes that it is given to write, time.
//!
//! Four files repeat 32 pieces of 4 KiB and one of 128 KiB (SOSP '21, section 5.2, and the artifact's generator): 16 MiB
//! in all in a quick run, 64 MiB with `PLUMB_LONG=1`. `cargo test --release -p plumb-defrag --test paper_layout -- --nocapture`
//! prints the tables of docs/defrag.md.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use defrag::access::TraceError;
use defrag::extents::WriteBack;
use defrag::plan::{Mode, Plan};
use defrag::run::{Cancel, RunOptions, carry_out};
use defrag::scan::{ScanOptions, Scanner};
use defrag::verify::{Replay, VerifyError, replay};
use defrag::{Access, ByteRange, FileId, IoKind};
use disk::{Dice, Disk, System, layout, ran};

const KIB: u64 = 1024;
/// Bytes of an access, and of the long piece.
const ACCESS: u64 = 128 * KIB;
/// From the beginning of one access to that of the next in the stride pattern: 288 KiB are left out.
const STRIDE: u64 = 416 * KIB;
/// 32 short pieces and a long one.
const GROUP: u64 = 256 * KIB;
const PIECES_A_GROUP: u64 = 33;
/// Files that are appended to in turns.
const FILES: u64 = 4;

/// One file system's times are not to be those of three at once.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn is_long() -> bool {
    std::env::var_os("PLUMB_LONG").is_some()
}

/// Bytes of each file.
fn size() -> u64 {
    if is_long() { 16 << 20 } else { 4 << 20 }
}

/// The lengths of the pieces, in order.
fn pieces(size: u64) -> impl Iterator<Item = ByteRange> {
    let lengths = std::iter::repeat_n(4 * KIB, 32).chain([ACCESS]).cycle();
    let mut start = 0;
    lengths.map_while(move |length| {
        let range = ByteRange { start, end: start + length };
        start = range.end;
        (range.end <= size).then_some(range)
    })
}

/// how a file is defragmented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tool {
    TracedSequential,
    TracedStride,
    Bypass,
    Whole,
    Conventional,
}

impl Tool {
    const ALL: [Self; 5] = [Self::TracedSequential, Self::TracedStride, Self::Bypass, Self::Whole, Self::Conventional];

    fn name(self, system: System) -> &'static str {
        match (self, system) {
            (Self::TracedSequential, _) => "traced, sequential",
            (Self::TracedStride, _) => "traced, stride",
            (Self::Bypass, _) => "bypass",
            (Self::Whole, _) => "whole",
            (Self::Conventional, System::Ext4) => "e4defrag",
            (Self::Conventional, System::Btrfs) => "btrfs filesystem defragment",
            (Self::Conventional, _) => "xfs_fsr",
        }
    }

    /// The trace or the mode that its plan is made from; none for the file system's own tool.
    fn mode(self) -> Option<(Mode, Vec<ByteRange>)> {
        match self {
            Self::TracedSequential => Some((Mode::Traced, accesses(ACCESS))),
            Self::TracedStride => Some((Mode::Traced, accesses(STRIDE))),
            Self::Bypass => Some((Mode::Bypass, Vec::new())),
            Self::Whole => Some((Mode::Whole, Vec::new())),
            Self::Conventional => None,
        }
    }
}

/// The file system's own tool on all files.
fn conventional(system: System, paths: &[PathBuf]) -> Command {
    let mut command = Command::new(match system {
        System::Ext4 => "e4defrag",
        System::Btrfs => "btrfs",
        _ => "xfs_fsr",
    });
    if system == System::Btrfs {
        command.args(["filesystem", "defragment", "-f"]);
    }
    command.args(paths);
    command
}

/// 128 KiB at a time, each `step` after the one before it.
fn accesses(step: u64) -> Vec<ByteRange> {
    let all = (0..size()).step_by(step as usize);
    all.map(|start| ByteRange { start, end: (start + ACCESS).min(size()) }).collect()
}

/// A file system with the files, unmounted, and what each of them holds.
fn made(system: System, options: &[&str]) -> (Disk, Vec<u8>) {
    let mut disk = Disk::with(system, 1 << 30, options, "");
    let content = Dice(1).bytes(size() as usize);
    if system == System::Ext4 {
        let mut at = 0;
        let places: Vec<_> = pieces(size())
            .map(|range| {
                let place = at;
                at += range.len() + 4 * KIB;
                (range, place)
            })
            .collect();
        paths(&disk).iter().for_each(|path| layout::arranged(path, &content, &places));
    } else {
        append_in_turns(&paths(&disk), &content);
    }
    disk.unmount();
    std::fs::rename(disk.image(), master(&disk)).unwrap();
    (disk, content)
}

fn paths(disk: &Disk) -> Vec<PathBuf> {
    (1..=FILES).map(|number| disk.path(&format!("file-{number}"))).collect()
}

/// The image that each tool gets a copy of.
fn master(disk: &Disk) -> PathBuf {
    disk.image().with_extension("master")
}

/// Mounts a fresh copy, with nothing of it in the page cache.
fn mount_copy(disk: &mut Disk) {
    ran(Command::new("cp").arg("--sparse=always").arg(master(disk)).arg(disk.image()));
    if disk.system == System::Btrfs {
        // The kernel remembers the last copy, which has the same identity and is newer.
        ran(Command::new("btrfs").args(["device", "scan", "--forget"]));
    }
    disk.mount("");
    if disk.system == System::Ext4 && is_long() {
        // Has it read its bitmaps: until then it gives scattered room, of which e4defrag takes the first.
        let name = disk.device().file_name().unwrap();
        std::fs::read(Path::new("/proc/fs/ext4").join(name).join("mb_groups")).unwrap();
    }
}

/// Appends to one file after the other, past the page cache: each piece comes behind those of the others.
fn append_in_turns(paths: &[PathBuf], content: &[u8]) {
    let open = |path: &PathBuf| {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).custom_flags(libc::O_DIRECT).open(path).unwrap()
    };
    let files: Vec<File> = paths.iter().map(open).collect();
    let mut buffer = vec![0; (ACCESS + 4 * KIB) as usize];
    let skew = buffer.as_ptr().align_offset(4096);
    for range in pieces(size()) {
        let memory = &mut buffer[skew..skew + range.len() as usize];
        memory.copy_from_slice(&content[range.start as usize..range.end as usize]);
        files.iter().for_each(|file| file.write_all_at(memory, range.start).unwrap());
    }
    files.iter().for_each(|file| file.sync_all().unwrap());
}

/// What is to be moved.
fn planned(paths: &[PathBuf], mode: Mode, reads: &[ByteRange]) -> Plan {
    let options = ScanOptions { mode, write_back: WriteBack::First, ..ScanOptions::default() };
    let mut scanner = Scanner::new(options);
    for path in paths {
        if mode == Mode::Traced {
            let status = std::fs::metadata(path).unwrap();
            let file = FileId { device: status.dev(), inode: status.ino(), generation: None };
            let access = |range: &ByteRange| Access { file, range: *range, kind: IoKind::DirectRead, count: 1 };
            scanner.traced(path, file, &reads.iter().map(access).collect::<Vec<_>>());
        } else {
            assert!(scanner.walk(path, &mut |_, _| ControlFlow::Continue(())).unwrap().is_continue());
        }
    }
    scanner.finish(None)
}

/// Requests that the device gets for sequential and for stride reads of all files; they are those that were predicted.
/// `None` where they cannot be counted.
fn requests(paths: &[PathBuf]) -> Option<[u64; 2]> {
    let mut counts = [0; 2];
    for (count, step) in counts.iter_mut().zip([ACCESS, STRIDE]) {
        let replays: Vec<_> = paths.iter().map(|path| Replay { path: path.clone(), ranges: accesses(step) }).collect();
        let verified = match replay(&replays, &mut |_| true) {
            Err(VerifyError::Trace(error @ TraceError::Unavailable { .. })) => {
                println!("skipped: {error}");
                return None;
            }
            verified => verified.unwrap(),
        };
        assert!(verified.is_as_predicted(), "{verified}");
        *count = verified.total().issued;
    }
    Some(counts)
}

struct Row {
    requests: [u64; 2],
    written_bytes: u64,
}

/// Defragments the files of a fresh copy, and prints its row.
fn defragment(disk: &mut Disk, tool: Tool, content: &[u8]) -> Row {
    mount_copy(disk);
    let paths = paths(disk);
    let written = disk.written_bytes();
    let begun = Instant::now();
    match tool.mode() {
        None => drop(ran(&mut conventional(disk.system, &paths))),
        Some((mode, reads)) => {
            let plan = planned(&paths, mode, &reads);
            let report = carry_out(&plan.files, &RunOptions::default(), None, &Cancel::default(), &mut |_| ()).unwrap();
            assert!(report.is_complete() && report.ranges_moved() == plan.totals.moves, "{report}");
        }
    }
    let written_bytes = disk.written_bytes() - written;
    let seconds = begun.elapsed().as_secs_f64();
    let requests = requests(&paths).unwrap();
    println!(
        "| {:27} | {:6} | {:6} | {:6.1} | {seconds:6.2} |",
        tool.name(disk.system),
        requests[0],
        requests[1],
        written_bytes as f64 / 1_048_576.0,
    );
    for path in &paths {
        assert!(std::fs::read(path).unwrap() == content, "{tool:?} changed {}", path.display());
    }
    if let Some((mode, reads)) = tool.mode() {
        let again = planned(&paths, mode, &reads);
        assert!(again.files.is_empty(), "a second run would move {} bytes", again.totals.bytes_to_move);
        let written = disk.written_bytes();
        carry_out(&again.files, &RunOptions::default(), None, &Cancel::default(), &mut |_| ()).unwrap();
        assert_eq!(disk.written_bytes(), written, "a second run wrote");
    }
    if is_long() {
        disk.check();
    } else {
        disk.unmount();
    }
    Row { requests, written_bytes }
}

/// As good as the conventional tool for what was traced, at the published share of its writing.
///
/// `stride_share_max`: of the conventional tool's writing for stride reads, where what the file system writes beside the data is so
/// little that the shares show.
fn side_by_side(system: System, options: &[&str], stride_share_max: Option<f64>) {
    if disk::skipped(system) {
        return;
    }
    if let Err(error) = conventional(system, &[]).output() {
        println!("skipped: {}: {error}", Tool::Conventional.name(system));
        return;
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut disk, content) = made(system, options);
    mount_copy(&mut disk);
    let Some([sequential, stride]) = requests(&paths(&disk)) else { return };
    disk.unmount();
    // A piece or two may lie side by side by chance; the rest is as it is meant to be.
    let groups = FILES * size() / GROUP;
    assert!(sequential > groups * PIECES_A_GROUP * 19 / 20, "{sequential} requests for {groups} groups");
    println!("\n{} {}, {} MiB\n", system.name(), options.join(" "), (FILES * size()) >> 20);
    println!("| {:27} | sequen | stride | MiB    | s      |", "");
    println!("|-----------------------------|-------:|-------:|-------:|-------:|");
    println!("| {:27} | {sequential:6} | {stride:6} | {:6} | {:6} |", "as it was", "", "");
    let rows: Vec<Row> = Tool::ALL.into_iter().map(|tool| defragment(&mut disk, tool, &content)).collect();
    let [of_sequential, of_stride, bypass, whole, conventional] = &rows[..] else { panic!("five rows") };

    // One request for each access.
    let best = [ACCESS, STRIDE].map(|step| FILES * accesses(step).len() as u64);
    assert!(best[0] <= conventional.requests[0] && best[1] <= conventional.requests[1]);
    if conventional.requests != best {
        println!("\n{} is not at its best", Tool::Conventional.name(system));
    }
    assert_eq!(whole.requests, best);
    assert_eq!((of_sequential.requests[0], bypass.requests[0], of_stride.requests[1]), (best[0], best[0], best[1]));
    let share = |row: &Row| row.written_bytes as f64 / conventional.written_bytes as f64;
    println!("\nshares: {:.3} {:.3} {:.3}", share(of_sequential), share(of_stride), share(bypass));
    if let Some(most) = stride_share_max {
        assert!(share(of_sequential) <= 0.55 && share(bypass) <= 0.55 && share(of_stride) <= most);
    } else {
        assert!(share(of_stride) < share(of_sequential) && share(of_sequential) < 1.0);
    }
}

#[test]
fn side_by_side_on_ext4() {
    side_by_side(System::Ext4, &[], Some(0.30));
}

#[test]
fn side_by_side_on_xfs() {
    side_by_side(System::Xfs, &[], Some(0.30));
}

/// With one copy of its metadata, as mkfs.btrfs made it on an SSD until version 5.15. Freeing pieces rewrites every block
/// of the trees that tells of one: some 1.5 MiB here, which hides the shares of a few MiB of data.
/// Where a range ends within an extent, some of the rest is moved, too, so that less of it stays allocated for good:
/// 1.25 MiB more of data than elsewhere.
#[test]
fn side_by_side_on_btrfs() {
    if is_long() {
        side_by_side(System::Btrfs, &["-m", "single"], Some(0.33));
    } else {
        println!("skipped: a part of the long suite (PLUMB_LONG=1)");
    }
}

/// With two copies, the default since.
#[test]
fn side_by_side_on_btrfs_with_metadata_twice() {
    if is_long() {
        side_by_side(System::Btrfs, &["-m", "dup"], None);
    } else {
        println!("skipped: a part of the long suite (PLUMB_LONG=1)");
    }
}
