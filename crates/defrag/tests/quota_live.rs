//! Where a quota leaves no room for a copy, the file stays as it is, the report names the quota and nothing else, and the other
//! files are moved.
//!
//! Quotas of each file system as its kernel has them: those of Btrfs's subvolumes, of projects on ext4 and XFS (of which XFS
//! says that the disk is full), and of users on XFS.
#![allow(clippy::unwrap_used)]

mod disk;

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use defrag::KeepFree;
use defrag::extents::WriteBack;
use defrag::migrate::Left;
use defrag::plan::{Mode, Plan};
use defrag::run::{Attempts, Cancel, FileOutcome, Report, RunOptions, carry_out};
use defrag::scan::{ScanOptions, Scanner};
use disk::{Disk, System, map_of, ran, seen, skipped};
use rustix::thread::CapabilitySet;

const MIB: u64 = 1 << 20;
const LENGTH: u64 = 8 * MIB;
const PIECE: u64 = 16 << 10;
/// Neither root nor anybody on this machine.
const ID: u32 = 54_321;
/// What the report has to say.
const SAID: &str = "a quota leaves no room for a copy";

/// A quota of the folder `limited`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Quota {
    Subvolume,
    Project,
    User,
}

impl Quota {
    /// `Q_SETQUOTA`'s type (quotactl(2)).
    fn kind(self) -> libc::c_int {
        if self == Self::User { libc::USRQUOTA } else { 2 }
    }
}

/// A disk with quotas and the folders `limited` and `other`, or why not.
fn disk_with(system: System, quota: Quota) -> Option<Disk> {
    if skipped(system) {
        return None;
    }
    let disk = match system {
        System::Xfs if !Path::new("/proc/fs/xfs/xqmstat").exists() => {
            println!("skipped: this kernel's XFS has no quotas");
            return None;
        }
        System::Xfs => Disk::with(system, 512 * MIB, &[], if quota == Quota::User { "uquota" } else { "pquota" }),
        System::Ext4 => {
            // Only a mount tells whether the kernel was built with the format of the quota's file.
            let make = ["-O", "quota,project", "-E", "quotatype=prjquota"];
            Disk::try_with(system, 512 * MIB, &make, "prjquota")
                .map_err(|why| println!("skipped: this kernel's ext4 mounts none with quotas: {why}"))
                .ok()?
        }
        _ => Disk::with(system, 512 * MIB, &[], ""),
    };
    let (limited, other) = (disk.path("limited"), disk.path("other"));
    if quota == Quota::Subvolume {
        ran(Command::new("btrfs").args(["quota", "enable"]).arg(disk.place()));
        ran(Command::new("btrfs").args(["subvolume", "create"]).arg(&limited));
    } else {
        fs::create_dir(&limited).unwrap();
    }
    fs::create_dir(&other).unwrap();
    if quota == Quota::Project {
        ran(Command::new("chattr").args(["-p", &ID.to_string(), "+P"]).arg(&limited));
    }
    Some(disk)
}

/// Lets what is in `limited` take up so much, metadata included, or all that there is.
fn limit(disk: &Disk, quota: Quota, bytes: Option<u64>) {
    if quota == Quota::Subvolume {
        let bytes = bytes.map_or("none".to_owned(), |bytes| bytes.to_string());
        ran(Command::new("btrfs").args(["qgroup", "limit", &bytes]).arg(disk.path("limited")));
        return;
    }
    let blocks = bytes.unwrap_or(0) / 1024;
    // SAFETY: all zeros are a value of this structure of numbers.
    let mut numbers: libc::dqblk = unsafe { std::mem::zeroed() };
    (numbers.dqb_bhardlimit, numbers.dqb_valid) = (blocks, libc::QIF_BLIMITS);
    let device = CString::new(disk.device().as_os_str().as_bytes()).unwrap();
    let command = libc::QCMD(libc::Q_SETQUOTA, quota.kind());
    let id = ID.cast_signed();
    // SAFETY: `numbers` is a `struct dqblk`, as Q_SETQUOTA wants, and lives until it returns.
    let done = unsafe { libc::quotactl(command, device.as_ptr(), id, (&raw mut numbers).cast()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn planned(paths: &[PathBuf], attempts: Attempts) -> Plan {
    let options = ScanOptions { mode: Mode::Whole, write_back: WriteBack::First, ..ScanOptions::default() };
    let mut scanner = Scanner::new(options).knowing(attempts);
    for path in paths {
        let _ = scanner.walk(path, &mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
    }
    scanner.finish(None)
}

/// A run by somebody whom the quota holds for: on ext4 not who may use up resources (`ignore_hardlimit`, fs/quota/dquot.c), and of
/// users on XFS not root.
fn run(paths: &[PathBuf], quota: Quota, attempts: Attempts) -> Report {
    thread::scope(|scope| {
        let run = scope.spawn(|| {
            if quota == Quota::User {
                // SAFETY: it changes the user of this thread for files and nothing else.
                unsafe { libc::setfsuid(ID) };
            }
            let mut sets = rustix::thread::capabilities(None).unwrap();
            sets.effective.remove(CapabilitySet::SYS_RESOURCE);
            rustix::thread::set_capabilities(None, sets).unwrap();
            let options = RunOptions { keep_free: KeepFree::default(), ..RunOptions::default() };
            carry_out(&planned(paths, attempts).files, &options, None, &Cancel::default(), &mut |_| ()).unwrap()
        });
        run.join().unwrap()
    })
}

/// Two files in pieces; the bytes of data that the first one's quota counts, those of the file beside it included.
fn files(disk: &Disk, quota: Quota) -> ([PathBuf; 2], u64) {
    let paths = ["limited/file", "other/file"].map(|name| disk.fragmented(name, 7, LENGTH, PIECE));
    let mut bytes = 0;
    for entry in fs::read_dir(disk.path("limited")).unwrap() {
        let path = entry.unwrap().path();
        bytes += fs::metadata(&path).unwrap().len();
        if quota == Quota::User {
            chown(&path, Some(ID), None).unwrap();
        }
    }
    if quota == Quota::User {
        // So that this user can come to the files, and make some.
        fs::set_permissions(disk.place().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(disk.place(), fs::Permissions::from_mode(0o755)).unwrap();
        chown(disk.path("limited"), Some(ID), None).unwrap();
    }
    rustix::fs::syncfs(fs::File::open(disk.place()).unwrap()).unwrap();
    (paths, bytes)
}

fn names_the_quota(system: System, quota: Quota) {
    let Some(mut disk) = disk_with(system, quota) else { return };
    let (paths, bytes) = files(&disk, quota);
    let [limited, other] = &paths;
    let before = [seen(limited), seen(other)];
    let place = map_of(limited);
    // The second file's quota is another one, or its user may not move it.
    let both = quota != Quota::User;
    let tried = if both { paths.to_vec() } else { vec![limited.clone()] };

    limit(&disk, quota, Some(bytes + LENGTH / 2));
    let report = run(&tried, quota, Attempts::default());
    println!("{report}");
    assert!(report.is_complete(), "{report:?}");
    let find = |path: &Path| report.files.iter().find(|file| file.path == path).unwrap();
    let left = find(limited);
    assert_eq!((&left.outcome, left.written_bytes, left.ranges_moved), (&FileOutcome::Done, 0, 0), "{left:?}");
    assert!(!left.left.is_empty() && left.left.iter().all(|left| left.why == Left::Quota), "{left:?}");
    assert_eq!(map_of(limited).extents(), place.extents());
    if both {
        let moved = find(other);
        assert_eq!((moved.left.len(), moved.pieces_after), (0, 1), "{moved:?}");
    }
    let told: Vec<String> =
        report.to_string().lines().filter(|line| line.starts_with("left")).map(str::to_owned).collect();
    assert!(told.len() == 1 && told[0].contains(SAID), "{told:?}");
    assert_eq!([seen(limited), seen(other)], before);

    // It was the quota and nothing else, and a later run knows that it may be another one by now.
    limit(&disk, quota, None);
    let notes = disk.image().with_extension("attempts");
    Attempts::add(&notes, &report.attempts).unwrap();
    let report = run(&tried, quota, Attempts::load(&notes));
    let moved = report.files.iter().find(|file| &file.path == limited).unwrap();
    assert_eq!((moved.left.len(), moved.pieces_after), (0, 1), "{moved:?}");
    assert_eq!([seen(limited), seen(other)], before);
    disk.check();
}

#[test]
fn btrfs_names_the_quota_of_a_subvolume() {
    names_the_quota(System::Btrfs, Quota::Subvolume);
}

#[test]
fn ext4_names_the_quota_of_a_project() {
    names_the_quota(System::Ext4, Quota::Project);
}

#[test]
fn xfs_names_the_quota_of_a_project() {
    names_the_quota(System::Xfs, Quota::Project);
}

#[test]
fn xfs_names_the_quota_of_a_user() {
    names_the_quota(System::Xfs, Quota::User);
}

/// Btrfs is held room by the unnamed file and writes beside it. Where the quota has room for the one and not for both, the file is
/// moved into what is held.
#[test]
fn btrfs_moves_what_the_quota_has_room_for_once() {
    let Some(mut disk) = disk_with(System::Btrfs, Quota::Subvolume) else { return };
    let ([limited, _], bytes) = files(&disk, Quota::Subvolume);
    let before = seen(&limited);
    limit(&disk, Quota::Subvolume, Some(bytes + LENGTH * 3 / 2));
    let report = run(std::slice::from_ref(&limited), Quota::Subvolume, Attempts::default());
    println!("{report}");
    let moved = &report.files[0];
    assert_eq!((&moved.outcome, moved.pieces_after, moved.left.len()), (&FileOutcome::Done, 1, 0), "{moved:?}");
    assert_eq!(seen(&limited), before);
    disk.check();
}

/// Where no more may be written at all there is not even room for a file without a name.
#[test]
fn btrfs_names_a_quota_that_is_exceeded() {
    let Some(mut disk) = disk_with(System::Btrfs, Quota::Subvolume) else { return };
    let (paths, bytes) = files(&disk, Quota::Subvolume);
    let before = paths.each_ref().map(|path| seen(path));
    limit(&disk, Quota::Subvolume, Some(bytes / 2));
    let report = run(&paths, Quota::Subvolume, Attempts::default());
    println!("{report}");
    assert!(report.is_complete(), "{report:?}");
    let told: Vec<String> =
        report.to_string().lines().filter(|line| line.starts_with("left")).map(str::to_owned).collect();
    assert!(told.len() == 1 && told[0].contains(SAID), "{told:?}");
    assert_eq!(map_of(&paths[1]).piece_count(map_of(&paths[1]).whole()), 1);
    assert_eq!(paths.each_ref().map(|path| seen(path)), before);
    disk.check();
}
