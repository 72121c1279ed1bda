//! What `plumb prefetch run --json` says of a run is what happened.
#![allow(clippy::unwrap_used)]

mod common;
mod prefetch_rig;

use std::process::Command;

use common::Scratch;
use prefetch_rig::{Probe, cold_file, run};
use serde_json::Value;

const FILE_BYTES: u64 = 16 << 20;

/// The report of a reader whose ways are known: on a busy machine the first in which something was loaded for it in time.
fn report(probe: &Probe, way: &str, is_told: impl Fn(&Value) -> bool) -> Option<Value> {
    let scratch = Scratch::new();
    let mut last = Value::Null;
    for _ in 0..8 {
        let data = cold_file(&scratch, "data", FILE_BYTES);
        let (_, report) = run(&scratch, &[], &probe.command(&[way, data.to_str().unwrap()]));
        assert_eq!(report["programs"], 1, "{report}");
        // The first two make it a file that is read, and are not counted; behind windows that were read before they could be loaded,
        // reads go unseen.
        if report["windows_resident"] == 0 {
            assert_eq!(report["accesses"], 1022, "{report}");
            assert_eq!(report["accessed_bytes"], 1022 * 16_384, "{report}");
        }
        if report["windows_loaded"] == 0 && report["windows_resident"].as_u64() > Some(0) {
            println!("skipped: this file system keeps all in memory");
            return None;
        }
        if is_told(&report) {
            return Some(report);
        }
        last = report;
    }
    panic!("{way}: {last}");
}

fn of(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("{name}: {report}"))
}

#[test]
fn who_reads_all_of_it_leaves_nothing_behind() {
    let Some(probe) = Probe::compile_with("gcc", include_str!("prefetch_rig/figures.c")) else { return };
    let in_time = |report: &Value| report["timeliness"].as_f64() >= Some(0.8) && of(report, "evicted_bytes") == 0;
    let Some(report) = report(&probe, "all", in_time) else { return };
    assert_eq!((&report["accuracy"], &report["windows_lost_bytes"]), (&1.0.into(), &0.into()), "{report}");
    // Nearly all of it was read ahead, and the rest by the reader itself.
    let (used, loaded) = (of(&report, "windows_used_bytes"), of(&report, "loaded_bytes"));
    let nearly_all = FILE_BYTES * 9 / 10..=FILE_BYTES;
    assert!(nearly_all.contains(&used) && nearly_all.contains(&loaded), "{report}");
    let (ahead, itself) = (of(&report, "device_bytes_prefetched"), of(&report, "device_bytes_command"));
    assert!(ahead >= FILE_BYTES * 9 / 10 && ahead + itself <= FILE_BYTES * 11 / 10 + (2 << 20), "{report}");
    let coverage = report["coverage"].as_f64().unwrap();
    assert!((coverage - ahead as f64 / (ahead + itself) as f64).abs() < 1e-9 && coverage >= 0.85, "{report}");
}

#[test]
fn what_leaves_memory_before_it_is_read_is_counted() {
    let Some(probe) = Probe::compile_with("gcc", include_str!("prefetch_rig/figures.c")) else { return };
    let is_gone = |report: &Value| of(report, "evicted_bytes") >= FILE_BYTES / 8;
    let Some(report) = report(&probe, "evicted", is_gone) else { return };
    assert!(of(&report, "evicted_bytes") <= FILE_BYTES, "{report}");
    // It was there when its reader came to it, and was read from the drive again: half of what that read was for nothing.
    let (ahead, itself) = (of(&report, "device_bytes_prefetched"), of(&report, "device_bytes_command"));
    assert!(ahead + itself >= FILE_BYTES * 3 / 2, "{report}");
    assert!(report["coverage"].as_f64() < Some(0.75), "{report}");
}

#[test]
fn who_goes_elsewhere_leaves_something_behind() {
    let Some(probe) = Probe::compile_with("gcc", include_str!("prefetch_rig/figures.c")) else { return };
    let is_lost = |report: &Value| of(report, "windows_lost_bytes") > 0;
    let Some(report) = report(&probe, "elsewhere", is_lost) else { return };
    let (used, lost) = (of(&report, "windows_used_bytes"), of(&report, "windows_lost_bytes"));
    let accuracy = report["accuracy"].as_f64().unwrap();
    assert!((accuracy - used as f64 / (used + lost) as f64).abs() < 1e-9 && accuracy < 1.0, "{report}");
    assert!(lost <= 2 * FILE_BYTES, "{report}");
}

#[test]
fn where_the_kernel_says_nothing_of_what_is_in_memory_windows_are_loaded_all_the_same() {
    let Some(refuse) = Probe::compile_with("gcc", include_str!("prefetch_rig/refuse.c")) else { return };
    let Some(probe) = Probe::compile_with("gcc", include_str!("prefetch_rig/figures.c")) else { return };
    let scratch = Scratch::new();
    let data = cold_file(&scratch, "data", FILE_BYTES);
    let under = |residency: &str| {
        let mut words = refuse.command(&[env!("CARGO_BIN_EXE_plumb"), "prefetch", "run", "--residency", residency]);
        words.extend(["--agent", "/nowhere", "--json", "report.json", "--"].map(String::from));
        words.extend(probe.command(&["all", data.to_str().unwrap()]));
        Command::new(&words[0]).args(&words[1..]).current_dir(scratch.path("")).output().unwrap()
    };
    // Whoever names a source learns that it is not there; by itself the next best is taken, here none.
    let named = under("cachestat");
    assert_eq!(named.status.code(), Some(2), "{named:?}");
    assert!(String::from_utf8_lossy(&named.stderr).contains("no cachestat"), "{named:?}");
    for residency in ["auto", "none"] {
        let ran = under(residency);
        assert_eq!((ran.status.code(), &ran.stderr[..]), (Some(0), &b""[..]), "{residency}: {ran:?}");
        let report: Value = serde_json::from_slice(&std::fs::read(scratch.path("report.json")).unwrap()).unwrap();
        assert!(of(&report, "windows_loaded") > 0, "{residency}: {report}");
        assert_eq!((of(&report, "windows_resident"), of(&report, "accesses")), (0, 1022), "{residency}: {report}");
    }
}
