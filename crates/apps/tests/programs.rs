//! The measured programs on the file system of temporary files: they do what is defined, the same each time, and say what is wrong.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use apps::engine::{self, AppError, Limits, Report};
use apps::programs::{self, Chosen, PROGRAMS};

/// Small sets for each program, and how many operations a run has; by the table, so that no program is left out.
fn small(name: &str) -> (Vec<&'static str>, u64) {
    match name {
        "varmail" => (vec!["--files", "200", "--threads", "4"], 4 * 13 * 5),
        "fileserver" => (vec!["--files", "200", "--threads", "5", "--file-size", "8k"], 5 * 11 * 4),
        "webserver" => (vec!["--files", "100", "--threads", "5", "--file-size", "4k"], 5 * (31 * 3 + 1)),
        "webproxy" => (vec!["--files", "100", "--threads", "5", "--file-size", "4k"], 5 * 19 * 3),
        "oltp" => {
            let small =
                ["--file-size", "64k", "--log-size", "512k", "--readers", "6", "--writers", "2", "--read-work", "10"];
            (small.to_vec(), 6 * 700)
        }
        "tokubench" => (vec!["--files", "1000", "--children", "16"], 3000),
        "pulls" => (vec!["--files", "200", "--width", "8", "--pulls", "6", "--changes", "20"], 10_000),
        "multi-reader" => (vec!["--size", "4m", "--io-size", "4k", "--threads", "4"], 4 * 257),
        "compress" => (vec!["--files", "3", "--file-size", "200k", "--io-size", "64k", "--threads", "2"], 10_000),
        other => panic!("{other} is not tested"),
    }
}

fn chosen(name: &str, more: &[&str]) -> Chosen {
    let mut options = small(name).0;
    // What is given again wins.
    for pair in more.chunks(2) {
        if let Some(at) = options.iter().position(|option| *option == pair[0]) {
            options.drain(at..at + 2);
        }
    }
    let options: Vec<&str> = options.into_iter().chain(more.iter().copied()).collect();
    programs::find(name).unwrap().with(&options).unwrap()
}

fn prepare(name: &str, folder: &Path, seed: u64) -> Chosen {
    let chosen = chosen(name, &[]);
    engine::prepare(name, chosen.plan.as_ref().unwrap(), seed, folder, false).unwrap();
    chosen
}

fn run(chosen: &Chosen, folder: &Path, seed: u64, operations: Option<u64>) -> Result<Report, AppError> {
    let plan = chosen.plan.as_ref().unwrap();
    engine::check_prepared(chosen.name, plan, seed, folder)?;
    engine::run(chosen.name, plan, seed, folder, Limits { operations, duration: None })
}

/// Prepares and runs in a folder of its own.
fn whole(name: &str, seed: u64) -> (tempfile::TempDir, Report) {
    let folder = tempfile::tempdir().unwrap();
    let chosen = prepare(name, folder.path(), seed);
    let report = run(&chosen, folder.path(), seed, Some(small(name).1)).unwrap();
    (folder, report)
}

fn counts(report: &Report) -> BTreeMap<&str, u64> {
    report.by_operation.iter().map(|(name, operation)| (*name, operation.count)).collect()
}

/// So many turns of a flow with these counts.
fn mix<const N: usize>(turns: u64, counts: [(&'static str, u64); N]) -> BTreeMap<&'static str, u64> {
    counts.into_iter().map(|(name, count)| (name, count * turns)).collect()
}

fn bytes(report: &Report, name: &str) -> u64 {
    report.by_operation[name].bytes
}

/// All files below a folder with their contents, without the note of the preparation.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut tree = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_none_or(|extension| extension != "json") {
                tree.insert(path.clone(), fs::read(path).unwrap());
            }
        }
    }
    tree
}

fn relative(tree: BTreeMap<PathBuf, Vec<u8>>, folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    tree.into_iter().map(|(path, bytes)| (path.strip_prefix(folder).unwrap().to_owned(), bytes)).collect()
}

#[test]
fn the_mixes_are_as_filebench_defines_them() {
    // Each thread takes whole turns: 5, 4, 3 and 3.
    let (_folder, varmail) = whole("varmail", 1);
    let expected = [("append", 2), ("close", 3), ("create", 1), ("delete", 1), ("fsync", 2), ("open", 2), ("read", 2)];
    assert_eq!(counts(&varmail), mix(20, expected));
    let (_folder, fileserver) = whole("fileserver", 1);
    let expected = [
        ("append", 1),
        ("close", 3),
        ("create", 1),
        ("delete", 1),
        ("open", 2),
        ("read", 1),
        ("stat", 1),
        ("write", 1),
    ];
    assert_eq!(counts(&fileserver), mix(20, expected));
    // The log is opened once by each thread.
    let (_folder, webserver) = whole("webserver", 1);
    let expected = [("append", 15), ("close", 150), ("open", 155), ("read", 150)];
    assert_eq!(counts(&webserver), mix(1, expected));
    let (_folder, webproxy) = whole("webproxy", 1);
    let expected = [("append", 1), ("close", 6), ("create", 1), ("delete", 1), ("open", 5), ("read", 5)];
    assert_eq!(counts(&webproxy), mix(15, expected));
    assert_eq!(webproxy.operations, 15 * 19);
}

#[test]
fn a_run_has_exactly_the_operations_that_were_asked_for() {
    for operations in [1, 7, 100, 333] {
        let folder = tempfile::tempdir().unwrap();
        let chosen = prepare("varmail", folder.path(), 1);
        let report = run(&chosen, folder.path(), 1, Some(operations)).unwrap();
        assert_eq!(report.operations, operations);
    }
}

/// Appends have sizes that are evenly spread from 1 to their bound; whole files are read and written as large as they are.
#[test]
fn sizes_are_as_defined() {
    let folder = tempfile::tempdir().unwrap();
    let chosen = prepare("webproxy", folder.path(), 1);
    let report = run(&chosen, folder.path(), 1, Some(5 * 19 * 60)).unwrap();
    let mean = bytes(&report, "append") as f64 / counts(&report)["append"] as f64;
    // Of 300 appends the mean of 8192 has a standard error of 273.
    assert!((mean - 8192.0).abs() < 4.0 * 273.0, "{mean}");
    let fresh = tempfile::tempdir().unwrap();
    let fixed = chosen_with(&["--size-gamma", "0", "--file-size", "10000", "--io-size", "4k"]);
    engine::prepare("fileserver", fixed.plan.as_ref().unwrap(), 1, fresh.path(), false).unwrap();
    assert!(tree(fresh.path()).values().all(|contents| contents.len() == 10_000));
    let report = run(&fixed, fresh.path(), 1, Some(5 * 11 * 2)).unwrap();
    assert_eq!(bytes(&report, "write"), counts(&report)["write"] * 10_000);
    // What is on disk: four fifths of the set, each turn makes one and deletes one, and one is appended to.
    let left = tree(fresh.path());
    assert_eq!(left.len(), 160);
    let grown: u64 = left.values().map(|contents| contents.len() as u64 - 10_000).sum();
    assert!(grown <= bytes(&report, "append") && grown > 0);
}

fn chosen_with(options: &[&str]) -> Chosen {
    let all: Vec<&str> = ["--files", "200", "--threads", "5"].into_iter().chain(options.iter().copied()).collect();
    programs::find("fileserver").unwrap().with(&all).unwrap()
}

#[test]
fn writers_of_the_database_follow_its_readers() {
    let (_folder, report) = whole("oltp", 1);
    let counts = counts(&report);
    assert_eq!(counts["read"], 6 * 700 - 60, "each of six readers opens ten files");
    // After 4140 reads: a burst at the start and one for each thousand; the log at the start and after 3200.
    assert_eq!(counts["write"], 2 * 100 * (1 + 4) + 2);
    assert_eq!(counts["open"], 60 + 2 * 10 + 1);
    assert_eq!(bytes(&report, "read"), counts["read"] * 2048);
    assert_eq!(bytes(&report, "write"), 1000 * 2048 + 2 * 262_144);
}

#[test]
fn tokubench_makes_all_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let chosen = prepare("tokubench", folder.path(), 1);
    assert_eq!(tree(folder.path()).len(), 0, "folders alone are prepared");
    let report = run(&chosen, folder.path(), 1, None).unwrap();
    assert_eq!(counts(&report), mix(1000, [("close", 1), ("create", 1), ("write", 1)]));
    let tree = tree(folder.path());
    assert_eq!(tree.len(), 1000);
    assert!(tree.values().all(|contents| contents.len() == 200));
}

#[test]
fn pulls_replace_files_all_over_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    let chosen = prepare("pulls", folder.path(), 1);
    let home = folder.path().join("pulls");
    let before = tree(&home.join("sources"));
    assert_eq!(before.len(), 160);
    let report = run(&chosen, folder.path(), 1, None).unwrap();
    let (after, counts) = (tree(&home.join("sources")), counts(&report));
    // Six packs and indexes; of 120 files some are made and some removed.
    assert_eq!((counts["fsync"], counts["rename"]), (6, 6));
    let sizes = |set: &str| tree(&home.join(set)).values().map(Vec::len).collect::<Vec<_>>();
    // A quarter of 14 KiB for each of 20 files; a hundred bytes for each of 200, and no lock is left.
    assert_eq!((sizes("packs"), sizes("index")), (vec![71_680; 6], vec![20_000]));
    let made = counts["create"] - 12;
    let (new, gone) = (120 - counts["delete"], 120 - made);
    assert_eq!(after.len() as u64, 160 + new - gone);
    assert!((1..=20).contains(&new) && (1..=20).contains(&gone), "{new} new, {gone} gone");
    // 120 draws of some 160 files touch about half of them, in most of the folders.
    let replaced: Vec<_> = after.iter().filter(|(path, contents)| before.get(*path) != Some(contents)).collect();
    assert!((60..=120).contains(&replaced.len()), "{}", replaced.len());
    let folders = |paths: Vec<&PathBuf>| {
        paths.iter().map(|path| path.parent().unwrap().to_owned()).collect::<BTreeSet<_>>().len()
    };
    let (of_replaced, of_all) =
        (folders(replaced.iter().map(|(path, _)| *path).collect()), folders(after.keys().collect()));
    assert!(of_replaced * 2 > of_all, "{of_replaced} of {of_all} folders");
    let report_again = run(&chosen, folder.path(), 1, None).unwrap_err().to_string();
    assert!(report_again.contains("pulls was changed by the run before"), "{report_again}");
}

#[test]
fn readers_read_their_parts_in_each_pattern() {
    // 1 MiB for each of four threads in reads of 4 KiB; strided ones leave out 256 KiB after each.
    for (pattern, reads) in [("sequential", 256), ("random", 256), ("backward", 256), ("strided", 4)] {
        for (share, opens, mapped) in
            [("file", 4, None), ("descriptor", 0, None), ("nothing", 4, None), ("file", 4, Some("--mapped"))]
        {
            let folder = tempfile::tempdir().unwrap();
            let words: Vec<&str> = ["--pattern", pattern, "--share", share].into_iter().chain(mapped).collect();
            let chosen = chosen("multi-reader", &words);
            engine::prepare(chosen.name, chosen.plan.as_ref().unwrap(), 1, folder.path(), false).unwrap();
            let files = tree(folder.path());
            assert_eq!(files.len(), if share == "nothing" { 4 } else { 1 });
            assert_eq!(files.values().map(Vec::len).sum::<usize>(), 4 << 20);
            let report = run(&chosen, folder.path(), 1, None).unwrap();
            let mut expected = BTreeMap::from([("open", opens), ("read", 4 * reads)]);
            expected.retain(|_, count| *count > 0);
            assert_eq!(counts(&report), expected, "{pattern}, {share}");
            assert_eq!(report.read_bytes, 4 * reads * 4096);
            // Nothing has changed: it runs again.
            run(&chosen, folder.path(), 1, None).unwrap();
        }
    }
}

#[test]
fn what_is_compressed_can_be_had_back() {
    let (folder, report) = whole("compress", 1);
    let home = folder.path().join("compress");
    let (inputs, outputs) = (tree(&home.join("in")), tree(&home.join("out")));
    assert_eq!((inputs.len(), outputs.len()), (6, 6));
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap()) as usize;
    for (input, output) in inputs.values().zip(outputs.values()) {
        let (mut rest, mut back) = (&output[..], Vec::new());
        while !rest.is_empty() {
            let (packed, raw) = (number(&rest[..4]), number(&rest[4..8]));
            let piece = snap::raw::Decoder::new().decompress_vec(&rest[8..8 + packed]).unwrap();
            assert_eq!(piece.len(), raw);
            back.extend(piece);
            rest = &rest[8 + packed..];
        }
        assert!(back == *input);
    }
    // 200 KiB are four pieces of 64 KiB, and a read that finds the end.
    let expected = [("close", 12), ("compress", 24), ("create", 6), ("open", 6), ("read", 30), ("write", 24)];
    assert_eq!(counts(&report), mix(1, expected));
    assert_eq!(report.operations, 78, "the processor's work is none");
    assert_eq!(report.written_bytes, outputs.values().map(|output| output.len() as u64).sum::<u64>());
    let ratio = report.written_bytes as f64 / report.read_bytes as f64;
    assert!((0.45..0.6).contains(&ratio), "{ratio}");
}

/// Threads run as the system lets them; what each does, and so what is left, is the same.
#[test]
fn the_same_seed_does_the_same() {
    for entry in &PROGRAMS {
        let ((one, first), (other, second), (_, third)) =
            (whole(entry.name, 7), whole(entry.name, 7), whole(entry.name, 8));
        assert_eq!(counts(&first), counts(&second), "{}", entry.name);
        assert_eq!(
            (first.read_bytes, first.written_bytes),
            (second.read_bytes, second.written_bytes),
            "{}",
            entry.name
        );
        let trees = [&one, &other].map(|folder| relative(tree(folder.path()), folder.path()));
        // In the log of all threads, and where writers meet on a page, the order is the system's.
        if ["webserver", "oltp"].contains(&entry.name) {
            let sizes = trees.map(|tree| tree.into_iter().map(|(path, bytes)| (path, bytes.len())).collect::<Vec<_>>());
            assert_eq!(sizes[0], sizes[1], "{}", entry.name);
        } else {
            let [one, other] = trees;
            assert!(one == other, "{}", entry.name);
        }
        if entry.name == "varmail" {
            assert_ne!(first.written_bytes, third.written_bytes);
        }
    }
}

#[test]
fn what_is_missing_or_other_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let error = |result: Result<Report, AppError>| result.unwrap_err().to_string();
    let mail = chosen("varmail", &[]);
    assert!(error(run(&mail, place, 1, Some(10))).contains("varmail is not prepared; prepare it with --prepare"));
    let prepare_again = |fresh| engine::prepare("varmail", mail.plan.as_ref().unwrap(), 1, place, fresh);
    prepare_again(false).unwrap();
    assert!(prepare_again(false).unwrap_err().to_string().contains("--fresh removes it first"));
    let other = chosen("varmail", &["--files", "300", "--file-size", "1k"]);
    let said = error(run(&other, place, 1, Some(10)));
    assert!(
        said.contains("mail.files was 200 and is 300") && said.contains("mean_bytes was 16384 and is 1024"),
        "{said}"
    );
    assert!(error(run(&mail, place, 2, Some(10))).contains("seed was 1 and is 2"));
    // Options that shape no file may differ.
    run(&chosen("varmail", &["--append-size", "1k"]), place, 1, Some(10)).unwrap();
    assert!(error(run(&mail, place, 1, Some(10))).contains("varmail was changed by the run before"));
    prepare_again(true).unwrap();
    run(&mail, place, 1, Some(10)).unwrap();
    // What is not of this program stays.
    fs::create_dir(place.join("webproxy")).unwrap();
    fs::write(place.join("webproxy/mine"), "mine").unwrap();
    let proxy = chosen("webproxy", &[]);
    let said = engine::prepare("webproxy", proxy.plan.as_ref().unwrap(), 1, place, true).unwrap_err().to_string();
    assert!(said.contains("it is not removed") && place.join("webproxy/mine").is_file(), "{said}");
    let said = engine::prepare("varmail", mail.plan.as_ref().unwrap(), 1, &place.join("none"), false).unwrap_err();
    assert!(said.to_string().contains("is not a folder that is there"), "{said}");
}

#[test]
fn a_file_that_is_removed_under_a_run_ends_it_with_its_name() {
    for name in ["varmail", "webserver", "oltp", "pulls", "multi-reader", "compress"] {
        let folder = tempfile::tempdir().unwrap();
        let chosen = prepare(name, folder.path(), 1);
        let gone: Vec<PathBuf> = tree(folder.path()).into_keys().collect();
        gone.iter().for_each(|path| fs::remove_file(path).unwrap());
        let said = run(&chosen, folder.path(), 1, Some(100_000)).unwrap_err().to_string();
        let of = |path: &PathBuf| said.contains(&path.display().to_string());
        assert!(said.contains("was removed by somebody else") && gone.iter().any(of), "{said}");
    }
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let chosen = chosen("multi-reader", &["--size", "900000t"]);
    let said = engine::prepare(chosen.name, chosen.plan.as_ref().unwrap(), 1, folder.path(), false).unwrap_err();
    assert!(said.to_string().contains("the files need") && said.to_string().contains("free"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn options_out_of_bounds_are_refused() {
    let said = |name: &str, options: &[&str]| match programs::find(name).unwrap().with(options) {
        Ok(chosen) => match chosen.plan {
            Ok(plan) => {
                let folder = tempfile::tempdir().unwrap();
                engine::prepare(name, &plan, 1, folder.path(), false).unwrap_err().to_string()
            }
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    assert!(said("varmail", &["--files", "0"]).contains("from 1 to"));
    assert!(said("varmail", &["--files", "20"]).contains("at least 32 files"));
    assert!(said("tokubench", &["--files", "3"]).contains("at least 4 files"));
    assert!(said("pulls", &["--files", "1"]).contains("at least 2 files"));
    assert!(said("varmail", &["--size-gamma", "0.01"]).contains("0 for none"));
    assert!(said("varmail", &["--io-size", "0"]).contains("from 1B to 64MiB"));
    assert!(said("fileserver", &["--width", "1"]).contains("1 entry each"));
    assert!(said("oltp", &["--file-size", "1k"]).contains("--file-size 1KiB: it has to hold one I/O of 2KiB"));
    assert!(said("multi-reader", &["--size", "1k"]).contains("less than one read"));
    assert!(said("compress", &["--files", "1000000"]).contains("ask for fewer"));
}

#[test]
fn a_time_ends_a_run_that_has_no_end() {
    let folder = tempfile::tempdir().unwrap();
    let chosen = prepare("oltp", folder.path(), 1);
    let limits = chosen.limits(None, Some(std::time::Duration::from_millis(50)));
    let report = engine::run("oltp", chosen.plan.as_ref().unwrap(), 1, folder.path(), limits).unwrap();
    assert!(report.operations > 0 && report.elapsed_s >= 0.05);
    assert_eq!(chosen.limits(None, None).duration, Some(std::time::Duration::from_secs(60)));
    assert_eq!(chosen.limits(Some(5), None).duration, None);
}
