//! Programs followed on this machine, and the files that they leave judged by what they were promised.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crash::files::{Action, Contents, FilePath, Found, Node, Promises, Rules, judge};
use observe::calls::{FollowError, Followed, Options, follow};
use observe::tree::read_tree;

/// Most bytes of the files here.
const BYTES_MAX: u64 = 64 << 20;
/// All of them are kept.
const WHOLE_BYTES_MAX: u64 = BYTES_MAX;

/// The program of `examples/acts.rs`, which cargo builds with the tests.
fn acts() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/acts")
}

/// What a command did to a folder that had `initial` files, and what it left.
struct Done {
    initial: Found,
    followed: Followed,
    left: Found,
}

fn run(folder: &Path, mut command: Command) -> Option<Done> {
    command.current_dir(folder);
    let initial = read_tree(folder, BYTES_MAX, WHOLE_BYTES_MAX).unwrap();
    let options = Options {
        folder: folder.to_owned(),
        acknowledge: None,
        data_bytes_max: BYTES_MAX,
        whole_bytes_max: WHOLE_BYTES_MAX,
        wait_for_all: true,
    };
    let mut position = 0;
    let next = || {
        position += 1;
        position
    };
    match follow(command, &options, next) {
        Ok(followed) => {
            assert!(followed.status.success(), "{}", followed.status);
            Some(Done { initial, followed, left: read_tree(folder, BYTES_MAX, WHOLE_BYTES_MAX).unwrap() })
        }
        Err(FollowError::Trace { what, source }) => {
            println!("skipped: cannot {what}: {source}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn act(folder: &Path, name: &str) -> Option<Done> {
    let mut command = Command::new(acts());
    command.arg(name).arg(folder);
    run(folder, command)
}

impl Done {
    fn say(&self, file_system: &str, found: &Found) -> Vec<String> {
        let promises = Promises::new(Rules::of(file_system), &self.initial, &self.followed.calls);
        assert!(promises.knows(u64::MAX));
        judge(&promises.promised(u64::MAX), found).iter().map(ToString::to_string).collect()
    }

    /// As if everything had been synced at the end: then nothing but what was left is allowed.
    fn say_after_sync(&self, found: &Found) -> Vec<String> {
        let mut calls = self.followed.calls.clone();
        let mut sync = calls.last().unwrap().clone();
        sync.name = "sync".to_owned();
        sync.action = Action::SyncAll;
        sync.result = Some(0);
        sync.entered.order = sync.left.order + 1;
        sync.left.order += 2;
        calls.push(sync);
        let promises = Promises::new(Rules::of("vfat"), &self.initial, &calls);
        judge(&promises.promised(u64::MAX), found).iter().map(ToString::to_string).collect()
    }
}

#[test]
fn what_programs_leave_is_as_promised() {
    for name in ["files", "names", "copies", "maps", "threads", "children", "replace"] {
        let folder = tempfile::tempdir().unwrap();
        let Some(done) = act(folder.path(), name) else { return };
        for file_system in ["ext4", "xfs", "btrfs", "f2fs", "vfat"] {
            assert_eq!(done.say(file_system, &done.left), Vec::<String>::new(), "{name} on {file_system}");
        }
        assert_eq!(done.say_after_sync(&done.left), Vec::<String>::new(), "{name}");
    }
}

/// The model replays the calls: each change of what they left is noticed.
#[test]
fn every_change_of_what_was_synced_is_complained_about() {
    for name in ["files", "names", "copies", "threads", "replace"] {
        let folder = tempfile::tempdir().unwrap();
        let Some(done) = act(folder.path(), name) else { return };
        for (path, entry) in done.left.entries() {
            let mut without = done.left.clone();
            without.remove(path);
            assert!(!done.say_after_sync(&without).is_empty(), "{name}: {path} is missing");
            let Node::File(contents) = &entry.node else { continue };
            let size_bytes = contents.size_bytes();
            let change = |contents: Contents, what: &str| {
                let mut changed = done.left.clone();
                changed.get_mut(path).unwrap().node = Node::File(contents);
                assert!(!done.say_after_sync(&changed).is_empty(), "{name}: {path}: {what}");
            };
            let mut longer = contents.clone();
            longer.resize(size_bytes + 1);
            change(longer, "one byte more");
            for at in [0, size_bytes / 2, size_bytes.saturating_sub(1)].into_iter().filter(|at| *at < size_bytes) {
                let mut other = contents.clone();
                other.put(at, &[0xee]);
                change(other, &format!("byte {at}"));
            }
        }
        let mut more = done.left.clone();
        let entry = done.left.entries().next().unwrap().1.clone();
        more.insert(FilePath::from("more"), entry);
        assert!(!done.say_after_sync(&more).is_empty(), "{name}: one more");
    }
}

#[test]
fn the_safe_way_of_replacing_a_file_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), b"before").unwrap();
    let Some(done) = act(folder.path(), "replace") else { return };
    let said = done.say("vfat", &done.initial);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("\"file\": still there, though it was removed, renamed or replaced"), "{said:?}");
    let mut empty = done.left.clone();
    empty.get_mut(&FilePath::from("file")).unwrap().node = Node::File(Contents::zeroes(0));
    let said = done.say("vfat", &empty);
    assert!(said[0].starts_with("\"file\": wrong size: 0 bytes instead of 8; promised by call 2 (fsync)"), "{said:?}");
}

/// A program that nobody here wrote; it writes with its own order of names and synchronisations.
#[test]
fn a_database_is_followed() {
    let script = "import sqlite3; c = sqlite3.connect('db'); c.execute('create table t (a)')\n\
                  for i in range(20):\n  c.execute('insert into t values (?)', (i,)); c.commit()\n\
                  c.close()";
    if !Command::new("python3").args(["-c", "import sqlite3"]).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: no python3 with sqlite3");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command.args(["-c", script]);
    let Some(done) = run(folder.path(), command) else { return };
    assert_eq!(done.say("ext4", &done.left), Vec::<String>::new());
    assert_eq!(done.say_after_sync(&done.left), Vec::<String>::new());
    // Its last transaction was synced: without it, the judge has something to say.
    let mut older = done.left.clone();
    let db = FilePath::from("db");
    let Node::File(contents) = &mut older.get_mut(&db).unwrap().node else { panic!("no file") };
    contents.put(4096, &[0; 4096]);
    assert!(!done.say("ext4", &older).is_empty());
}
