//! `plumb defrag` as a user meets it.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;

use common::disk::Disk;
use common::{Ran, Scratch, fragmented};
use serde_json::Value;

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn what_is_wrong_is_said() {
    let scratch = Scratch::new();
    scratch.plumb(&["defrag", "scan"]).fails(2, &["name the files or folders"]);
    scratch.plumb(&["defrag", "scan", "nowhere"]).fails(2, &["nowhere", "No such file"]);
    scratch.plumb(&["defrag", "scan", ".", "--mode", "traced"]).fails(2, &["--mode traced needs a trace"]);
    scratch.plumb(&["defrag", "scan", ".", "--mode", "all"]).fails(2, &["traced, bypass and whole"]);
    scratch.plumb(&["defrag", "scan", ".", "--hotness", "50"]).fails(2, &["--hotness ranks"]);
    scratch.plumb(&["defrag", "scan", ".", "--hotness", "101"]).fails(2, &["0 to 100"]);
    scratch.plumb(&["defrag", "scan", ".", "--readahead", "1000"]).fails(2, &["multiple of 4KiB"]);
    scratch.plumb(&["defrag", "scan", "--trace", "no.trace"]).fails(2, &["no.trace"]);
    scratch.plumb(&["defrag", "run", ".", "--rate", "0"]).fails(2, &["would never end"]);
    scratch.plumb(&["defrag", "run", ".", "--until-psi", "200"]).fails(2, &["0 to 100"]);
    scratch.plumb(&["defrag", "trace", "--out", "x"]).fails(2, &["say what to trace"]);
    scratch.plumb(&["defrag", "trace", "--out", "x", "--from-strace", "a", "--from-iolog", "b"]).fails(2, &[]);
    scratch.write("garbage", b"\0\xff not a trace");
    scratch.plumb(&["defrag", "scan", "--trace", "garbage"]).fails(2, &["garbage", "line 1"]);
    scratch.write("journal", "not a journal\n");
    scratch.plumb(&["defrag", "run", "--journal", "journal"]).fails(2, &["journal", "is no journal of a run"]);
    scratch.plumb(&["defrag", "run", ".", "--journal", "journal"]).fails(2, &["journal", "is no journal of a run"]);
    assert_eq!(fs::read_to_string(scratch.path("journal")).unwrap(), "not a journal\n");
    assert!(!scratch.path("x").exists(), "a trace was kept of nothing");
}

#[test]
fn an_iolog_becomes_a_trace_and_a_plan() {
    let scratch = Scratch::new();
    let file = scratch.write("data", vec![5; 1 << 20]);
    let name = file.canonicalize().unwrap();
    let name = name.display();
    scratch.write("log", format!("fio version 2 iolog\n{name} add\n{name} open\n{name} read 0 131072\n{name} close\n"));
    scratch.plumb(&["defrag", "trace", "--from-iolog", "log", "--direct", "--out", "one.trace"]).ok();
    scratch.plumb(&["defrag", "trace", "--merge", "one.trace", "one.trace", "--out", "two.trace"]).ok();
    let scanned = json(&scratch.plumb(&["defrag", "scan", "--trace", "two.trace", "--json"]).ok());
    assert_eq!(scanned["plan"]["mode"], "traced");
    assert_eq!(scanned["looked_at"]["files"], 1);
    // Another folder has nothing of it.
    fs::create_dir(scratch.path("empty")).unwrap();
    let elsewhere = json(&scratch.plumb(&["defrag", "scan", "--trace", "two.trace", "empty", "--json"]).ok());
    assert_eq!(elsewhere["plan"]["skipped_by_reason"]["not-traced"], 1);
}

#[test]
fn a_run_does_what_the_dry_run_says_and_the_next_one_nothing() {
    for make in ["mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"] {
        let scratch = Scratch::new();
        let disk = match Disk::new(&scratch, make) {
            Ok(disk) => disk,
            Err(why) => {
                eprintln!("skipped: {make}: {why}");
                continue;
            }
        };
        let path = disk.place.join("data");
        fragmented(&path);
        let before = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap());
        let mount = disk.place.to_str().unwrap();
        let scanned = json(&scratch.plumb(&["defrag", "scan", mount, "--json", "--html", "page.html"]).ok());
        let totals = &scanned["plan"]["totals"];
        let id = scanned["plan"]["files"].get(0).map(|file| &file["id"]["generation"]);
        assert!(id.is_none_or(Value::is_u64), "{make}: {id:?}");
        if totals["bytes_to_move"] == 0 {
            // A Btrfs or ext4 that allocates in order leaves nothing to test.
            eprintln!("skipped: {make}: the file is in {} pieces", totals["pieces"]);
            continue;
        }
        assert!(fs::read_to_string(scratch.path("page.html")).unwrap().contains("<svg"));
        let text = scratch.plumb(&["defrag", "scan", mount]).ok().stdout;
        assert!(text.contains("mode bypass: moving") && text.contains('^'), "{text}");
        let dry = scratch.plumb(&["defrag", "run", mount, "--dry-run"]).ok().stdout;
        assert!(dry.lines().count() < 10 && dry.lines().next().unwrap().contains("2MiB to write"), "{dry}");
        let dry = scratch.plumb(&["defrag", "run", mount, "--dry-run", "--verbose"]).ok().stdout;
        assert!(dry.contains("pieces become 1"), "{dry}");
        let ran = json(&scratch.plumb(&["defrag", "run", mount, "--journal", "j", "--report", "r", "--json"]).ok());
        let file = &ran["files"][0];
        assert_eq!(file["outcome"], "done", "{make}: {ran:#}");
        assert_eq!(file["ranges_moved"], totals["moves"], "{make}: {ran:#}");
        assert_eq!(serde_json::from_slice::<Value>(&fs::read(scratch.path("r")).unwrap()).unwrap(), ran);
        let after = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap());
        assert!(before.0 == after.0, "{make}: the contents have changed");
        assert_eq!(before.1.len(), after.1.len(), "{make}");
        // XFS counts the blocks of a long extent map, too, which a short one does not need.
        let data = before.1.len() / 512;
        assert!((data..=before.1.blocks()).contains(&after.1.blocks()), "{make}: {} blocks", after.1.blocks());
        assert_eq!(before.1.mtime_nsec(), after.1.mtime_nsec(), "{make}");
        let finished = scratch.plumb(&["defrag", "run", "--journal", "j"]).ok();
        assert!(finished.stderr.contains("j is finished"), "{make}: {}", finished.stderr);
        assert_eq!(finished.stdout, "", "{make}: totals of what was not done now");
        let finished = json(&scratch.plumb(&["defrag", "run", "--journal", "j", "--json"]).ok());
        assert_eq!(finished["files"][0]["ranges_moved_before"], totals["moves"], "{make}: {finished:#}");
        fs::remove_file(scratch.path("j")).unwrap();
        let again = json(&scratch.plumb(&["defrag", "run", mount, "--json"]).ok());
        assert_eq!(again["files"].as_array().map(Vec::len), Some(0), "{make}: {again:#}");
        // The predicted requests are those of a scan of the new layout.
        let rescanned = json(&scratch.plumb(&["defrag", "scan", mount, "--json"]).ok());
        assert_eq!(rescanned["plan"]["totals"]["requests_before"], totals["requests_after"], "{make}");
    }
}

#[test]
fn a_budget_is_not_exceeded() {
    let scratch = Scratch::new();
    let disk = match Disk::new(&scratch, "mkfs.ext4") {
        Ok(disk) => disk,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    fragmented(&disk.place.join("data"));
    let mount = disk.place.to_str().unwrap();
    let ran = json(&scratch.plumb(&["defrag", "run", mount, "--budget", "300KiB", "--json"]).ok());
    assert_eq!(ran["files"][0]["written_bytes"], 256 << 10, "two windows of 128 KiB: {ran:#}");
    // The rest of the file is still there to be moved, two windows at a time.
    let dry = json(&scratch.plumb(&["defrag", "run", mount, "--dry-run", "--json", "--budget", "300KiB"]).ok());
    assert_eq!(dry["totals"]["moves"], 2);
    assert!(dry["skipped_by_reason"].as_object().unwrap().is_empty(), "{dry:#}");
}
