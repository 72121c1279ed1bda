//! Single promises, and what is said where they are broken.

use crash::files::{
    Action, Allocation, Call, Change, Contents, Data, Durability, Entry, Fault, FileId, FilePath, Found, Instead,
    Moment, Node, Promises, Rules, judge,
};

const ROOT: u64 = 1;

fn id(inode: u64) -> FileId {
    FileId { device: 1, inode }
}

fn path(text: &str) -> FilePath {
    FilePath::from(text)
}

/// A list of calls, one after the other; the position is ten times the number of calls before.
#[derive(Default)]
struct Calls(Vec<Call>);

impl Calls {
    fn add(mut self, name: &str, action: Action) -> Self {
        let number = self.0.len() as u64;
        let entered = Moment { order: 2 * number + 1, position: 10 * number };
        let left = Moment { order: 2 * number + 2, position: 10 * number + 5 };
        self.0.push(Call { thread: 0, name: name.to_owned(), entered, left, result: Some(0), action });
        self
    }

    fn create(self, name: &str, file: u64) -> Self {
        self.add("openat", Action::Create { path: Some(path(name)), file: id(file) })
    }

    fn write(self, file: u64, offset_bytes: u64, bytes: &[u8]) -> Self {
        let data = Data::Bytes(bytes.to_vec());
        self.add("write", Action::Write { file: id(file), offset_bytes, data, durability: None })
    }

    fn fsync(self, file: u64) -> Self {
        self.add("fsync", Action::Sync { file: id(file), data_only: false })
    }

    fn fdatasync(self, file: u64) -> Self {
        self.add("fdatasync", Action::Sync { file: id(file), data_only: true })
    }

    fn rename(self, from: &str, to: &str) -> Self {
        self.add("rename", Action::Rename { from: path(from), to: path(to), exchange: false })
    }

    fn truncate(self, file: u64, size_bytes: u64) -> Self {
        self.add("ftruncate", Action::Truncate { file: id(file), size_bytes })
    }

    fn sync(self) -> Self {
        self.add("sync", Action::SyncAll)
    }

    /// What is said after all of them.
    fn say(&self, file_system: &str, found: &Found) -> Vec<String> {
        self.say_at(file_system, u64::MAX, found)
    }

    fn say_at(&self, file_system: &str, until: u64, found: &Found) -> Vec<String> {
        self.say_from(&tree(&[]), file_system, until, found)
    }

    fn say_from(&self, initial: &Found, file_system: &str, until: u64, found: &Found) -> Vec<String> {
        let promises = Promises::new(Rules::of(file_system), initial, &self.0);
        judge(&promises.promised(until), found).iter().map(ToString::to_string).collect()
    }
}

/// Files with their numbers and bytes; a name that ends in a slash is a folder.
fn tree(files: &[(&str, u64, &[u8])]) -> Found {
    let mut found = Found::new(id(ROOT));
    for (name, file, bytes) in files {
        let node = if name.ends_with('/') { Node::Folder } else { Node::File(Contents::from(*bytes)) };
        found.insert(path(name.trim_end_matches('/')), Entry { file: id(*file), node });
    }
    found
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_name_is_durable_by_the_rules_of_its_file_system() {
    let calls = Calls::default().create("a", 2).write(2, 0, b"hello").fsync(2);
    let missing = ["\"a\": missing; promised by call 2 (fsync), over at position 25 of the log"];
    for file_system in ["ext4", "xfs", "btrfs", "f2fs"] {
        assert_eq!(calls.say(file_system, &tree(&[])), missing, "{file_system}");
    }
    assert_eq!(calls.say("vfat", &tree(&[])), NOTHING);
    // Before fsync is over nothing is promised.
    assert_eq!(calls.say_at("ext4", 24, &tree(&[])), NOTHING);
    // fsync of the folder is enough everywhere, and then what was promised of the file holds.
    let calls = calls.fsync(ROOT);
    let missing = ["\"a\": missing; promised by call 3 (fsync), over at position 35 of the log"];
    assert_eq!(calls.say("vfat", &tree(&[])), missing);
    assert_eq!(calls.say("vfat", &tree(&[("a", 2, b"hello")])), NOTHING);
    let size = "\"a\": wrong size: 0 bytes instead of 5; promised by call 2 (fsync), over at position 25 of the log";
    assert_eq!(calls.say("vfat", &tree(&[("a", 2, b"")])), [size]);
}

#[test]
fn bytes_are_as_promised_or_as_written_since() {
    let old = vec![1_u8; 2048];
    let calls = Calls::default().create("a", 2).write(2, 0, &old).fsync(2).write(2, 512, &[2; 1024]);
    let found = |bytes: &[u8]| tree(&[("a", 2, bytes)]);
    // Each sector of what was not promised may be old or new.
    for (one, other) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let mut bytes = old.clone();
        bytes[512..1024].fill(one);
        bytes[1024..1536].fill(other);
        assert_eq!(calls.say("ext4", &found(&bytes)), NOTHING);
    }
    // And so may each byte, as a page can be changed on its way to the device; but it is not something else.
    let mut torn = old.clone();
    torn[512..700].fill(2);
    assert_eq!(calls.say("ext4", &found(&torn)), NOTHING);
    let by = "; promised by call 2 (fsync), over at position 25 of the log";
    let foreign = format!("\"a\": bytes that were never written there in bytes 512 to 1023{by}");
    let mut wrong = torn.clone();
    wrong[699] = 3;
    assert_eq!(calls.say("ext4", &found(&wrong)), [foreign]);
    let zeroes = format!("\"a\": zeroes in bytes 0 to 2047{by}");
    assert_eq!(calls.say("ext4", &found(&[0; 2048])), [zeroes]);
    // When the overwrite is promised too, what was there is an old version.
    let calls = calls.fdatasync(2);
    let older =
        "\"a\": an old version in bytes 512 to 1535; promised by call 4 (fdatasync), over at position 45 of the log";
    assert_eq!(calls.say("vfat", &found(&old)), [older]);
    assert_eq!(calls.say("ext4", &found(&old)), [older]);
    // And what is mixed with it was not overwritten whole.
    let by = "; promised by call 4 (fdatasync), over at position 45 of the log";
    let said = calls.say("ext4", &found(&torn));
    assert_eq!(said[0], format!("\"a\": bytes that were never written there in bytes 512 to 1023{by}"), "{said:?}");
}

#[test]
fn a_size_is_as_promised_or_anything_on_the_way_to_later_ones() {
    let calls = Calls::default().create("a", 2).write(2, 0, &[1; 600]).sync().write(2, 600, &[1; 400]).truncate(2, 100);
    let found = |len: usize| tree(&[("a", 2, &vec![1; len])]);
    assert_eq!(calls.say_at("vfat", 25, &found(600)), NOTHING);
    let wrong =
        "\"a\": wrong size: 599 bytes instead of 600; promised by call 2 (sync), over at position 25 of the log";
    assert_eq!(calls.say_at("vfat", 25, &found(599)), [wrong]);
    assert_eq!(calls.say_at("vfat", 30, &found(999)), NOTHING);
    assert_eq!(calls.say_at("vfat", 30, &found(1001)).len(), 1);
    assert_eq!(calls.say("vfat", &found(100)), NOTHING);
    let wrong =
        "\"a\": wrong size: 99 bytes instead of 100 to 1000; promised by call 2 (sync), over at position 25 of the log";
    assert_eq!(calls.say("vfat", &found(99)), [wrong]);
    // fdatasync promises the size too.
    let calls = calls.fdatasync(2);
    assert_eq!(calls.say("vfat", &found(101)).len(), 1);
}

#[test]
fn a_synchronous_write_promises_itself_alone() {
    let write = |offset_bytes, durability| Action::Write {
        file: id(2),
        offset_bytes,
        data: Data::Bytes(vec![7; 512]),
        durability,
    };
    let calls = Calls::default().create("a", 2).write(2, 0, &[1; 512]).sync();
    let calls = calls.write(2, 0, &[2; 512]).add("pwrite64", write(512, Some(Durability::Data)));
    let found = |first: u8, second: u8| {
        let mut bytes = vec![first; 1024];
        bytes[512..].fill(second);
        tree(&[("a", 2, &bytes)])
    };
    assert_eq!(calls.say("ext4", &found(1, 7)), NOTHING);
    assert_eq!(calls.say("ext4", &found(2, 7)), NOTHING);
    let by = "; promised by call 4 (pwrite64), over at position 45 of the log";
    assert_eq!(calls.say("ext4", &found(2, 0)), [format!("\"a\": zeroes in bytes 512 to 1023{by}")]);
    let short = format!("\"a\": wrong size: 512 bytes instead of 1024{by}");
    assert_eq!(calls.say("ext4", &tree(&[("a", 2, &[2; 512])])), [short]);
    // O_SYNC is fsync after each write, and that keeps the name.
    let calls = |how| Calls::default().create("a", 2).add("write", write(0, Some(how)));
    assert_eq!(calls(Durability::Data).say("ext4", &tree(&[])), NOTHING);
    assert_eq!(calls(Durability::File).say("ext4", &tree(&[])).len(), 1);
}

#[test]
fn replacing_by_rename_leaves_the_old_or_the_new_file() {
    let initial = tree(&[("file", 2, b"old")]);
    let calls = Calls::default().create("new", 3).write(3, 0, b"new").fsync(3).rename("new", "file");
    let say = |found: &Found| calls.say_from(&initial, "ext4", u64::MAX, found);
    assert_eq!(say(&tree(&[("file", 2, b"old"), ("new", 3, b"new")])), NOTHING);
    assert_eq!(say(&tree(&[("file", 3, b"new")])), NOTHING);
    assert_eq!(say(&tree(&[("new", 3, b"new")])), ["\"file\": missing; no later call allows it"]);
    assert_eq!(calls.say_from(&initial, "vfat", u64::MAX, &tree(&[("new", 3, b"new")])), NOTHING);
    let by = "; promised by call 2 (fsync), over at position 25 of the log";
    let lost = format!("\"new\": lost: it is under none of its names [\"new\", \"file\"]{by}");
    assert_eq!(say(&tree(&[("file", 2, b"old")])), [lost]);
    let both = tree(&[("file", 3, b"new"), ("new", 3, b"new")]);
    assert_eq!(say(&both), [format!("\"new\": a rename left both this name and \"file\"{by}")]);
    assert_eq!(calls.say_from(&initial, "btrfs", u64::MAX, &both), NOTHING);
    // Without fsync before, the new file may be empty.
    let hasty = Calls::default().create("new", 3).write(3, 0, b"new").rename("new", "file");
    assert_eq!(hasty.say_from(&initial, "ext4", u64::MAX, &tree(&[("file", 3, b"")])), NOTHING);
    // And when the folder is synced, the old file is gone for good.
    let calls = calls.fsync(ROOT);
    let old = calls.say_from(&initial, "vfat", u64::MAX, &tree(&[("file", 2, b"old")]));
    let by = "promised by call 4 (fsync), over at position 45 of the log";
    assert_eq!(old, [format!("\"file\": still there, though it was removed, renamed or replaced; {by}")]);
}

#[test]
fn fsync_of_a_renamed_file_moves_its_name_for_good() {
    let initial = tree(&[("d/", 5, b""), ("a", 2, b"x")]);
    let calls = Calls::default().rename("a", "d/b").fsync(2);
    let say = |file_system, found: &Found| calls.say_from(&initial, file_system, u64::MAX, found);
    assert_eq!(say("btrfs", &tree(&[("d/", 5, b""), ("d/b", 2, b"x")])), NOTHING);
    assert_eq!(say("btrfs", &initial).len(), 2);
    assert_eq!(say("vfat", &initial), NOTHING);
    // A name that something else has meanwhile is not the business of the one that left it.
    let calls = Calls::default().rename("a", "b").create("a", 3).fsync(2);
    assert_eq!(calls.say_from(&initial, "btrfs", u64::MAX, &tree(&[("d/", 5, b""), ("b", 2, b"x")])), NOTHING);
}

/// fstests generic/342.
#[test]
fn a_file_is_not_lost_because_another_takes_its_name() {
    let initial = tree(&[("a", 2, b"x")]);
    let calls = Calls::default().rename("a", "b").create("a", 3).fsync(3);
    let found = tree(&[("a", 3, b"")]);
    for file_system in ["ext4", "xfs", "btrfs"] {
        let said = calls.say_from(&initial, file_system, u64::MAX, &found);
        assert_eq!(
            said,
            ["\"b\": missing; promised by call 2 (fsync), over at position 25 of the log"],
            "{file_system}"
        );
    }
    assert_eq!(calls.say_from(&initial, "f2fs", u64::MAX, &found), NOTHING);
}

#[test]
fn links_and_unlinks_are_promised_with_their_folder() {
    let initial = tree(&[("d/", 5, b""), ("a", 2, b"x")]);
    let link = Action::Link { file: id(2), path: path("d/b") };
    let calls = Calls::default().add("link", link).add("unlink", Action::Unlink { path: path("a") });
    let say = |calls: &Calls, found: &Found| calls.say_from(&initial, "vfat", u64::MAX, found);
    assert_eq!(say(&calls, &tree(&[("d/", 5, b"")])), NOTHING);
    let calls = calls.fsync(5);
    let by = "promised by call 2 (fsync), over at position 25 of the log";
    assert_eq!(say(&calls, &tree(&[("d/", 5, b""), ("a", 2, b"x")])), [format!("\"d/b\": missing; {by}")]);
    let calls = calls.fsync(ROOT);
    let by = "promised by call 3 (fsync), over at position 35 of the log";
    let both = tree(&[("d/", 5, b""), ("a", 2, b"x"), ("d/b", 2, b"x")]);
    let still = format!("\"a\": still there, though it was removed, renamed or replaced; {by}");
    assert_eq!(say(&calls, &both), [still]);
}

#[test]
fn what_nobody_asked_for_is_not_there() {
    let calls = Calls::default().create("a", 2).truncate(2, 8192);
    let said = calls.say("ext4", &tree(&[("a", 2, &[9; 8192])]));
    assert_eq!(said, ["\"a\": bytes that were never written there in bytes 0 to 8191; no later call allows it"]);
    assert_eq!(calls.say("f2fs", &tree(&[("a", 2, &[9; 8192])])), NOTHING);
    let found = tree(&[("lost+found/", 3, b""), ("other", 4, b"")]);
    assert_eq!(calls.say("ext4", &found), ["\"other\": a name that nobody made; no later call allows it"]);
    assert_eq!(calls.say("ext4", &tree(&[("a/", 2, b"")])).len(), 1);
}

#[test]
fn what_was_there_before_stays() {
    let initial = tree(&[("a", 2, &[5; 700]), ("d/", 3, b""), ("d/b", 4, b"y")]);
    let calls = Calls::default().write(2, 600, &[6; 200]);
    let say = |found: &Found| calls.say_from(&initial, "vfat", u64::MAX, found);
    let mut new = vec![5; 600];
    new.extend([6; 200]);
    assert_eq!(say(&initial), NOTHING);
    assert_eq!(say(&tree(&[("a", 2, &new), ("d/", 3, b""), ("d/b", 4, b"y")])), NOTHING);
    assert_eq!(say(&tree(&[("a", 2, &new), ("d/", 3, b"")])), ["\"d/b\": missing; no later call allows it"]);
    assert_eq!(say(&tree(&[("a", 2, &[0; 700]), ("d/", 3, b""), ("d/b", 4, b"y")])).len(), 1);
}

#[test]
fn what_is_not_known_is_not_judged() {
    let map = Action::Map { file: id(2), offset_bytes: 4096, len_bytes: 4096 };
    let calls = Calls::default().create("a", 2).write(2, 0, &[1; 8192]).fsync(2).add("mmap", map).fsync(2);
    let found = |first: u8, second: u8| {
        let mut bytes = vec![first; 8192];
        bytes[4096..].fill(second);
        tree(&[("a", 2, &bytes)])
    };
    assert_eq!(calls.say("ext4", &found(1, 9)), NOTHING);
    assert_eq!(calls.say("ext4", &found(9, 9)).len(), 1);
    assert_eq!(calls.say_at("ext4", 29, &found(1, 9)).len(), 1, "not mapped yet");
    let calls = calls.add("io_uring_setup", Action::Unfollowed);
    assert_eq!(calls.say("ext4", &tree(&[])), NOTHING);
    assert_eq!(calls.say_at("ext4", 45, &tree(&[])).len(), 1);
}

#[test]
fn calls_that_fail_or_never_end_promise_nothing() {
    let mut calls = Calls::default().create("a", 2).write(2, 0, b"x").fsync(2);
    for result in [Some(-5), None] {
        calls.0[2].result = result;
        assert_eq!(calls.say("ext4", &tree(&[])), NOTHING);
    }
    // Of a write that failed any part may be there.
    let mut calls = Calls::default().create("a", 2).write(2, 0, &[1; 1024]).sync().write(2, 0, &[2; 512]);
    calls.0[3].result = Some(-28);
    assert_eq!(calls.say("ext4", &tree(&[("a", 2, &[[3; 512], [1; 512]].concat())])), NOTHING);
}

#[test]
fn writes_that_overlap_in_time_leave_either() {
    let mut calls = Calls::default().create("a", 2).write(2, 0, &[1; 512]).write(2, 0, &[2; 512]).fsync(2);
    // The first was not over when the second began.
    calls.0[1].left = Moment { order: 7, position: 25 };
    calls.0[2].left = Moment { order: 8, position: 25 };
    calls.0[3].entered = Moment { order: 9, position: 30 };
    calls.0[3].left = Moment { order: 10, position: 35 };
    for fill in [1, 2] {
        assert_eq!(calls.say("ext4", &tree(&[("a", 2, &[fill; 512])])), NOTHING);
    }
}

#[test]
fn holes_and_allocations_are_followed() {
    let allocate = |offset_bytes, len_bytes, how| Action::Allocate { file: id(2), offset_bytes, len_bytes, how };
    let calls = Calls::default().create("a", 2).write(2, 0, &[1; 2048]);
    let calls = calls.add("fallocate", allocate(512, 512, Allocation::PunchHole));
    let calls = calls.add("fallocate", allocate(2048, 100, Allocation::Extend)).fsync(2);
    let mut bytes = vec![1; 2148];
    bytes[512..1024].fill(0);
    bytes[2048..].fill(0);
    assert_eq!(calls.say("ext4", &tree(&[("a", 2, &bytes)])), NOTHING);
    bytes[512..1024].fill(1);
    assert_eq!(calls.say("ext4", &tree(&[("a", 2, &bytes)])).len(), 1);
}

#[test]
fn a_file_without_a_name_is_synced_where_the_file_system_says_so() {
    let calls = Calls::default().add("openat", Action::Create { path: None, file: id(2) }).write(2, 0, b"x").fsync(2);
    let calls = calls.add("linkat", Action::Link { file: id(2), path: path("a") }).fsync(ROOT);
    assert_eq!(calls.say("ext4", &tree(&[("a", 2, b"")])).len(), 1);
    assert_eq!(calls.say("btrfs", &tree(&[("a", 2, b"")])), NOTHING);
}

#[test]
fn exchanged_names_are_followed() {
    let initial = tree(&[("a", 2, b"two"), ("b", 3, b"three")]);
    let exchange = Action::Rename { from: path("a"), to: path("b"), exchange: true };
    let calls = Calls::default().add("renameat2", exchange);
    let say = |calls: &Calls, found: &Found| calls.say_from(&initial, "ext4", u64::MAX, found);
    let after = tree(&[("a", 3, b"three"), ("b", 2, b"two")]);
    assert_eq!(say(&calls, &initial), NOTHING);
    assert_eq!(say(&calls, &after), NOTHING);
    assert!(!say(&calls, &tree(&[("a", 2, b"two"), ("b", 2, b"two")])).is_empty());
    let calls = calls.fsync(ROOT);
    assert_eq!(say(&calls, &after), NOTHING);
    assert!(!say(&calls, &initial).is_empty());
}

#[test]
fn a_violation_can_be_taken_apart() {
    let calls = Calls::default().create("a", 2).write(2, 0, &[1; 512]).fsync(2);
    let promises = Promises::new(Rules::of("ext4"), &tree(&[]), &calls.0);
    let violations = judge(&promises.promised(25), &tree(&[("a", 2, &[0; 512])]));
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].fault, Fault::WrongBytes { offset_bytes: 0, len_bytes: 512, instead: Instead::Zeroes });
    assert_eq!(violations[0].promised_by.as_ref().map(|by| (by.call, by.position)), Some((2, 25)));
}

/// What is not synchronised after all calls, as `what path`.
fn unsynced(calls: &Calls, file_system: &str) -> Vec<String> {
    let promises = Promises::new(Rules::of(file_system), &tree(&[("old", 9, b"x")]), &calls.0);
    let say = |unsynced: crash::files::Unsynced| {
        let what = match unsynced.change {
            Change::Bytes { from_bytes, to_bytes } => format!("bytes {from_bytes} to {to_bytes} of"),
            Change::Size => "size of".to_owned(),
            Change::Name { is_there: true } => "name".to_owned(),
            Change::Name { is_there: false } => "gone".to_owned(),
        };
        let unnamed = if unsynced.was_synced_without_a_name { " (synced without a name)" } else { "" };
        format!("{what} {}{unnamed}, call {}", unsynced.path, unsynced.entered / 2)
    };
    promises.unsynced(u64::MAX, usize::MAX).into_iter().map(say).collect()
}

#[test]
fn what_was_changed_and_not_synchronised_is_named() {
    let calls = Calls::default().create("a", 2).write(2, 100, b"hello");
    assert_eq!(unsynced(&calls, "ext4"), ["name a, call 0", "bytes 0 to 512 of a, call 1"]);
    let calls = calls.fsync(2);
    assert_eq!(unsynced(&calls, "ext4"), NOTHING);
    assert_eq!(unsynced(&calls, "vfat"), ["name a, call 0"], "a name is its folder's there");
    let calls = calls.write(2, 512, &[1; 512]).write(2, 0, b"x").truncate(2, 5000);
    assert_eq!(unsynced(&calls, "ext4"), ["bytes 0 to 1024 of a, call 4"]);
    let calls = calls.fdatasync(2).truncate(2, 6000);
    assert_eq!(unsynced(&calls, "ext4"), ["size of a, call 7"]);
    assert_eq!(unsynced(&calls.sync(), "ext4"), NOTHING);

    // A journal that is made, synchronised and removed: the removal is what is not durable. One that nobody synchronised never was.
    let gone = |calls: Calls| calls.add("unlink", Action::Unlink { path: path("journal") });
    let made = || Calls::default().create("journal", 3).write(3, 0, b"hello");
    assert_eq!(unsynced(&gone(made().fsync(3)), "ext4"), ["gone journal, call 3"]);
    assert_eq!(unsynced(&gone(made().fsync(3)).fsync(ROOT), "ext4"), NOTHING);
    assert_eq!(unsynced(&gone(made()), "ext4"), NOTHING);
    let renamed = Calls::default().create("new", 4).fsync(4).rename("new", "old");
    assert_eq!(unsynced(&renamed, "ext4"), ["gone new, call 2", "name old, call 2"]);

    // Btrfs leaves out files without names.
    let unnamed =
        Calls::default().add("openat", Action::Create { path: None, file: id(5) }).write(5, 0, b"hello").fsync(5);
    let linked = unnamed.add("linkat", Action::Link { file: id(5), path: path("b") }).fsync(ROOT);
    assert_eq!(unsynced(&linked, "btrfs"), ["bytes 0 to 512 of b (synced without a name), call 1"]);
    assert_eq!(unsynced(&linked, "ext4"), NOTHING);
}

/// Of much that was written, and of large files, only digests are kept.
#[test]
fn many_bytes_are_judged_by_their_digests() {
    let bytes: Vec<u8> = (0..40_000_u32).map(|at| (at / 97 + 1) as u8).collect();
    let write = |offset_bytes: u64, bytes: &[u8]| Action::Write {
        file: id(2),
        offset_bytes,
        data: Data::Bytes(bytes.to_vec()).by_sectors(offset_bytes),
        durability: None,
    };
    let zeroes = Action::Write { file: id(2), offset_bytes: 40_000, data: Data::Zeroes(9152), durability: None };
    let calls =
        Calls::default().create("a", 2).add("write", write(0, &bytes[..700])).add("write", write(700, &bytes[700..]));
    let calls = calls.add("write", zeroes).sync();
    let found = |changed: Option<usize>, is_whole: bool| {
        let mut bytes = [&bytes[..], &[0; 9152]].concat();
        if let Some(at) = changed {
            bytes[at] ^= 1;
        }
        let mut contents = Contents::zeroes(bytes.len() as u64);
        if is_whole {
            contents.put(0, &bytes)
        } else {
            contents.put_digests(0, &bytes)
        }
        let mut found = tree(&[("a", 2, &[])]);
        found.get_mut(&path("a")).unwrap().node = Node::File(contents);
        found
    };
    for is_whole in [true, false] {
        assert_eq!(calls.say("ext4", &found(None, is_whole)), NOTHING);
        for (at, sector) in [(20_000, 19_968), (600, 512), (45_000, 44_544)] {
            let said = calls.say("ext4", &found(Some(at), is_whole));
            assert_eq!(said.len(), 1, "byte {at}");
            assert!(said[0].contains(&format!("in bytes {sector} to {}", sector + 511)), "{said:?}");
        }
    }
    // A second write that nobody synced may be mixed with the first, of which nobody can tell by digests; what was promised may not be.
    let again: Vec<u8> = bytes.iter().map(|byte| byte ^ 2).collect();
    let twice = calls.add("write", write(0, &again));
    for is_whole in [true, false] {
        assert_eq!(twice.say("ext4", &found(Some(20_000), is_whole)), NOTHING);
        assert_eq!(twice.say("ext4", &found(Some(45_000), is_whole)).len(), 1);
    }
    let calls = Calls(twice.0[..4].to_vec());
    // What was written into a sector of which only the digest is known may be anything.
    let calls = calls.write(2, 20_000, b"new").sync();
    assert_eq!(calls.say("ext4", &found(Some(20_001), false)), NOTHING);
    assert_eq!(calls.say("ext4", &found(Some(21_001), false)).len(), 1);
}
