//! The study of fragmentation: correlation and slope along a swept key, and what
//! the shipped specs claim of commands and dies.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use lab::Experiment;
use lab::quantity::Quantity;
use lab::results::Store;
use lab::spec::Override;
use lab::{Batch, PoolOptions, Quiet, Shard, execute, finished, plan};

/// The quantity everywhere: swept values as the tables show them, and the number.
fn values_of(experiment: &Experiment, names: &[&str]) -> Vec<Vec<(String, Option<f64>)>> {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path()).unwrap();
    let planned = plan(experiment).unwrap_or_else(|error| panic!("{error}"));
    let stop = AtomicBool::new(false);
    let options = PoolOptions { threads: 2, shard: Shard::WHOLE, observer: &Quiet, stop: &stop };
    for outcome in execute(&[Batch { name: "", plan: &planned, store: &store }], options) {
        assert_eq!(outcome.unwrap().unfinished, 0);
    }
    let runs = finished(&planned, &store, Shard::WHOLE).unwrap();
    assert!(runs.iter().all(|run| run.failures.is_empty()), "{:?}", runs[0].failures);
    let points = experiment.points();
    let values = experiment.values(points, &runs);
    let of = |name: &&str| {
        let places = values.of(&Quantity::parse(name, &experiment.spec).unwrap());
        places.iter().map(|place| (place.label(), place.estimate.map(|estimate| estimate.value))).collect()
    };
    names.iter().map(of).collect()
}

fn shipped(name: &str, overrides: &[Override]) -> Experiment {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../experiments/fragpicker", name].iter().collect();
    Experiment::load(&path, overrides).unwrap_or_else(|error| panic!("{error}"))
}

fn sweep<T: Clone + Into<toml::Value>>(key: &str, values: &[T]) -> Override {
    Override::new(&format!("sweep.\"{key}\""), values.iter().cloned().map(Into::into).collect::<Vec<_>>().into())
}

const SPEC: &str = r#"
title = "t"
[stack]
device = "optane-905p-960gb"
[workload]
fio = """
[j]
rw=read
bs=32k
size=64k
frag_distance=1m
"""
[sweep]
"workload.set.number_ios" = [1, 2]
"workload.set.frag_size" = ["4k", "8k", "16k", "32k"]
[[derived]]
name = "cc"
as = "correlation"
value = "counter.block.read_commands"
over = "workload.set.frag_size"
at = { "workload.set.number_ios" = 2 }
[[derived]]
name = "slope"
as = "slope"
value = "counter.block.read_commands"
over = "workload.set.frag_size"
at = { "workload.set.number_ios" = 1 }
[[derived]]
name = "flat"
as = "correlation"
value = "read.count"
over = "workload.set.frag_size"
at = { "workload.set.number_ios" = 1 }
"#;

/// Commands are 8, 4, 2, 1 for each request of 32 KiB.
#[test]
fn a_trend_is_that_of_the_numbers() {
    let experiment = Experiment::parse("t", "t.toml", SPEC, Path::new(""), &[]).unwrap();
    let found = values_of(&experiment, &["counter.block.read_commands", "derived.cc", "derived.slope", "derived.flat"]);
    let commands: Vec<f64> = found[0].iter().map(|(_, value)| value.unwrap()).collect();
    assert_eq!(commands, [8.0, 4.0, 2.0, 1.0, 16.0, 8.0, 4.0, 2.0]);
    // By hand: x 1, 2, 4, 8 has mean 3.75 and squares 28.75; y 8, 4, 2, 1 the same; products -18.75 + ... = -24.25.
    let products: f64 =
        [(1.0, 8.0), (2.0, 4.0), (4.0, 2.0), (8.0, 1.0)].iter().map(|(x, y)| (x - 3.75) * (y - 3.75)).sum();
    let want = products / 28.75;
    assert!((found[1][0].1.unwrap() - want).abs() < 1e-9, "{:?} {want}", found[1]);
    // x and y are both divided by 8 of their units: the slope is the same number.
    assert!((found[2][0].1.unwrap() - want).abs() < 1e-9, "{:?} {want}", found[2]);
    assert_eq!(found[3][0].1, None, "what does not vary correlates with nothing");
}

#[test]
fn a_trend_that_means_nothing_is_refused() {
    for (change, words) in [
        (
            Override::new("sweep.\"workload.set.frag_size\"", vec!["4k".into(), toml::Value::from("8k")].into()),
            "3 or more",
        ),
        (
            Override::new("sweep.\"workload.set.rw\"", vec!["read".into(), toml::Value::from("randread")].into()),
            "in `at`",
        ),
    ] {
        let error = Experiment::parse("t", "t.toml", SPEC, Path::new(""), &[change]).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    for (from, to, words) in [
        ("over = \"workload.set.frag_size\"\nat = { \"workload.set.number_ios\" = 2 }", "", "needs `over`"),
        ("as = \"slope\"", "as = \"ratio\"", "goes with"),
        ("\"32k\"", "\"many\"", "neither a number nor a size"),
        ("name = \"cc\"", "name = \"cc\"\nbase = \"read.count\"", "no base"),
    ] {
        assert!(SPEC.contains(from));
        let text = SPEC.replacen(from, to, 1);
        let error = Experiment::parse("t", "t.toml", &text, Path::new(""), &[]).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let unswept = SPEC.replacen("over = \"workload.set.frag_size\"", "over = \"workload.set.bs\"", 1);
    assert!(Experiment::parse("t", "t.toml", &unswept, Path::new(""), &[]).is_err());
}

/// Fig. 4: size matters everywhere, distance on the disk and not on Optane.
#[test]
fn distance_costs_a_disk_and_not_an_optane() {
    let lines = |spec: &str| {
        let changes = [
            sweep("workload.set.rw", &["read", "write"]),
            sweep("workload.set.frag_size", &["4k", "16k", "1m"]),
            sweep("workload.set.frag_distance", &["4k", "256k", "1m"]),
            Override::new("workload.set.size", "2m".into()),
        ];
        let found = values_of(&shipped(spec, &changes), &["read.mb_per_s"]);
        found[0].iter().filter_map(|(_, value)| *value).collect::<Vec<f64>>()
    };
    let optane = lines("fig4d-optane.toml");
    assert!(optane[..3].iter().all(|value| *value == optane[0]), "{optane:?}");
    assert!(optane[8] > 1.5 * optane[2], "{optane:?}");
    let disk = lines("fig4a-hdd.toml");
    assert!(disk[0] > 5.0 * disk[2], "{disk:?}");
    assert!(disk[8] > 10.0 * disk[2], "{disk:?}");
}

/// Every page on one die: one page a page read. The profile's page is 16 KiB,
/// its TLC read 45 us.
#[test]
fn a_file_on_one_die_is_read_at_the_rate_of_one_die() {
    let changes = [
        sweep("workload.variables.DEPTH", &[1, 8]),
        sweep("layout", &["whole", "pieces"]),
        sweep("n", &[1, 32]),
        Override::new("plot", toml::Value::Array(Vec::new())),
    ];
    let found = values_of(&shipped("die-stride.toml", &changes), &["job.reading.read.mb_per_s"]);
    let rates: Vec<f64> = found[0].iter().filter_map(|(_, value)| *value).collect();
    let [.., deep_whole, deep_one_die, deep_split, deep_both] = rates[..] else { panic!("{rates:?}") };
    let one_die = 16_384.0 / 45.0;
    for rate in [deep_one_die, deep_both] {
        assert!((rate / one_die - 1.0).abs() < 0.01, "{rate} MB/s, not {one_die}");
    }
    assert!(deep_whole > 0.95 * 7_000.0, "the link's rate: {deep_whole}");
    assert!(deep_split > 0.9 * deep_whole, "16 KiB pieces cost a deep queue little: {deep_split}");
}

/// Which explanation holds depends on the piece: commands for pieces below a flash
/// page, dies above.
#[test]
fn small_pieces_cost_commands_and_large_ones_dies() {
    let changes = [
        sweep("stack.device", &["samsung-980pro-1tb"]),
        sweep("workload.variables.DEPTH", &[1]),
        sweep("piece", &["16k", "64k"]),
        Override::new("derived", toml::Value::Array(Vec::new())),
        Override::new("published", toml::Value::Array(Vec::new())),
    ];
    let found = values_of(&shipped("die-collisions.toml", &changes), &["job.reading.read.mb_per_s"]);
    let rates: Vec<f64> = found[0].iter().filter_map(|(_, value)| *value).collect();
    for rates in rates.chunks(4) {
        let [alone, dies, split, both] = rates[..] else { panic!("{rates:?}") };
        assert!(dies < 0.7 * alone && split > 0.8 * alone, "{rates:?}");
        assert!(both <= dies && both <= split, "{rates:?}");
    }
}
