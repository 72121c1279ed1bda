//! The results of `experiments/` keep their bytes: whoever changes them says so, by renewing `digests.txt`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use lab::Experiment;
use lab::outputs;
use lab::spec::{HostKind, Override};

use super::{done, root, specs};

/// Set, the digests of what ran are written and not compared: of all that runs, or of those whose names have its value in them.
const RENEW: &str = "PLUMB_RENEW_DIGESTS";

/// What takes seconds together: specs below `experiments/`, or one with changes that shorten it. Every spec that the modelled
/// host runs is done with `PLUMB_LONG=1`.
const QUICK: [&str; 6] = [
    "quickstart.toml workload.set.runtime=10ms run.repeats=1",
    "zns/characterisation/implicit-open.toml",
    "zns/characterisation/intra-zone-write.toml",
    "zns/characterisation/reset-by-occupancy.toml",
    "zns/emulator/finish-bench.toml",
    "zns/emulator/lazy-mapping.toml",
];

/// By spec with its changes, and output.
type Digests = BTreeMap<(String, String), String>;

fn kept_in() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/experiments/digests.txt")
}

/// Lines of `HASH OUTPUT SPEC CHANGES`.
fn kept() -> Digests {
    let text = fs::read_to_string(kept_in()).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let [hash, output, spec] = line.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
            ((spec.to_owned(), output.to_owned()), hash.to_owned())
        })
        .collect()
}

fn keep(digests: &Digests) {
    let mut text = format!(
        "# Hashes (BLAKE3) of what the specs of experiments/ leave in their results folders. {RENEW}=1 renews them:\n\
         # {RENEW}=1 PLUMB_LONG=1 cargo test -p plumb-lab --test experiments digests\n"
    );
    for ((spec, output), hash) in digests {
        text += &format!("{hash} {output} {spec}\n");
    }
    fs::write(kept_in(), text).unwrap();
}

/// The digest of each output of `folder`: a file of its own, or all files of a folder together.
fn of_folder(folder: &Path) -> BTreeMap<String, String> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for path in fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let mut hashers: BTreeMap<String, blake3::Hasher> = BTreeMap::new();
    for path in files {
        let name = path.strip_prefix(folder).unwrap();
        let output = name.iter().next().unwrap().to_string_lossy().into_owned();
        // Where the spec lay and which program ran it; and the hashes of the others.
        if ["origin.json", "summary.json"].contains(&output.as_str()) {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let hasher = hashers.entry(output).or_default();
        hasher.update(name.as_os_str().as_encoded_bytes()).update(&(bytes.len() as u64).to_le_bytes()).update(&bytes);
    }
    hashers.into_iter().map(|(output, hasher)| (output, hasher.finalize().to_hex()[..16].to_owned())).collect()
}

/// What the experiment `name` comes to.
fn of_spec(name: &str) -> Digests {
    let (file, changes) = name.split_once(' ').unwrap_or((name, ""));
    let changes: Vec<Override> = changes.split_whitespace().map(|change| change.parse().unwrap()).collect();
    let experiment = Experiment::load(&root().join(file), &changes).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (store, planned) = done(&experiment, folder.path());
    outputs::write_spec(&store, &experiment).unwrap();
    outputs::finish(&store, &experiment, &planned).unwrap();
    let found = of_folder(folder.path());
    found.into_iter().map(|(output, hash)| ((name.to_owned(), output), hash)).collect()
}

/// Below `experiments/`, the specs that the modelled host alone runs.
fn modelled() -> Vec<String> {
    let root = root();
    let is_modelled = |path: &PathBuf| {
        let experiment = Experiment::load(path, &[]).unwrap();
        experiment.points().iter().all(|point| point.spec.stack.host == HostKind::Model)
    };
    specs()
        .into_iter()
        .filter(is_modelled)
        .map(|path| path.strip_prefix(&root).unwrap().display().to_string())
        .collect()
}

/// What differs, one line an output.
fn changes(kept: &Digests, found: &Digests) -> Vec<String> {
    let ran: BTreeSet<&String> = found.keys().map(|(spec, _)| spec).collect();
    let kept: Digests = kept
        .iter()
        .filter(|((spec, _), _)| ran.contains(spec))
        .map(|(key, hash)| (key.clone(), hash.clone()))
        .collect();
    let keys: BTreeSet<_> = kept.keys().chain(found.keys()).collect();
    let said = |hash: Option<&String>| hash.map_or("absent".to_owned(), Clone::clone);
    keys.into_iter()
        .filter(|key| kept.get(*key) != found.get(*key))
        .map(|key| {
            let (spec, output) = key;
            format!("experiments/{spec}: {output} was {}, is {}", said(kept.get(key)), said(found.get(key)))
        })
        .collect()
}

#[test]
fn the_results_of_experiments_keep_their_bytes() {
    let quick = QUICK.map(str::to_owned);
    let all: BTreeSet<String> = modelled().into_iter().chain(quick.clone()).collect();
    let long = std::env::var_os("PLUMB_LONG").is_some();
    let names: Vec<String> = if long { all.iter().cloned().collect() } else { quick.to_vec() };
    if !long {
        println!("skipped: {} experiments that take longer; PLUMB_LONG=1 does them", all.len() - names.len());
    }
    if let Some(only) = std::env::var_os(RENEW) {
        let only = only.to_string_lossy();
        for name in names.iter().filter(|name| only == "1" || name.contains(&*only)) {
            let found = of_spec(name);
            // Each by itself: what was done is not lost with what comes after it.
            let mut kept = kept();
            kept.retain(|(spec, _), _| all.contains(spec) && spec != name);
            kept.extend(found);
            keep(&kept);
        }
        return;
    }
    let kept = kept();
    let (known, new): (Vec<String>, Vec<String>) =
        names.into_iter().partition(|name| quick.contains(name) || kept.keys().any(|(spec, _)| spec == name));
    for name in new {
        println!("skipped: {name} has no digests yet; {RENEW}={name} PLUMB_LONG=1 keeps them");
    }
    let found = known.iter().flat_map(|name| of_spec(name)).collect();
    let changes = changes(&kept, &found);
    assert!(
        changes.is_empty(),
        "results are not what they were:\n{}\nIf that is meant, say in the commit why, and renew them: \
         {RENEW}=1 PLUMB_LONG=1 cargo test -p plumb-lab --test experiments digests",
        changes.join("\n")
    );
}

#[test]
fn a_change_is_named_with_its_spec_its_output_and_both_hashes() {
    let of = |rows: &[(&str, &str, &str)]| -> Digests {
        rows.iter()
            .map(|(spec, output, hash)| (((*spec).to_owned(), (*output).to_owned()), (*hash).to_owned()))
            .collect()
    };
    let kept = of(&[("a.toml", "runs.csv", "1"), ("a.toml", "fio", "2"), ("b.toml", "runs.csv", "3")]);
    assert_eq!(changes(&kept, &of(&[("a.toml", "runs.csv", "1"), ("a.toml", "fio", "2")])), Vec::<String>::new());
    assert_eq!(
        changes(&kept, &of(&[("a.toml", "runs.csv", "9"), ("a.toml", "report.html", "4")])),
        [
            "experiments/a.toml: fio was 2, is absent",
            "experiments/a.toml: report.html was absent, is 4",
            "experiments/a.toml: runs.csv was 1, is 9",
        ]
    );
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("fio")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("fio/1.json", "one");
    write("runs.csv", "a");
    write("origin.json", "here");
    let before = of_folder(folder.path());
    assert_eq!(before.keys().collect::<Vec<_>>(), ["fio", "runs.csv"]);
    write("fio/2.json", "");
    write("origin.json", "there");
    let after = of_folder(folder.path());
    assert!(before["fio"] != after["fio"] && before["runs.csv"] == after["runs.csv"]);
}
