//! What lies below a folder and is not looked into is told with its name, its kind and what to do: subvolumes, snapshots, and
//! whatever is mounted there. Named itself, it is looked into.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use defrag::extents::WriteBack;
use defrag::plan::{Mode, Plan, SkipReason, dry_run_text};
use defrag::run::{Cancel, RunOptions, carry_out};
use defrag::scan::{ScanOptions, Scanner};
use disk::{Disk, System, beside, ran, skipped, unmount};

const LENGTH: u64 = 1 << 20;
const PIECE: u64 = 16 << 10;

/// A mount below another disk, which goes before that.
struct Below(PathBuf);

impl Below {
    fn mount(kind: &str, options: &str, source: &Path, place: PathBuf) -> Self {
        fs::create_dir(&place).unwrap();
        ran(Command::new("mount").args(["-t", kind, "-o", options]).arg(source).arg(&place));
        Self(place)
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}

fn planned(roots: &[&Path]) -> (Plan, u64) {
    let options = ScanOptions { mode: Mode::Whole, write_back: WriteBack::First, ..ScanOptions::default() };
    let mut scanner = Scanner::new(options);
    for root in roots {
        assert!(scanner.walk(root, &mut |_, _| std::ops::ControlFlow::Continue(())).unwrap().is_continue());
    }
    let refused = scanner.counts().refused;
    (scanner.finish(None), refused)
}

fn sorted(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths
}

/// The files that a plan moves.
fn to_move(plan: &Plan) -> Vec<PathBuf> {
    sorted(plan.files.iter().map(|file| file.file.path.clone()).collect())
}

#[test]
fn borders_are_told() {
    if skipped(System::Btrfs) || skipped(System::Ext4) {
        return;
    }
    let mut disk = Disk::new(System::Btrfs);
    let mut second = Disk::new(System::Ext4);
    let subvolume = |arguments: &[&str], names: &[&str]| {
        let paths = names.iter().map(|name| disk.path(name));
        ran(Command::new("btrfs").arg("subvolume").args(arguments).args(paths));
    };
    fs::create_dir_all(disk.path("folder/deep")).unwrap();
    fs::create_dir(disk.path("folder/bound from")).unwrap();
    subvolume(&["create"], &["folder/subvolume"]);
    // Of it empty: what a snapshot shares is left alone.
    subvolume(&["snapshot", "-r"], &["folder/subvolume", "folder/snapshot"]);
    subvolume(&["create"], &["mounted"]);
    let inside = disk.fragmented("folder/inside", 1, LENGTH, PIECE);
    let bound = disk.fragmented("folder/bound from/file", 4, LENGTH, PIECE);
    // After the mount in any order of names.
    let behind = disk.fragmented("folder/zz", 5, LENGTH, PIECE);
    let in_subvolume = disk.fragmented("folder/subvolume/file", 2, LENGTH, PIECE);
    let on_second = second.fragmented("file", 3, LENGTH, PIECE);

    let device = disk.device().to_owned();
    let below = [
        Below::mount("ext4", "rw", second.device(), disk.path("folder/deep/other disk")),
        Below::mount("btrfs", "subvol=mounted", &device, disk.path("folder/mount of a subvolume")),
        Below::mount("tmpfs", "size=1m", Path::new("memory"), disk.path("folder/memory")),
        // Hides the other disk's file.
        Below::mount("ext4", "rw", second.device(), disk.path("folder/again")),
        // Of the same device as the folder around it.
        Below::mount("none", "bind", &disk.path("folder/bound from"), disk.path("folder/bound")),
    ];
    fs::write(disk.path("folder/memory/file"), [1; 9000]).unwrap();

    let root = disk.path("folder");
    let (plan, refused) = planned(&[&root]);
    let text = dry_run_text(&plan, usize::MAX);
    println!("{text}");
    let once = [&inside, &bound, &behind].map(|path| [beside(path, 0), path.clone()]);
    assert_eq!(to_move(&plan), sorted(once.concat()));
    assert_eq!(refused, 0, "nothing of it could not be looked at");
    let mut told: Vec<(PathBuf, SkipReason)> = plan
        .skipped
        .iter()
        .map(|skipped| (skipped.path.strip_prefix(&root).unwrap().to_owned(), skipped.reason.clone()))
        .filter(|(_, reason)| *reason != SkipReason::NotSplit)
        .collect();
    told.sort();
    let other = |kind: &str| SkipReason::OtherMount(kind.to_owned());
    let expected = [
        ("again", other("ext4")),
        ("bound", other("btrfs")),
        ("deep/other disk", other("ext4")),
        ("memory", SkipReason::NoDisk("tmpfs".to_owned())),
        ("mount of a subvolume", other("btrfs")),
        ("snapshot", SkipReason::Subvolume),
        ("subvolume", SkipReason::Subvolume),
    ];
    assert_eq!(told, expected.map(|(name, reason)| (PathBuf::from(name), reason)));
    let counted = |name: &str| plan.skipped_by_reason.get(name).copied();
    assert_eq!((counted("subvolume"), counted("other-mount"), counted("no-disk")), (Some(2), Some(4), Some(1)));

    // The person who only reads the short text sees each of those that another run could look into.
    let short = dry_run_text(&plan, 20);
    let line = |name: &str, words: &str| {
        let start = format!("{}: left alone, ", root.join(name).display());
        assert!(short.lines().any(|line| line.starts_with(&start) && line.contains(words)), "{name}: {short}");
    };
    line("subvolume", "a subvolume, which is not looked into; name its path too");
    line("snapshot", "a subvolume");
    line("deep/other disk", "a mount of ext4, which is not looked into; name its path too");
    line("mount of a subvolume", "a mount of btrfs");
    assert!(!short.contains("memory:"), "{short}");

    // So does who reads the report of a run.
    let options = RunOptions::default();
    let mut report = carry_out(&plan.files, &options, None, &Cancel::default(), &mut |_| ()).unwrap();
    (report.skipped, report.skipped_by_reason) = (plan.skipped.clone(), plan.skipped_by_reason.clone());
    let said = report.to_string();
    for words in ["2 subvolume", "4 other-mount", "folder/subvolume: a subvolume", "other disk: a mount of ext4"] {
        assert!(said.contains(words), "{words}: {said}");
    }

    // What it says to do does it; what was moved is whole by now.
    let mounted = root.join("deep/other disk");
    let (plan, _) = planned(&[&root.join("subvolume"), &mounted, &root]);
    let expected = [mounted.join(on_second.file_name().unwrap()), beside(&in_subvolume, 0), in_subvolume];
    assert_eq!(to_move(&plan), sorted(expected.to_vec()), "{}", dry_run_text(&plan, usize::MAX));
    drop(below);
    disk.check();
    second.check();
}
