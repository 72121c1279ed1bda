//! What a file system takes in memory with a folder of ten million entries, and with a million open files, in a process of its own.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use betrfs::{
    Caller, Cookie, DirectoryEntry, Error, InodeNumber, Kind, Name, Operations, Permissions, Timestamp, Volume,
    VolumeOptions, check,
};
use storage::{File, FileOptions};

/// Set in the process that does the work: the folder for its file system, and how many entries.
const FOLDER: &str = "PLUMB_MEMORY_FOLDER";
const ENTRIES: &str = "PLUMB_MEMORY_ENTRIES";

fn options() -> VolumeOptions {
    let store = betree::Options {
        cache_bytes: 16 << 20,
        memtable_bytes: 8 << 20,
        fresh_bytes: 16 << 20,
        log_bytes: 32 << 20,
        ..betree::Options::default()
    };
    VolumeOptions { store, inode_cache_bytes: 4 << 20, recent_bytes: 4 << 20, ..VolumeOptions::default() }
}

/// The most that this process had resident.
fn most_resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// The most that the process had resident so far is within a quarter more of the most that its file system was to take.
fn within(what: &str, fs: &Volume, budget: &mut u64) {
    *budget = fs.budget_bytes().max(*budget);
    let most = most_resident_bytes();
    println!("{what}: {} MiB resident at most, budget {} MiB", most >> 20, *budget >> 20);
    assert!(most * 4 <= *budget * 5, "{what}: {most} bytes resident with a budget of {budget}");
}

/// How many entries a directory has: some thousand at a time, as a server reads them.
fn list(fs: &Volume, directory: InodeNumber) -> u64 {
    let (mut after, mut count) = (Cookie::START, 0);
    loop {
        let before = count;
        let (mut room, from) = (5000, after);
        let mut add = |entry: DirectoryEntry<'_>| {
            room -= 1;
            if room == 0 {
                return false;
            }
            after = entry.next;
            count += 1;
            true
        };
        fs.readdir(directory, from, &mut add).unwrap();
        if count == before {
            return count;
        }
    }
}

fn live(folder: &str, entries: u64) {
    let path = Path::new(folder).join("disk");
    let file = FileOptions { capacity_bytes: Some(8 << 30), ..FileOptions::default() };
    let now = Timestamp::default();
    let fs = Volume::create(File::open(&path, &file).unwrap(), options(), 7, now).unwrap();
    let caller = Caller { uid: 0, gid: 0, groups: &[], umask: 0, now };
    let permissions = Permissions::of_mode(0o644);
    let many = fs.mkdir(&caller, InodeNumber::ROOT, Name::new(b"many").unwrap(), permissions).unwrap().inode;
    // In no order of names.
    let name = |number: u64| format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for number in 0..entries {
        fs.mknod(&caller, many, Name::new(name(number).as_bytes()).unwrap(), Kind::File, permissions, 0).unwrap();
    }
    fs.syncfs().unwrap();
    let mut budget = 0;
    within("made", &fs, &mut budget);
    assert_eq!(list(&fs, many), entries + 2);
    within("listed", &fs, &mut budget);
    let mut every_tenth = Vec::with_capacity(entries.div_ceil(10) as usize);
    for number in (0..entries).step_by(10) {
        let found = fs.lookup(many, Name::new(name(number).as_bytes()).unwrap()).unwrap();
        fs.open(found.inode).unwrap();
        every_tenth.push(found.inode);
    }
    assert!(matches!(fs.lookup(many, Name::new(b"absent").unwrap()), Err(Error::NotFound)));
    within("open", &fs, &mut budget);
    // Some of them without their names.
    for number in (0..entries).step_by(1000) {
        fs.unlink(&caller, many, Name::new(name(number).as_bytes()).unwrap()).unwrap();
    }
    for inode in every_tenth {
        fs.release(inode).unwrap();
    }
    fs.syncfs().unwrap();
    assert_eq!(list(&fs, many), entries - entries.div_ceil(1000) + 2);
    within("let go", &fs, &mut budget);
    drop(fs);
    assert_eq!(check(File::open(&path, &FileOptions::default()).unwrap(), &options()).unwrap(), []);
}

#[test]
fn many_entries_and_open_files_stay_within_memory() {
    if let Ok(folder) = std::env::var(FOLDER) {
        return live(&folder, std::env::var(ENTRIES).unwrap().parse().unwrap());
    }
    if std::env::var_os("PLUMB_LONG").is_none() {
        println!("skipped: ten million files take minutes; PLUMB_LONG=1 runs it");
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let entries = std::env::var(ENTRIES).unwrap_or_else(|_| "10000000".to_owned());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "many_entries_and_open_files_stay_within_memory", "--nocapture"]);
    assert!(command.env(FOLDER, folder.path()).env(ENTRIES, entries).status().unwrap().success());
}
