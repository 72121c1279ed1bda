//! A mapping that is read in order, under a real kernel in virtual time: loading it ahead gains where the kernel's window is small, and
//! takes nothing where that keeps the drive busy by itself.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use linux_rig::{has, kernel, points};

/// The times of the points of an experiment with another sweep; all of them have read the same bytes, as this metric has them.
fn times(experiment: &str, sweep: &str, seen: &str) -> Vec<f64> {
    let points = points(&format!("crossprefetch/{experiment}"), sweep);
    let metric = |name: &str| -> Vec<f64> {
        points.iter().map(|point| point["metrics"][name]["value"].as_f64().unwrap()).collect()
    };
    let seen = metric(seen);
    assert!(seen[0] != 0.0 && seen.iter().all(|sum| *sum == seen[0]), "{experiment}: {seen:?}");
    metric("program.elapsed_s")
}

#[test]
fn a_mapping_that_is_loaded_ahead_never_takes_longer() {
    if kernel().is_none() || !has("mkfs.ext4") || !has("python3") {
        return;
    }
    let times = times(
        "model-loading.toml",
        "{\"workload.variables.WINDOW_KB\"=[128,1024],library=[\"without\",\"predict+opt\"]}",
        "program.output_hash",
    );
    let [small, small_ahead, large, large_ahead] = times[..] else { panic!("{times:?}") };
    println!("read-ahead of 128 KiB: {small} s, ahead {small_ahead} s; of 1 MiB: {large} s, ahead {large_ahead} s");
    assert!(small_ahead * 2.0 <= small, "{times:?}");
    assert!(large_ahead <= large * 1.01, "{times:?}");
}

/// Four threads that each unmap their mapping when they have read their quarter: what they have touched of the file is taken away
/// again, and the rest of it is wanted all the same.
#[test]
fn threads_that_copy_out_of_one_file_never_take_longer() {
    if kernel().is_none() || !has("mkfs.ext4") {
        return;
    }
    let sweep =
        "{\"workload.variables.PATTERN\"=[\"sequential\",\"random\"],library=[\"without\",\"predict+opt\",\"budget\"]}";
    let times = times("table4.toml", sweep, "program.contents_sum");
    println!("{times:?}");
    let [order, order_ahead, order_budget, random, random_ahead, random_budget] = times[..] else {
        panic!("{times:?}")
    };
    for (with, without) in
        [(order_ahead, order), (order_budget, order), (random_ahead, random), (random_budget, random)]
    {
        assert!(with <= without * 1.02, "{times:?}");
    }
}
