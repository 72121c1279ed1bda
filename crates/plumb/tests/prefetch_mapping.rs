//! A mapping that is read in order, under a real kernel in virtual time: loading it ahead gains where the kernel's window is small, and
//! takes nothing where that keeps the drive busy by itself.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use std::path::Path;
use std::process::Command;

use linux_rig::{PLUMB, has, kernel};
use serde_json::Value;

#[test]
fn a_mapping_that_is_loaded_ahead_never_takes_longer() {
    if kernel().is_none() || !has("mkfs.ext4") || !has("python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/crossprefetch/model-loading.toml");
    let sweep = "sweep={\"workload.variables.WINDOW_KB\"=[128,1024],library=[\"without\",\"predict+opt\"]}";
    let output = Command::new(PLUMB)
        .arg("run")
        .arg(spec)
        .args(["--json", "--quiet", "--set", sweep, "--out"])
        .arg(folder.path().join("results"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let points = report["points"].as_array().unwrap();
    let times: Vec<f64> =
        points.iter().map(|point| point["metrics"]["program.elapsed_s"]["value"].as_f64().unwrap()).collect();
    let [small, small_ahead, large, large_ahead] = times[..] else { panic!("{times:?}") };
    println!("read-ahead of 128 KiB: {small} s, ahead {small_ahead} s; of 1 MiB: {large} s, ahead {large_ahead} s");
    assert!(small_ahead * 2.0 <= small, "{times:?}");
    assert!(large_ahead <= large * 1.01, "{times:?}");
}
