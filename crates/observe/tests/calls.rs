//! Programs followed on this machine.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crash::files::{Action, Call, Data, Durability, FileId};
use observe::calls::{FollowError, Followed, Options, follow};

/// The program of `examples/acts.rs`, which cargo builds with the tests.
fn acts() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/acts")
}

fn options(folder: &Path) -> Options {
    Options {
        folder: folder.to_owned(),
        acknowledge: None,
        data_bytes_max: 1 << 20,
        whole_bytes_max: 1 << 20,
        wait_for_all: true,
    }
}

/// What an act does, or `None` where nobody may be traced.
fn act(name: &str, folder: &Path, options: &Options) -> Option<Followed> {
    let mut command = Command::new(acts());
    command.arg(name).arg(folder.canonicalize().unwrap());
    let mut position = 0;
    let next = || {
        position += 10;
        position
    };
    match follow(command, options, next) {
        Ok(followed) => Some(followed),
        Err(FollowError::Trace { what, source }) => {
            println!("skipped: cannot {what}: {source}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A call in a few words; files by letters in the order in which they were first used.
fn said(calls: &[Call]) -> Vec<String> {
    let mut files: BTreeMap<FileId, char> = BTreeMap::new();
    let mut letters = 'A'..='Z';
    // A new file may have the number of one that is gone.
    let mut letter = |file: &FileId, is_new: bool| {
        if is_new {
            files.remove(file);
        }
        *files.entry(*file).or_insert_with(|| letters.next().unwrap())
    };
    let text = |data: &Data| match data {
        Data::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Data::Sectors(sectors) => format!("{sectors:?}"),
        Data::Zeroes(len_bytes) => format!("0x{len_bytes}"),
        Data::Unknown(len_bytes) => format!("?{len_bytes}"),
    };
    let what = calls.iter().map(|call| {
        let what = match &call.action {
            Action::Create { path, file } => format!("{path:?} {}", letter(file, true)),
            Action::Write { file, offset_bytes, data, durability } => {
                let durability = durability.map_or("", |it| if it == Durability::Data { " data" } else { " file" });
                format!("{} {offset_bytes} {:?}{durability}", letter(file, false), text(data))
            }
            Action::Truncate { file, size_bytes } => format!("{} {size_bytes}", letter(file, false)),
            Action::Allocate { file, offset_bytes, len_bytes, how } => {
                format!("{} {offset_bytes} {len_bytes} {how:?}", letter(file, false))
            }
            Action::Map { file, offset_bytes, len_bytes } | Action::SyncMap { file, offset_bytes, len_bytes } => {
                format!("{} {offset_bytes} {len_bytes}", letter(file, false))
            }
            Action::Rename { from, to, exchange } => format!("{from} {to}{}", if *exchange { " exchange" } else { "" }),
            Action::Link { file, path } => format!("{path} {}", letter(file, false)),
            Action::Symlink { path, file, target } => format!("{path} {} {target}", letter(file, true)),
            Action::MakeFolder { path, file } | Action::MakeNode { path, file } => {
                format!("{path} {}", letter(file, true))
            }
            Action::Unlink { path } => path.to_string(),
            Action::Sync { file, .. } | Action::SyncRange { file } => letter(file, false).to_string(),
            Action::SyncAll | Action::Unfollowed => String::new(),
        };
        format!("{} {what}", call.name).trim().to_owned()
    });
    what.collect()
}

/// The moments of a list are in order, and the positions are those that were given.
fn check_moments(calls: &[Call]) {
    let mut before = 0;
    for call in calls {
        assert!(call.entered.order < call.left.order, "{call:?}");
        assert!(call.left.order >= before, "{call:?}");
        assert_eq!(call.entered.position, call.entered.order * 10);
        assert_eq!(call.left.position, call.left.order * 10);
        before = call.left.order;
    }
}

fn check(name: &str, expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let Some(followed) = act(name, folder.path(), &options(folder.path())) else { return };
    assert!(followed.status.success(), "{}", followed.status);
    assert_eq!(said(&followed.calls), expected);
    let made = followed.calls.iter().filter_map(|call| match &call.action {
        Action::Create { path: Some(path), file } | Action::MakeNode { path, file } => Some((path.to_string(), *file)),
        _ => None,
    });
    for (path, file) in made {
        if let Ok(metadata) = fs::symlink_metadata(folder.path().join(path)) {
            assert_eq!(file, FileId { device: metadata.dev(), inode: metadata.ino() });
        }
    }
    check_moments(&followed.calls);
    assert_eq!(followed.unfollowed, Vec::<String>::new());
    // Who made each call is known.
    for call in &followed.calls {
        let runs =
            followed.programs.iter().rfind(|runs| runs.thread == call.thread && runs.from_order <= call.entered.order);
        assert!(runs.is_some_and(|runs| !runs.program.is_empty() && runs.process > 0), "{call:?}");
    }
    let mut text = Vec::new();
    followed.write(&mut text).unwrap();
    assert_eq!(Followed::read(text.as_slice()).unwrap(), followed);
}

#[test]
fn writes_of_all_forms_are_listed_with_their_places() {
    check(
        "files",
        &[
            "openat Some(\"a\") A",
            "write A 0 \"hello \"",
            "write A 6 \"world\"",
            "pwrite64 A 0 \"J\"",
            "pwritev A 100 \"1234\"",
            "fsync A",
            "ftruncate A 50",
            "fdatasync A",
            "fallocate A 0 8192 Extend",
            "fallocate A 0 4096 PunchHole",
            "write A 7 \"at seven\"",
            "write A 8192 \"end\"",
            "write A 0 \"d\" data",
            "pwritev2 A 8195 \"s\" file",
            "openat A 0",
            "sync",
        ],
    );
}

#[test]
fn names_are_resolved() {
    check(
        "names",
        &[
            "mkdir d A",
            "openat Some(\"d/one\") B",
            "write B 0 \"1\"",
            "rename d/one two",
            "linkat d/three B",
            "symlink d/link C ../two",
            "openat B 0",
            "renameat2 d/three d/link exchange",
            "unlink d/link",
            "rename d/three d/last",
            "unlink d/last",
            "rmdir d",
            "openat None D",
            "write D 0 \"t\"",
            "linkat named D",
            "mknodat pipe E",
            "fsync F",
            "rename none nothing",
        ],
    );
}

#[test]
fn copies_inside_the_kernel_have_their_bytes() {
    check(
        "copies",
        &[
            "openat Some(\"from\") A",
            "write A 0 \"0123456789\"",
            "openat Some(\"to\") B",
            "copy_file_range B 4 \"23456\"",
            "sendfile B 0 \"789\"",
            "splice B 20 \"piped\"",
        ],
    );
}

#[test]
fn shared_writable_mappings_are_said() {
    check(
        "maps",
        &["openat Some(\"m\") A", "ftruncate A 12288", "mmap A 4096 8192", "msync A 4096 4096", "mprotect A 0 4096"],
    );
}

#[test]
fn writes_of_threads_are_listed_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let Some(followed) = act("threads", folder.path(), &options(folder.path())) else { return };
    assert!(followed.status.success());
    check_moments(&followed.calls);
    let id = |name: &str| {
        let metadata = fs::metadata(folder.path().join(name)).unwrap();
        FileId { device: metadata.dev(), inode: metadata.ino() }
    };
    let log = id("log");
    let mut bytes: Vec<u8> = Vec::new();
    for call in &followed.calls {
        if let Action::Write { file, offset_bytes, data: Data::Bytes(data), .. } = &call.action
            && *file == log
        {
            assert_eq!(*offset_bytes, bytes.len() as u64);
            bytes.extend(data);
        }
    }
    assert_eq!(bytes, fs::read(folder.path().join("log")).unwrap());
    // Four threads beside the first.
    assert_eq!(followed.calls.iter().map(|call| call.thread).max(), Some(4));
}

#[test]
fn signals_stops_children_and_exec_are_as_without_a_tracer() {
    let folder = tempfile::tempdir().unwrap();
    let Some(followed) = act("children", folder.path(), &options(folder.path())) else { return };
    assert!(followed.status.success(), "{}", followed.status);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("signalled"), "got\n");
    assert_eq!(read("shell"), "sub\n");
    assert_eq!(read("stopped"), "on\n");
    let said = said(&followed.calls);
    let end = ["openat Some(\"new\") D", "write D 0 \"contents\"", "fsync D", "rename new file", "fsync E"];
    assert_eq!(said[said.len() - end.len()..], end);
    assert!(said.iter().any(|call| call == "write C 0 \"on\\n\""), "{said:#?}");
}

#[test]
fn complete_lines_are_acknowledgements() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::NamedTempFile::new().unwrap();
    let with = Options { acknowledge: Some(outside.path().to_owned()), ..options(folder.path()) };
    let Some(followed) = act("acknowledge", folder.path(), &with) else { return };
    assert!(followed.status.success());
    let lines: Vec<&str> = followed.acknowledgements.iter().map(|it| it.line.as_str()).collect();
    assert_eq!(lines, ["wrote f", "and synced"]);
    let sync = followed.calls.last().unwrap();
    assert_eq!(sync.action, Action::SyncAll);
    assert!(followed.acknowledgements[0].at < sync.entered && sync.left < followed.acknowledgements[1].at);
    let below = Options { acknowledge: Some(folder.path().join("f")), ..options(folder.path()) };
    let refused = follow(Command::new(acts()), &below, || 0);
    assert!(matches!(refused, Err(FollowError::AcknowledgeBelow(_))));
}

#[test]
fn a_command_may_fail_die_or_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(followed) = act("die", folder.path(), &options(folder.path())) else { return };
    assert_eq!(followed.status.signal(), Some(libc::SIGKILL));
    assert_eq!(said(&followed.calls), ["openat Some(\"before\") A", "write A 0 \"x\""]);
    let missing = follow(Command::new("/none/such"), &options(folder.path()), || 0);
    assert!(matches!(missing, Err(FollowError::Start { .. })), "{missing:?}");
    let nul = follow(Command::new("a\0b"), &options(folder.path()), || 0);
    assert!(matches!(nul, Err(FollowError::Start { .. })), "{nul:?}");
    let nowhere = follow(Command::new("true"), &options(Path::new("/none/such")), || 0);
    assert!(matches!(nowhere, Err(FollowError::Folder { .. })));
    let mut failing = Command::new("sh");
    failing.args(["-c", "exit 7"]);
    assert_eq!(follow(failing, &options(folder.path()), || 0).unwrap().status.code(), Some(7));
}

#[test]
fn what_is_left_behind_ends_with_the_command_where_asked() {
    let folder = tempfile::tempdir().unwrap();
    let killed = Options { wait_for_all: false, ..options(folder.path()) };
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 1000 & exit 3"]);
    match follow(command, &killed, || 0) {
        Ok(followed) => assert_eq!(followed.status.code(), Some(3)),
        Err(error) => println!("skipped: {error}"),
    }
}

#[test]
fn other_children_are_left_to_those_who_wait_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = Command::new("true").spawn().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 0.1"]);
    if let Err(error) = follow(command, &options(folder.path()), || 0) {
        println!("skipped: {error}");
    }
    assert!(other.wait().unwrap().success());
}

#[test]
fn what_is_not_followed_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let Some(followed) = act("ring", folder.path(), &options(folder.path())) else { return };
    if !followed.status.success() {
        println!("skipped: the kernel has no io_uring");
        return;
    }
    assert_eq!(said(&followed.calls), ["io_uring_setup"]);
    assert_eq!(followed.unfollowed, ["io_uring"]);
}

#[test]
fn requests_are_over_when_their_ends_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let Some(followed) = act("requests", folder.path(), &options(folder.path())) else { return };
    if !followed.status.success() {
        println!("skipped: the kernel has no Linux AIO");
        return;
    }
    assert_eq!(followed.unfollowed, Vec::<String>::new());
    let expected = [
        "openat Some(\"a\") A",
        "io_submit (pwrite) A 3 \"later\"",
        "io_submit (fsync) A",
        "io_submit (pwrite) A 8 \"later\"",
    ];
    assert_eq!(said(&followed.calls), expected);
    check_moments(&followed.calls);
    let results: Vec<Option<i64>> = followed.calls.iter().skip(1).map(|call| call.result).collect();
    assert_eq!(results, [Some(5), Some(0), None]);
    // What was over when the synchronisation was asked for is what it covers.
    assert!(followed.calls[1].left.order < followed.calls[2].entered.order);
}

#[test]
fn bytes_that_have_no_room_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let small = Options { data_bytes_max: 8, ..options(folder.path()) };
    let Some(followed) = act("files", folder.path(), &small) else { return };
    let said = said(&followed.calls);
    assert_eq!(said[1..4], ["write A 0 \"hello \"", "write A 6 \"?5\"", "pwrite64 A 0 \"J\""]);
    assert_eq!(followed.calls[2].result, Some(5));
}
