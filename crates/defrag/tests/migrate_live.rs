//! Moving on real file systems, on loop devices: what must stay stays, and what should move moves.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use defrag::ByteRange;
use defrag::extents::ExtentFlags;
use defrag::migrate::{FileMover, Left, MigrateError, MoveOptions, Moved, Refusal, Unlimited, XfsCommitRange, refusal};
use disk::guest::with_f2fs;
use disk::{Dice, Disk, System, filefrag, map_of, ran, scatter, seen, skipped};

const PIECE: u64 = 8 << 10;
const WHOLE: ByteRange = ByteRange { start: 0, end: u64::MAX };

fn range(start: u64, end: u64) -> ByteRange {
    ByteRange { start, end }
}

fn move_range(path: &Path, range: ByteRange) -> Moved {
    let mut mover = FileMover::open(path, None, &MoveOptions::default()).unwrap();
    mover.migrate(range, &mut Unlimited).unwrap()
}

#[track_caller]
fn refused(path: &Path) -> Refusal {
    match FileMover::open(path, None, &MoveOptions::default()) {
        Err(MigrateError::Refused { refusal: why, .. }) => {
            assert_eq!(refusal(path, None, false).unwrap(), Some(why.clone()), "looking and moving agree");
            why
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("{} was not refused", path.display()),
    }
}

/// Contents, size, blocks, times and attributes stay, what is selected becomes one piece, and what is not selected
/// stays at its place; and doing it again writes nothing.
fn moves_a_range(system: System) {
    if skipped(system) {
        return;
    }
    let mut disk = Disk::new(system);
    // Not a whole number of blocks, and the tail within the last piece.
    let length = (4 << 20) - 1234;
    let path = disk.fragmented("file", 1, length, PIECE);
    rustix::fs::setxattr(&path, "user.plumb", b"kept", rustix::fs::XattrFlags::empty()).unwrap();
    let (before, map) = (seen(&path), map_of(&path));
    assert_eq!(map.piece_count(map.whole()), filefrag(&path));
    assert!(filefrag(&path) >= length / PIECE, "{} pieces", filefrag(&path));

    let middle = range(1 << 20, 2 << 20);
    let moved = move_range(&path, middle);
    assert_eq!((moved.pieces_before, moved.pieces_after), (map.piece_count(middle), 1), "{moved:?}");
    assert_eq!(moved.left, []);
    assert_eq!(seen(&path), before);
    let after = map_of(&path);
    assert_eq!(after.piece_count(middle), 1);
    for outside in [range(0, 1 << 20), range(2 << 20, length)] {
        assert!(after.pieces(outside).eq(map.pieces(outside)), "what was not selected was moved");
    }

    let moved = move_range(&path, WHOLE);
    // F2FS has segments of 2 MiB, which need not follow each other.
    let most = if system == System::F2fs { 3 } else { 1 };
    assert_eq!(moved.left, []);
    assert!(moved.pieces_after <= most, "{moved:?}");
    assert_eq!(filefrag(&path), moved.pieces_after);
    assert_eq!(seen(&path), before);
    let written = disk.written_bytes();
    let again = move_range(&path, WHOLE);
    assert_eq!((again.written_bytes, again.pieces_before), (0, moved.pieces_after));
    assert_eq!(disk.written_bytes(), written, "a second run wrote");
    // From the device, not from memory.
    disk::drop_caches();
    assert_eq!(seen(&path), before);
    disk.check();
}

/// Holes stay holes, also beyond 4 GiB, and a range reaches no further than the file.
fn leaves_holes(system: System) {
    if skipped(system) {
        return;
    }
    let mut disk = Disk::new(system);
    let path = disk.path("sparse");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    let far = 5 << 30;
    scatter(&file, system, 2, range(1 << 20, 2 << 20), PIECE);
    scatter(&file, system, 3, range(3 << 20, 4 << 20), PIECE);
    scatter(&file, system, 4, range(far, far + (1 << 20) + 777), PIECE);
    file.set_len(far + (2 << 20) + 100).unwrap();
    drop(file);
    let (before, map) = (fs::metadata(&path).unwrap(), map_of(&path));
    let read = |at: u64| {
        let mut bytes = vec![0; 1 << 20];
        fs::File::open(&path).unwrap().read_exact_at(&mut bytes, at).unwrap();
        bytes
    };
    let moved = move_range(&path, WHOLE);
    let (after, now) = (fs::metadata(&path).unwrap(), map_of(&path));
    // The data on both sides of a hole lies side by side; F2FS may meet the end of a segment of its log.
    let most = if system == System::F2fs { 3 } else { 1 };
    assert!(moved.pieces_after <= most && moved.left.is_empty(), "{moved:?}, {now:?}");
    assert_eq!((now.piece_count(now.whole()), now.stretch_count(now.whole())), (3, moved.pieces_after));
    assert!(now.extents().iter().all(|extent| !extent.flags.contains(ExtentFlags::SHARED)), "{now:?}");
    use std::os::unix::fs::MetadataExt;
    assert_eq!((after.len(), after.modified().unwrap()), (before.len(), before.modified().unwrap()));
    // The blocks of the map of extents come and go.
    assert!(after.blocks().abs_diff(before.blocks()) <= 128, "{} blocks, {} before", after.blocks(), before.blocks());
    let logical = |map: &defrag::extents::ExtentMap| -> u64 { map.extents().iter().map(|extent| extent.length).sum() };
    assert_eq!(logical(&now), logical(&map), "holes were filled");
    assert!(read(1 << 20) == Dice(2).bytes(1 << 20));
    assert!(read(3 << 20) == Dice(3).bytes(1 << 20));
    assert!(read(far) == Dice(4).bytes(1 << 20));
    assert!(read(2 << 20) == vec![0; 1 << 20]);
    drop(fs::File::open(&path));
    disk.check();
}

/// Whatever follows the range and however long the last piece is, it is moved with the others, or nothing is.
fn moves_the_last_piece(system: System) {
    if skipped(system) {
        return;
    }
    let mut disk = Disk::new(system);
    let cases: [(u64, u64); 6] =
        [(4096, 2), (128 << 10, 2), (252 << 10, 2), (256 << 10, 3), (260 << 10, 2), (1 << 20, 3)];
    for (piece, pieces) in cases {
        let path = disk.fragmented(&format!("file-{piece}"), piece, piece * pieces, piece);
        let before = seen(&path);
        assert_eq!(filefrag(&path), pieces, "pieces of {piece}");
        let moved = move_range(&path, WHOLE);
        assert_eq!((filefrag(&path), moved.pieces_after, &moved.left[..]), (1, 1, &[][..]), "pieces of {piece}");
        assert_eq!(seen(&path), before);
    }
    disk.check();
}

/// Reflinked blocks stay shared, and no room is taken up, unless it is asked for.
fn leaves_shared(system: System) {
    if skipped(system) {
        return;
    }
    let mut disk = Disk::new(system);
    let path = disk.fragmented("file", 5, 2 << 20, PIECE);
    let copy = disk.path("copy");
    ran(Command::new("cp").arg("--reflink=always").arg(&path).arg(&copy));
    let (used, map, before) = (disk.used_bytes(), map_of(&path), seen(&path));
    let moved = move_range(&path, WHOLE);
    assert!(!moved.left.is_empty() && moved.left.iter().all(|left| left.why == Left::Shared), "{:?}", moved.left);
    assert_eq!(moved.written_bytes, 0);
    assert_eq!((disk.used_bytes(), map_of(&path)), (used, map));
    let mut mover = FileMover::open(&path, None, &MoveOptions { shared: true, ..MoveOptions::default() }).unwrap();
    let moved = mover.migrate(WHOLE, &mut Unlimited).unwrap();
    drop(mover);
    assert_eq!((moved.pieces_after, &moved.left[..]), (1, &[][..]));
    assert_eq!(seen(&path), before);
    assert!(disk.used_bytes() >= used + (2 << 20) - (64 << 10), "its copy takes up room");
    assert!(fs::read(&copy).unwrap() == Dice(5).bytes(2 << 20));
    disk.check();
}

/// With free space in crumbs, or none, nothing is changed and the reason is told.
fn leaves_full_disks(system: System) {
    if skipped(system) {
        return;
    }
    let (bytes, make): (u64, &[&str]) = match system {
        System::Ext4 => (24 << 20, &["-m", "0"]),
        System::Btrfs => (128 << 20, &[]),
        _ => (300 << 20, &[]),
    };
    let mut disk = Disk::with(system, bytes, make, "");
    // XFS keeps unbroken room for its own growth, and gives from it: more than that has to be asked for.
    let (length, piece) = if system == System::Xfs { (24 << 20, 256 << 10) } else { (1 << 20, 64 << 10) };
    let path = disk.fragmented("file", 6, length, piece);
    for name in fs::read_dir(disk.place()).unwrap() {
        let name = name.unwrap().path();
        if name.to_string_lossy().contains("other") {
            fs::remove_file(name).unwrap();
        }
    }
    disk.fragment_free_space(16 << 10);
    let (before, map) = (seen(&path), map_of(&path));
    let moved = move_range(&path, WHOLE);
    let crumbs = |left: &Left| matches!(left, Left::NoBetterSpace { .. } | Left::NoSpace);
    assert!(!moved.left.is_empty() && moved.left.iter().all(|left| crumbs(&left.why)), "{moved:?}");
    assert_eq!(moved.written_bytes, 0);
    assert_eq!((seen(&path), map_of(&path)), (before, map));
    disk.check();
}

/// Files without copy-on-write are moved too, also where the kernel would leave the last extent, and with holes.
#[test]
fn btrfs_moves_files_without_copy_on_write() {
    if skipped(System::Btrfs) {
        return;
    }
    let mut disk = Disk::new(System::Btrfs);
    ran(Command::new("chattr").arg("+C").arg(disk.place()));
    let path = disk.fragmented("file", 12, 2 << 20, PIECE);
    let flags = ran(Command::new("lsattr").arg(&path));
    assert!(flags.split(' ').next().unwrap().contains('C'), "{flags}");
    let before = seen(&path);
    let moved = move_range(&path, range(0, 1 << 20));
    assert_eq!((moved.pieces_after, &moved.left[..]), (1, &[][..]), "{} before", moved.pieces_before);
    assert_eq!(seen(&path), before);
    let pair = disk.fragmented("pair", 13, 1 << 20, 512 << 10);
    let before = seen(&pair);
    let moved = move_range(&pair, WHOLE);
    assert_eq!((moved.pieces_before, moved.pieces_after, &moved.left[..]), (2, 1, &[][..]));
    assert_eq!(seen(&pair), before);
    disk.check();
}

macro_rules! on_each {
    ($($test:ident: $($name:ident $system:ident),*;)*) => {
        $($(#[test] fn $name() { $test(System::$system); })*)*
    };
}

on_each! {
    moves_a_range: ext4_moves_a_range Ext4, xfs_moves_a_range Xfs, xfs_exchange_moves_a_range XfsExchange, btrfs_moves_a_range Btrfs;
    moves_the_last_piece: ext4_moves_the_last_piece Ext4, xfs_moves_the_last_piece Xfs, btrfs_moves_the_last_piece Btrfs;
    leaves_holes: ext4_leaves_holes Ext4, xfs_leaves_holes Xfs, xfs_exchange_leaves_holes XfsExchange, btrfs_leaves_holes Btrfs;
    leaves_shared: xfs_leaves_shared Xfs, btrfs_leaves_shared Btrfs;
    leaves_full_disks: ext4_leaves_full_disks Ext4, xfs_leaves_full_disks Xfs, btrfs_leaves_full_disks Btrfs;
}

macro_rules! on_f2fs {
    ($($name:ident $test:ident;)*) => {
        $(#[test] fn $name() { with_f2fs(stringify!($name), || $test(System::F2fs)); })*
    };
}

on_f2fs! {
    f2fs_moves_a_range moves_a_range;
    f2fs_leaves_holes leaves_holes;
    f2fs_keeps_everything_on_a_full_disk keeps_everything_on_a_full_disk;
    f2fs_refuses_what_it_would_not_move refuses_what_f2fs_would_not_move;
}

/// F2FS says where data goes only by writing it: it is tried, and whatever comes of it is told.
fn keeps_everything_on_a_full_disk(system: System) {
    if skipped(system) {
        return;
    }
    let mut disk = Disk::with(system, 128 << 20, &[], "");
    let path = disk.fragmented("file", 6, 1 << 20, 64 << 10);
    disk.fragment_free_space(16 << 10);
    let before = seen(&path);
    let moved = move_range(&path, WHOLE);
    let told = !moved.left.is_empty() || moved.pieces_after < moved.pieces_before;
    assert!(told, "{moved:?}");
    println!("{moved:?}");
    assert_eq!(seen(&path), before);
    disk.check();
}

fn refuses_what_f2fs_would_not_move(system: System) {
    if skipped(system) {
        return;
    }
    let mut disk = Disk::new(system);
    let path = disk.fragmented("file", 9, 1 << 20, PIECE);
    let (before, map) = (seen(&path), map_of(&path));
    // Updated in place, by policy: bit 0 of Documentation/ABI/testing/sysfs-fs-f2fs, ipu_policy.
    let policy = Path::new("/sys/fs/f2fs").join(disk.device().file_name().unwrap()).join("ipu_policy");
    let usual = fs::read_to_string(&policy).unwrap();
    fs::write(&policy, "1").unwrap();
    let moved = move_range(&path, WHOLE);
    assert!(matches!(moved.left[..], [ref left] if matches!(left.why, Left::Unsupported(_))), "{moved:?}");
    fs::write(&policy, usual.trim()).unwrap();
    // Open elsewhere, if only for reading.
    let reader = fs::File::open(&path).unwrap();
    let moved = move_range(&path, WHOLE);
    assert!(matches!(moved.left[..], [ref left] if left.why == Left::Open), "{moved:?}");
    assert_eq!((moved.written_bytes, map_of(&path)), (0, map));
    drop(reader);
    disk.unmount();
    disk.mount("checkpoint=disable");
    assert_eq!(refused(&path), Refusal::NoCheckpoints);
    disk.unmount();
    disk.mount("");
    assert_eq!(seen(&path).contents(), before.contents());
    assert_eq!(move_range(&path, WHOLE).left, []);
    disk.check();
}

#[test]
fn xfs_without_reflink_uses_the_exchange() {
    if skipped(System::XfsExchange) {
        return;
    }
    let disk = Disk::new(System::XfsExchange);
    let path = disk.fragmented("file", 7, 1 << 20, PIECE);
    let mover = FileMover::open(&path, None, &MoveOptions::default()).unwrap();
    assert_eq!(mover.way().name(), defrag::migrate::Migrate::name(&XfsCommitRange));
}

#[test]
fn a_name_that_is_another_files_is_refused() {
    if skipped(System::Ext4) {
        return;
    }
    let disk = Disk::new(System::Ext4);
    let path = disk.fragmented("file", 8, 1 << 20, PIECE);
    use std::os::unix::fs::MetadataExt;
    let status = fs::metadata(&path).unwrap();
    let id = defrag::FileId { device: status.dev(), inode: status.ino(), generation: None };
    assert!(FileMover::open(&path, Some(&id), &MoveOptions::default()).is_ok());
    let elder = defrag::FileId { generation: Some(12345), ..id };
    fs::rename(&path, disk.path("old")).unwrap();
    fs::write(&path, "new").unwrap();
    for (path, id) in [(&path, id), (&disk.path("old"), elder)] {
        let error = FileMover::open(path, Some(&id), &MoveOptions::default()).err().unwrap();
        assert_eq!(error.refusal(), Some(&Refusal::AnotherFile));
    }
}

#[test]
fn what_must_not_be_moved_is_refused() {
    if skipped(System::Ext4) {
        return;
    }
    let disk = Disk::new(System::Ext4);
    let path = disk.fragmented("file", 9, 1 << 20, PIECE);
    let (before, map) = (seen(&path), map_of(&path));
    let change = |flag: &str| Command::new("chattr").arg(flag).arg(&path).output().unwrap().status.success();
    for (set, clear, expected) in
        [("+i", "-i", Refusal::Immutable), ("+a", "-a", Refusal::AppendOnly), ("+j", "-j", Refusal::DataJournal)]
    {
        if !change(set) {
            println!("skipped: chattr {set} is not permitted here");
            continue;
        }
        assert_eq!(refused(&path), expected);
        assert!(change(clear));
    }
    assert_eq!(refused(&disk.place()), Refusal::NotRegular);
    std::os::unix::fs::symlink(&path, disk.path("link")).unwrap();
    assert_eq!(refused(&disk.path("link")), Refusal::NotRegular);
    ran(Command::new("mkfifo").arg(disk.path("pipe")));
    assert_eq!(refused(&disk.path("pipe")), Refusal::NotRegular);
    assert!(matches!(refused(&disk.path("nothing")), Refusal::Open(_)));
    assert!(matches!(refused(Path::new("/proc/version")), Refusal::FileSystem(_)));

    let program = disk.path("sleep");
    fs::copy("/bin/sleep", &program).unwrap();
    let mut running = Command::new(&program).arg("60").spawn().unwrap();
    let error = FileMover::open(&program, None, &MoveOptions::default()).err().unwrap();
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(error.refusal(), Some(&Refusal::Running));

    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    ran(Command::new("mkswap").arg("-q").arg(&path));
    match Command::new("swapon").arg(&path).output() {
        Ok(output) if output.status.success() => {
            let why = refused(&path);
            ran(Command::new("swapoff").arg(&path));
            assert_eq!(why, Refusal::SwapFile);
        }
        _ => println!("skipped: the kernel takes no swap file here"),
    }
    let _ = before;
    assert_eq!(map_of(&path), map);
}

#[test]
fn file_systems_that_lose_data_are_refused() {
    if skipped(System::Ext4) || skipped(System::Xfs) {
        return;
    }
    let mode =
        |name: &'static str| move |why: &Refusal| matches!(why, Refusal::Mode { name: told, .. } if told == name);
    for (system, make, mount, name) in [
        (System::Ext4, &["-O", "bigalloc"][..], "", "bigalloc"),
        (System::Ext4, &[], "nobarrier", "nobarrier"),
        (System::Ext4, &[], "data=writeback,journal_async_commit", "journal_async_commit"),
        (System::Btrfs, &[], "nobarrier", "nobarrier"),
    ] {
        if skipped(system) {
            continue;
        }
        let disk = Disk::with(system, 512 << 20, make, mount);
        let path = disk.path("file");
        fs::write(&path, vec![1; 1 << 20]).unwrap();
        let why = refused(&path);
        assert!(mode(name)(&why), "{system:?} {make:?} {mount}: {why}");
    }
    let cases: [(System, &[&str], &str, Refusal); 7] = [
        (System::Ext4, &["-O", "^has_journal"], "", Refusal::NoJournal),
        (System::Ext4, &[], "noload", Refusal::NoJournal),
        (System::Ext4, &["-O", "fast_commit"], "", Refusal::FastCommit),
        (System::Ext4, &[], "data=journal", Refusal::DataJournal),
        (System::Ext4, &["-O", "^extents,^64bit"], "", Refusal::BlockMapped),
        (System::Xfs, &["-m", "reflink=0"], "", Refusal::NoReflink),
        (System::Btrfs, &[], "compress=zstd", Refusal::Compressed),
    ];
    for (system, make, mount, expected) in cases {
        if skipped(system) {
            continue;
        }
        let mut disk = Disk::with(system, 512 << 20, make, mount);
        let path = disk.path("file");
        fs::write(&path, vec![1; 1 << 20]).unwrap();
        assert_eq!(refused(&path), expected, "{system:?} {make:?} {mount}");
        disk.unmount();
        disk.mount("ro");
        let why = refused(&path);
        assert!(why == expected || why == Refusal::ReadOnly, "{why:?}");
    }
    // Set in the superblock alone, where no mount option shows it.
    let mut disk = Disk::new(System::Ext4);
    disk.unmount();
    ran(Command::new("tune2fs").args(["-o", "journal_data"]).arg(disk.image()));
    disk.mount("");
    fs::write(disk.path("file"), vec![1; 1 << 20]).unwrap();
    assert_eq!(refused(&disk.path("file")), Refusal::DataJournal);
}

extern "C" fn ignored(_signal: libc::c_int) {}

/// Tells another thread that it is over, however this one ends.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A signal has Btrfs end a call early and say that all went well: what is said to be moved is.
#[test]
fn btrfs_moves_all_of_what_signals_interrupt() {
    if skipped(System::Btrfs) {
        return;
    }
    const SLICE: u64 = 4 << 20;
    let mut disk = Disk::in_memory(System::Btrfs);
    let handler: extern "C" fn(libc::c_int) = ignored;
    // SAFETY: the handler does nothing; SIGUSR2 is of no other use here.
    unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
    // SAFETY: the call takes no argument.
    let thread = unsafe { libc::pthread_self() } as usize;
    let (over, mut early) = (AtomicBool::new(false), 0);
    let signals = || {
        let mut dice = Dice(3);
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_micros(200 + dice.below(3000)));
            // SAFETY: the thread waits for this one's end.
            unsafe { libc::pthread_kill(thread as libc::pthread_t, libc::SIGUSR2) };
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(signals);
        // Also where an assertion fails: the scope waits for the other thread.
        let _ending = Ending(&over);
        for number in 0..6 {
            let path = disk.fragmented(&format!("file-{number}"), number, 2 * SLICE, 4096);
            let before = seen(&path);
            // The call alone, as a program does that takes it at its word. Before its first move it says that it was interrupted.
            let file = fs::File::open(&path).unwrap();
            match defragment_range(&file, 0, SLICE) {
                Ok(()) => early += u64::from(map_of(&path).piece_count(range(0, SLICE)) > 8),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}"),
            }
            let moved = move_range(&path, range(SLICE, 2 * SLICE));
            // What a signal cut short goes on elsewhere: a few pieces in place of a thousand.
            assert!(moved.left.is_empty() && moved.pieces_after <= 8, "{number}: {moved:?}");
            assert_eq!(map_of(&path).piece_count(range(SLICE, 2 * SLICE)), moved.pieces_after, "{number}");
            assert_eq!(seen(&path), before);
        }
    });
    println!("{early} of 6 calls ended early and said nothing");
    assert!(early > 0);
    disk.check();
}

/// `BTRFS_IOC_DEFRAG_RANGE`, once.
fn defragment_range(file: &fs::File, start: u64, length: u64) -> std::io::Result<()> {
    // `struct btrfs_ioctl_defrag_range_args`: START_IO, and a threshold of 4 GiB less one byte.
    let mut range: [u64; 6] = [start, length, 2, u64::from(u32::MAX), 0, 0];
    let request: libc::Ioctl = 0x4030_9410_u32 as libc::Ioctl;
    // SAFETY: the call reads 48 bytes, which outlive it.
    let done = unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(file), request, range.as_mut_ptr()) };
    if done < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}
