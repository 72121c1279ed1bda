//! `plumb kv` on real files.
#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use common::{Ran, Scratch};

const STORE: &str = "fruit.kv";

fn with_store() -> Scratch {
    let scratch = Scratch::new();
    scratch.plumb(&["kv", "create", STORE, "--size", "64MiB", "--log", "1MiB"]).ok();
    scratch
}

#[test]
fn values_come_back_and_go() {
    let scratch = with_store();
    scratch.plumb(&["kv", "put", STORE, "apple", "green"]).ok();
    scratch.plumb(&["kv", "put", STORE, "plum", "blue"]).ok();
    assert_eq!(scratch.plumb(&["kv", "get", STORE, "apple"]).ok().stdout, "green");
    let json = scratch.plumb(&["kv", "get", STORE, "apple", "--json"]).ok().stdout;
    assert_eq!(json, "{\"key\":\"apple\",\"value\":\"green\"}\n");
    assert_eq!(scratch.plumb(&["kv", "scan", STORE]).ok().stdout, "apple\tgreen\nplum\tblue\n");
    assert_eq!(scratch.plumb(&["kv", "scan", STORE, "--reverse", "--limit", "1", "--keys"]).stdout, "plum\n");
    scratch.plumb(&["kv", "delete", STORE, "apple"]).ok();
    scratch.plumb(&["kv", "get", STORE, "apple"]).fails(1, &[STORE, "apple", "has no value"]);
    // A value of any bytes, from standard input and as it was.
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let mut put = scratch.command(&["kv", "put", STORE, "blob"]).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut put.stdin.take().unwrap(), &bytes).unwrap();
    assert!(put.wait().unwrap().success());
    assert_eq!(scratch.command(&["kv", "get", STORE, "blob"]).output().unwrap().stdout, bytes);
    let dump = scratch.plumb(&["kv", "dump", STORE, "--entries"]).ok().stdout;
    assert!(dump.starts_with("store ") && dump.contains("log of "), "{dump}");
    assert_eq!(scratch.plumb(&["kv", "verify", STORE]).ok().stdout, format!("{STORE}: sound\n"));
    // Who only reads writes nothing, not even that the store was open.
    let before = std::fs::read(scratch.path(STORE)).unwrap();
    for words in [&["kv", "get", STORE, "plum"][..], &["kv", "scan", STORE], &["kv", "stats", STORE]] {
        scratch.plumb(words).ok();
    }
    assert!(before == std::fs::read(scratch.path(STORE)).unwrap(), "reading changed the store");
}

#[test]
fn what_a_scan_prints_can_be_loaded() {
    let scratch = with_store();
    let lines: String =
        (0..5000).map(|number| format!("key{number:05}\t\\x00\\t{}\n", "v".repeat(number % 90))).collect();
    scratch.write("fruit.tsv", &lines);
    let loaded = scratch.plumb(&["kv", "load", STORE, "fruit.tsv", "--json"]).ok().stdout;
    assert!(loaded.starts_with("{\"entries\":5000,"), "{loaded}");
    let scanned = scratch.plumb(&["kv", "scan", STORE]).ok().stdout;
    assert_eq!(scanned, lines);
    scratch.plumb(&["kv", "create", "other.kv", "--size", "64MiB", "--log", "1MiB"]).ok();
    // Its log has its room from the beginning, the rest when it is used.
    let room_bytes = std::fs::metadata(scratch.path("other.kv")).unwrap().blocks() * 512;
    assert!((1 << 20..8 << 20).contains(&room_bytes), "{room_bytes}");
    let mut scan = scratch.command(&["kv", "scan", STORE]).stdout(Stdio::piped()).spawn().unwrap();
    let entries = scan.stdout.take().unwrap();
    let load = scratch.command(&["kv", "load", "other.kv", "-"]).stdin(entries).output().unwrap();
    Ran::of(load).ok();
    assert!(scan.wait().unwrap().success());
    assert_eq!(scratch.plumb(&["kv", "scan", "other.kv"]).ok().stdout, lines);
    scratch.plumb(&["kv", "delete", "other.kv", "--prefix", "key0"]).ok();
    assert_eq!(scratch.plumb(&["kv", "scan", "other.kv"]).ok().stdout, "");
    scratch.plumb(&["kv", "delete", STORE, "--from", "key00010", "--to", "key04990"]).ok();
    let stats = scratch.plumb(&["kv", "stats", STORE, "--count", "--json"]).ok().stdout;
    assert!(stats.contains("\"trees\":[{\"name\":\"default\",\"entries\":20}]"), "{stats}");
    let stats = scratch.plumb(&["kv", "stats", STORE]).ok().stdout;
    assert!(stats.contains("tree default") && stats.contains("64MiB"), "{stats}");
}

#[test]
fn a_bad_line_is_named_and_what_is_before_it_stays() {
    let scratch = with_store();
    scratch.write("bad.tsv", "a\t1\nb\t2\nnothing\n");
    scratch.plumb(&["kv", "load", STORE, "bad.tsv"]).fails(2, &["bad.tsv, line 3", "tab", "2 entries before"]);
    assert_eq!(scratch.plumb(&["kv", "scan", STORE]).ok().stdout, "a\t1\nb\t2\n");
    scratch.plumb(&["kv", "load", STORE, "none.tsv"]).fails(2, &["none.tsv"]);
    scratch.plumb(&["kv", "put", STORE, "a\\q", "1"]).fails(2, &["is no escape"]);
}

#[test]
fn faults_name_the_file_and_what_to_do() {
    let scratch = with_store();
    scratch.plumb(&["kv", "get", "none.kv", "a"]).fails(2, &["none.kv", "plumb kv create none.kv --size"]);
    scratch.plumb(&["kv", "create", "new.kv"]).fails(2, &["new.kv", "--size 1GiB"]);
    scratch.plumb(&["kv", "create", STORE, "--size", "64MiB"]).fails(2, &[STORE, "a store on this storage already"]);
    scratch.plumb(&["kv", "get", STORE, "a"]).fails(2, &[STORE, "no tree", "plumb kv put"]);
    scratch.write("text.kv", vec![b'x'; 1 << 20]);
    scratch.plumb(&["kv", "scan", "text.kv"]).fails(2, &["text.kv", "no valid superblock", "plumb kv create"]);
    scratch.plumb(&["kv", "delete", STORE]).fails(2, &["--prefix"]);
    scratch.plumb(&["kv", "bench", STORE]).fails(2, &[STORE, "there already"]);
    // One process at a time.
    let path = scratch.path(STORE);
    let held = Command::new("flock").arg("--no-fork").arg(&path).args(["sleep", "60"]).spawn();
    match held {
        Err(error) => println!("skipped: {error}: flock"),
        Ok(mut holder) => {
            let mut ran = scratch.plumb(&["kv", "stats", STORE]);
            for _ in 0..100 {
                if ran.status != Some(0) {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(50));
                ran = scratch.plumb(&["kv", "stats", STORE]);
            }
            holder.kill().unwrap();
            holder.wait().unwrap();
            ran.fails(1, &[STORE, "in use by another process"]);
        }
    }
}

#[test]
fn damage_is_found_and_named() {
    let scratch = with_store();
    for number in 0..4 {
        scratch.plumb(&["kv", "put", STORE, &format!("k{number}"), "value"]).ok();
    }
    // Every open begins with a flush of what the one before had logged, so all but the newest frame is known to be durable.
    let path = scratch.path(STORE);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(2).position(|pair| pair == b"k1").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let ran = scratch.plumb(&["kv", "verify", STORE]).fails(1, &[STORE, "1 findings", "plumb kv repair"]);
    assert!(ran.stdout.contains("log: corrupt"), "{ran:?}");
    let json = scratch.plumb(&["kv", "verify", STORE, "--json"]);
    assert!(json.status == Some(1) && json.stdout.contains("\"sound\":false"), "{json:?}");
    scratch.plumb(&["kv", "get", STORE, "k0"]).fails(1, &[STORE, "log: frame", "plumb kv verify"]);
    // Saved elsewhere, with what is lost said; then the store itself, which forgets it.
    let repair = ["kv", "repair", STORE, "--into", "saved.kv"];
    let ran = scratch.plumb(&repair).fails(1, &[]);
    assert!(ran.stdout.contains("1 entries") && ran.stdout.contains("the newest batches are lost: "), "{ran:?}");
    assert_eq!(scratch.plumb(&["kv", "scan", "saved.kv", "--keys"]).ok().stdout, "k0\n");
    scratch.plumb(&repair).fails(2, &["saved.kv", "there is something already"]);
    assert_eq!(scratch.plumb(&["kv", "scan", STORE, "--keys", "--accept-log-damage"]).ok().stdout, "k0\n");
    scratch.plumb(&["kv", "verify", STORE]).ok();
}

#[test]
fn a_full_store_says_so_and_takes_deletes() {
    let scratch = Scratch::new();
    // One that would take nothing is not made, nor is its file.
    let small = ["kv", "create", STORE, "--size", "4MiB", "--log", "256KiB"];
    scratch.plumb(&small).fails(2, &[STORE, "needs 4"]);
    assert!(!scratch.path(STORE).exists());
    scratch.plumb(&["kv", "create", STORE, "--size", "5MiB", "--log", "256KiB"]).ok();
    let lines: String = (0..4000).map(|number| format!("{number:06}\t{}\n", "v".repeat(1000))).collect();
    scratch.write("large.tsv", lines);
    scratch.plumb(&["kv", "load", STORE, "large.tsv"]).fails(1, &[STORE, "the store is full", "plumb kv load LARGER"]);
    scratch.plumb(&["kv", "delete", STORE, "--from", "0"]).ok();
    scratch.plumb(&["kv", "put", STORE, "a", "b"]).ok();
    // A larger file takes more.
    let grown = scratch.plumb(&["kv", "grow", STORE, "--size", "16MiB"]).ok();
    assert!(grown.stdout.contains("11MiB larger, 16MiB now"), "{grown:?}");
    scratch.plumb(&["kv", "load", STORE, "large.tsv"]).ok();
    assert!(scratch.plumb(&["kv", "grow", STORE]).ok().stdout.contains("as before"));
    scratch.plumb(&["kv", "verify", STORE]).ok();
}

#[test]
fn a_benchmark_measures_and_cleans_up() {
    let scratch = Scratch::new();
    let arguments = ["kv", "bench", "try.kv", "--entries", "3000", "--gets", "300", "--json"];
    let json = scratch.plumb(&arguments).ok().stdout;
    for name in ["inserts_per_s", "insert_p999", "written_at_rest", "gets_at_rest_found\":300", "written_compacted"] {
        assert!(json.contains(name), "{name} in {json}");
    }
    assert!(!scratch.path("try.kv").exists());
}

/// A small file system in memory, which is taken away whatever comes.
struct Small(tempfile::TempDir);

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// In no namespace of its own: that would keep for a moment what tests beside this one unmount.
#[test]
fn where_there_is_no_room_for_the_log_nothing_is_left_behind() {
    let small = Small(tempfile::tempdir().unwrap());
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"]).arg(small.0.path()).output();
    if !mount.is_ok_and(|mount| mount.status.success()) {
        return println!("skipped: a small file system cannot be mounted here");
    }
    for words in [["kv", "create"], ["fs", "mkfs"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        let output = command.args(words).args(["x", "--size", "1GiB"]).current_dir(small.0.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_said = said.contains("no room for its first") && said.contains("free some");
        assert!(output.status.code() == Some(1) && is_said, "{words:?}: {said}");
        assert_eq!(std::fs::read_dir(small.0.path()).unwrap().count(), 0, "{words:?}");
    }
}
