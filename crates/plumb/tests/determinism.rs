//! Same spec and seed, same bytes: however many threads, shards or starts it took.
#![allow(clippy::unwrap_used)]

mod common;

use common::{SWEEP, Scratch, assert_same_results, results_bytes};

#[test]
fn threads_and_starts_do_not_show() {
    let scratch = Scratch::new();
    scratch.write("spec.toml", SWEEP);
    for (out, threads) in [("a", "1"), ("b", "1"), ("c", "2")] {
        scratch.plumb(&["run", "spec.toml", "--threads", threads, "--out", out]).ok();
    }
    let bytes = results_bytes(&scratch.path("a"));
    for file in ["runs.csv", "runs.parquet", "latency.parquet", "counters.parquet", "report.html"] {
        assert!(bytes.iter().any(|(name, bytes)| name == file && !bytes.is_empty()), "{file} is missing");
    }
    assert_same_results(&scratch.path("a"), &scratch.path("b"));
    assert_same_results(&scratch.path("a"), &scratch.path("c"));
}

#[test]
fn shards_merge_to_the_whole() {
    let scratch = Scratch::new();
    scratch.write("spec.toml", SWEEP);
    scratch.plumb(&["run", "spec.toml", "--out", "whole"]).ok();
    for shard in ["1/3", "2/3", "3/3"] {
        scratch.plumb(&["run", "spec.toml", "--shard", shard, "--out", &shard[..1]]).ok();
    }
    scratch.plumb(&["merge", "1", "2", "--out", "part"]).fails(2, &["missing"]);
    scratch.plumb(&["merge", "1", "2", "3", "--out", "merged"]).ok();
    assert_same_results(&scratch.path("whole"), &scratch.path("merged"));
}

#[test]
fn another_seed_is_another_result() {
    let scratch = Scratch::new();
    scratch.write("spec.toml", SWEEP);
    scratch.plumb(&["run", "spec.toml", "--out", "a"]).ok();
    scratch.plumb(&["run", "spec.toml", "--seed", "8", "--out", "b"]).ok();
    let table = |out: &str| std::fs::read_to_string(scratch.path(out).join("runs.csv")).unwrap();
    assert_ne!(table("a"), table("b"));
}
