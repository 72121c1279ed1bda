//! The shipped experiments: every one can be planned and says where its
//! published values are from; the designs come out as their mechanisms say.
#![allow(clippy::unwrap_used)]

mod digests;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use lab::Experiment;
use lab::quantity::{Effect, Quantity};
use lab::results::Store;
use lab::spec::{Override, SpecError};
use lab::{
    Batch, LabError, LinuxHostError, PlannedRun, PoolOptions, Quiet, Shard, StudyHostError, execute, finished, plan,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

fn specs() -> Vec<PathBuf> {
    let mut folders = vec![root()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "toml") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_experiment_can_be_planned() {
    let specs = specs();
    assert!(specs.len() > 40, "{}", specs.len());
    for path in specs {
        let experiment = Experiment::load(&path, &[]).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        match plan(&experiment) {
            Ok(planned) => assert!(!planned.is_empty()),
            // A real kernel and the real fio are not on every machine.
            Err(LabError::Linux(why @ (LinuxHostError::Guest(_) | LinuxHostError::NoFio { .. }))) => {
                println!("skipped: {}: {why}", path.display());
            }
            Err(LabError::Study(why @ StudyHostError::Guest(_))) => println!("skipped: {}: {why}", path.display()),
            Err(error) => panic!("{}: {error}", path.display()),
        }
        let spec = &experiment.spec;
        assert!(spec.description.len() > 60, "{}: what does it ask?", path.display());
        assert!(spec.published.iter().all(|row| !row.source.is_empty()), "{}", path.display());
        let points = experiment.points();
        let values = experiment.values(points, &[]);
        for row in &spec.published {
            let places = values.at(&Quantity::parse(&row.metric, spec).unwrap(), &row.at);
            assert_eq!(places.len(), 1, "{}: {} stands for no single point", path.display(), row.source);
        }
    }
}

/// Does every run of `experiment` into `folder`.
fn done(experiment: &Experiment, folder: &Path) -> (Store, Vec<PlannedRun>) {
    let store = Store::create(folder).unwrap();
    let planned = plan(experiment).unwrap();
    let stop = AtomicBool::new(false);
    let options = PoolOptions { threads: 2, shard: Shard::WHOLE, observer: &Quiet, stop: &stop };
    for outcome in execute(&[Batch { name: "", plan: &planned, store: &store }], options) {
        assert_eq!(outcome.unwrap().unfinished, 0);
    }
    (store, planned)
}

/// What a replay of `trace` on a disk remarks at `speed`.
fn remarked(trace: &Path, speed: f64) -> Vec<String> {
    let text = format!(
        "title = 't'\nstack.device = 'hdd-7200-1tb'\nworkload.trace = {trace:?}\nworkload.replay.speed = {speed:?}\n"
    );
    let experiment = Experiment::parse("t", "t.toml", &text, Path::new(""), &[]).unwrap();
    let (result, _, _) = lab::commands_of_run(&plan(&experiment).unwrap()[0], 0).unwrap();
    result.remarks
}

#[test]
fn a_replay_that_falls_behind_says_so_and_one_that_catches_up_does_not() {
    let web_0 = root().join("traces/web_0.csv").canonicalize().unwrap();
    // The disk serves some 800 requests a second; the trace has 4.1 at its own speed.
    for speed in [2.0, 100.0] {
        assert_eq!(remarked(&web_0, speed), Vec::<String>::new(), "{speed}");
    }
    for speed in [400.0, 4000.0] {
        let said = remarked(&web_0, speed);
        assert!(said.len() == 1 && said[0].contains("fell behind") && said[0].contains("outstanding"), "{said:?}");
    }
    // A burst, in the middle or at the end, is no device that is too slow for the trace.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("burst.csv");
    for burst_at in [500u64, 1000] {
        // MSR: timestamps of 100 ns; a request each 20 ms, and 200 at once.
        let line = |index: u64, at: u64| {
            format!("{},d,0,Read,{},4096,0\n", at * 200_000, (index * 7919 % 100_000) * 4096 * 64)
        };
        let quiet = (0..1000).map(|index| line(index, index));
        let burst = (1000..1200).map(|index| line(index, burst_at));
        let mut lines: Vec<(u64, String)> = (0..1000).zip(quiet).chain((0..200).map(|_| burst_at).zip(burst)).collect();
        lines.sort_by_key(|(at, _)| *at);
        std::fs::write(&path, lines.into_iter().map(|(_, line)| line).collect::<String>()).unwrap();
        assert_eq!(remarked(&path, 1.0), Vec::<String>::new(), "{burst_at}");
    }
    // The same rate as the burst's from start to end.
    let steady = (0..2000u64)
        .map(|index| format!("{},d,0,Read,{},4096,0\n", index * 5_000, (index * 7919 % 100_000) * 4096 * 64));
    std::fs::write(&path, steady.collect::<String>()).unwrap();
    assert!(remarked(&path, 1.0).iter().any(|text| text.contains("fell behind")));
}

/// Z and the cost of one operation of each design, from the shipped spec with
/// these designs and this interferer, for the writing victim.
fn effects(designs: &[&str], interferer: &str) -> Vec<(f64, f64)> {
    let list = |names: &[&str]| names.iter().map(|name| (*name).into()).collect::<Vec<toml::Value>>().into();
    let overrides = [
        Override::new("sweep.design", list(designs)),
        Override::new("sweep.interferer", list(&["none", interferer])),
        Override::new("sweep.victim", list(&["write"])),
    ];
    let experiment = Experiment::load(&root().join("zns/designs.toml"), &overrides).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (store, planned) = done(&experiment, folder.path());
    let runs = finished(&planned, &store, Shard::WHOLE).unwrap();
    assert!(
        runs.iter().all(|run| run.failures.is_empty()),
        "{:?}",
        runs.iter().map(|run| &run.failures).collect::<Vec<_>>()
    );
    let points = experiment.points();
    let values = experiment.values(points, &runs);
    let all = |effect| values.of(&Quantity::Interference(effect));
    let (z, stall) = (all(Effect::Z), all(Effect::Stall));
    z.iter().zip(&stall).map(|(z, stall)| (z.estimate.unwrap().value, stall.estimate.unwrap().value)).collect()
}

#[test]
fn resets_disturb_writes_as_their_designs_say() {
    let designs = ["full-reset", "partial-reset", "partial-reset-suspend", "background-reset", "lazy-reset"];
    let found = effects(&designs, "resets");
    let [full, partial, suspended, background, lazy] = found.try_into().unwrap();
    assert!(full.0 > 1.3 * partial.0, "a full reset erases twice the blocks of half a zone: {full:?}, {partial:?}");
    assert!(full.1 > 1.5 * partial.1, "and stalls a write twice as long: {full:?}, {partial:?}");
    assert!(suspended.1 < 0.5 * partial.1, "a suspended erase lets writes through: {suspended:?}, {partial:?}");
    assert!(background.0 < 0.5 * partial.0, "in the background it waits for idle time: {background:?}, {partial:?}");
    assert!(lazy.0 < 0.05, "a lazy reset erases nothing: {lazy:?}");
}

#[test]
fn finishes_disturb_writes_as_their_designs_say() {
    let designs = ["blocking-finish", "chunked-finish-4m", "chunked-finish-16k", "metadata-finish"];
    let found = effects(&designs, "finishes");
    let [blocking, large, small, metadata] = found.try_into().unwrap();
    assert!(blocking.1 > 2.0 * large.1, "a blocking finish stalls for the whole zone: {blocking:?}, {large:?}");
    assert!(large.1 > 1.5 * small.1, "a large chunk stalls longer than a small one: {large:?}, {small:?}");
    assert!(metadata.0 < 0.05, "a note in the map costs nothing: {metadata:?}");
}

/// docs/experiments.md shows every part of a spec; it must stay one.
#[test]
fn the_documented_spec_parses() {
    let page = include_str!("../../../../docs/experiments.md");
    let text = page.split("```toml").nth(1).unwrap().split("```").next().unwrap();
    let experiment = Experiment::parse("docs", "docs/experiments.md", text, Path::new(""), &[]).unwrap();
    assert_eq!(experiment.points().len(), 6);
    plan(&experiment).unwrap();
}

#[test]
fn a_name_that_is_no_value_is_told_with_its_line_when_the_spec_is_read() {
    let spec = "title = 't'\nstack.device = 'optane-905p-960gb'\nworkload.fio = '[j]'\n";
    for (more, line) in [
        ("metrics = ['read.iops', 'read.speed']\n", 4),
        ("[[plot]]\nx = 'workload.set.bs'\ny = 'erase.iops'\n[sweep]\n'workload.set.bs' = ['4k', '8k']\n", 6),
        ("[[published]]\nmetric = 'derived.x'\nvalue = 1\nsource = 's'\n", 5),
    ] {
        match Experiment::parse("t", "t.toml", &format!("{spec}{more}"), Path::new(""), &[]) {
            Err(SpecError::Syntax { line: at, message, .. }) => {
                assert!(at == line && message.contains("is not a metric"), "{at}: {message}");
            }
            other => panic!("{more}: {other:?}"),
        }
    }
}
