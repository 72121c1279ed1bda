//! Charged processor time: each cost shows where it is due and nowhere else, devices stay as fast as they are, and the same table gives
//! the same bytes.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use std::process::Command;

use apps::processor::CLOSE_SYSTEM_CALLS;
use linux::{Charges, FileSystem, Kernel, Linux};
use linux_rig::{PLUMB, has, kernel, on, on_memory};
use serde_json::Value;
use units::ServerCosts;

/// Round numbers, each of its own size.
const COSTS: Charges = Charges {
    system_call_ns: 1_000,
    copy_ns_per_kib: 100,
    path_ns: 5_000,
    path_component_ns: 2_000,
    open_ns: 10_000,
    name_change_ns: 60_000,
    file_write_ns: 40_000,
    page_write_ns: 3_000,
    page_fault_ns: 20_000,
    page_cache_add_ns: 50_000,
    context_switch_ns: 300_000,
    fuse_request_ns: 700_000,
    plumb_fs: None,
};

/// Median nanoseconds an operation of each job in a guest.
fn times(kernel: &Kernel, charge: Option<Charges>) -> Value {
    let mut run: Linux = on_memory();
    run.file_system = FileSystem::Ext4;
    run.charge = charge;
    let outcome = run.command([PLUMB, "app", "processor", "--json"]).run(kernel).unwrap();
    assert!(outcome.ended.success(), "{outcome:?}");
    serde_json::from_slice(&outcome.stdout).unwrap()
}

fn median(times: &Value, name: &str) -> f64 {
    let job = times.as_array().unwrap().iter().find(|job| job["name"] == name).unwrap();
    job["quartiles_ns"][1].as_f64().unwrap()
}

#[test]
fn each_cost_shows_where_it_is_due() {
    let Some(kernel) = kernel() else { return };
    if !has("mkfs.ext4") {
        return;
    }
    let charged = times(&kernel, Some(COSTS));
    let read = |kib: f64| 1_000.0 + kib * 100.0;
    let close = f64::from(CLOSE_SYSTEM_CALLS) * 1_000.0;
    let by_path = |components: f64| 1_000.0 + 5_000.0 + components * 2_000.0;
    let expected = [
        ("read-4k", read(4.0)),
        ("read-16k", read(16.0)),
        ("read-64k", read(64.0)),
        ("write-4k", read(4.0) + 40_000.0 + 3_000.0),
        ("write-16k", read(16.0) + 40_000.0 + 4.0 * 3_000.0),
        ("write-64k", read(64.0) + 40_000.0 + 16.0 * 3_000.0),
        ("status-shallow", read(0.1) + 5_000.0 + 2_000.0),
        ("status-deep", read(0.1) + 5_000.0 + 16.0 * 2_000.0),
        // Below `.`, in a folder.
        ("status", read(0.2) + 5_000.0 + 3.0 * 2_000.0),
        ("open", by_path(1.0) + 10_000.0 + close),
        ("open-path", by_path(3.0) + 10_000.0 + close),
        ("create", 2.0 * by_path(1.0) + 10_000.0 + close + 2.0 * 60_000.0),
        // One call, two paths of one component, a name lost and one given.
        ("rename", 2.0 * by_path(1.0) - 1_000.0 + 2.0 * 60_000.0),
        ("read-new-page", 50_000.0 + read(64.0) / 16.0),
        ("touch-page", 20_000.0),
        // A write and a read, and going on after having waited.
        ("ping-pong", 300_000.0 + 2.0 * 1_000.0),
        // The reader's call, the server's poll and read; both wait.
        ("fuse-read-4k", 700_000.0 + 2.0 * 300_000.0 + 3.0 * 1_000.0),
        ("fuse-read-64k", 700_000.0 + 2.0 * 300_000.0 + 3.0 * 1_000.0),
    ];
    for (name, ns) in expected {
        let found = median(&charged, name);
        assert!((found / ns - 1.0).abs() < 0.02, "{name}: {found} ns, and {ns} are due");
    }
    assert_eq!(charged, times(&kernel, Some(COSTS)), "the same bytes");

    // Without a table, and with one of nothing, all of it is free: what is left is the clock's own step.
    for charge in [None, Some(Charges::default())] {
        let free = times(&kernel, charge);
        for (name, ns) in expected {
            let found = median(&free, name);
            assert!(found < ns / 50.0, "{name}: {found} ns for free");
        }
    }
}

#[test]
fn a_device_is_as_fast_as_without() {
    let Some(kernel) = kernel() else { return };
    let took = |charge: Option<Charges>| {
        let mut run = on("samsung-980pro-1tb");
        run.charge = charge;
        let outcome =
            run.script("dd if=$PLUMB_DEVICE of=/dev/null bs=4k count=200 iflag=direct 2>&1").run(&kernel).unwrap();
        assert!(outcome.ended.success(), "{outcome:?}");
        let device = outcome.device.clone().unwrap();
        (outcome.virtual_time().0 as f64, device["latency"].clone(), outcome.processor_time())
    };
    let (free_ns, device, word) = took(None);
    assert_eq!(word, "free");
    assert!(!device.is_null());
    let only_calls = Charges { system_call_ns: 10_000, ..Charges::default() };
    let (charged_ns, same_device, word) = took(Some(only_calls));
    assert_eq!(word, "charged");
    assert_eq!(device, same_device, "the server inside pays nothing");
    // A read and a write each, and what starting takes.
    let calls = (charged_ns - free_ns) / 10_000.0;
    assert!((400.0..600.0).contains(&calls), "{calls} system calls");
}

/// Folders are made one after the other, and the answer to each comes when what it took is over.
#[test]
fn a_file_systems_server_takes_time_for_what_it_computes() {
    let Some(kernel) = kernel() else { return };
    let took_ns = |plumb_fs: Option<ServerCosts>| {
        let mut run = on_memory();
        run.file_system = FileSystem::Betrfs;
        run.charge = Some(Charges { plumb_fs, ..Charges::least() });
        let outcome = run.script("mkdir $(seq 100)").run(&kernel).unwrap();
        assert!(outcome.ended.success(), "{outcome:?}");
        outcome.virtual_time().0 as f64
    };
    let free_ns = took_ns(None);
    let of_changes = ServerCosts { change_ns: 1_000_000, ..ServerCosts::default() };
    let changes = (took_ns(Some(of_changes)) - free_ns) / 1e6;
    assert!((99.0..102.0).contains(&changes), "{changes} changes");
    // Two requests each that only look.
    let of_lookups = ServerCosts { lookup_ns: 1_000_000, ..ServerCosts::default() };
    let lookups = (took_ns(Some(of_lookups)) - free_ns) / 1e6;
    assert!((199.0..203.0).contains(&lookups), "{lookups} lookups");
}

#[test]
fn a_table_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("costs.toml");
    std::fs::write(&file, "system_call_ns = 100\n").unwrap();
    let output = Command::new(PLUMB)
        .args(["linux", "--device", "samsung-980pro-1tb", "--charge"])
        .arg(&file)
        .args(["--", "true"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("costs.toml") && said.contains("copy_ns_per_kib"), "{said}");
}

#[test]
fn an_experiment_is_charged_by_its_spec() {
    if kernel().is_none() || !has("mkfs.ext4") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("costs.toml"), COSTS.to_toml(&[])).unwrap();
    let run = |stack: &str| {
        let text = format!(
            "title = 't'\nmetrics = ['program.elapsed_s']\n[stack]\ndevice = 'optane-905p-960gb'\n{stack}\n\
             [workload.program]\nmeasure = 'dd if=/dev/zero of=file bs=4k count=1000'\n"
        );
        std::fs::write(folder.path().join("spec.toml"), text).unwrap();
        let _ = std::fs::remove_dir_all(folder.path().join("results"));
        let mut command = Command::new(PLUMB);
        command
            .arg("run")
            .arg(folder.path().join("spec.toml"))
            .args(["--json", "--out"])
            .arg(folder.path().join("results"));
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().unwrap()
    };
    let took = |stack: &str| {
        let output = run(stack);
        assert!(output.status.success(), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let seconds = report["points"][0]["metrics"]["program.elapsed_s"]["value"].as_f64().unwrap();
        let page = std::fs::read_to_string(folder.path().join("results/report.html")).unwrap();
        (seconds, page)
    };
    let linux = "host = 'linux'\nfilesystem = 'ext4'";
    let (free_s, note) = took(linux);
    assert!(note.contains("compute is free"));
    let (charged_s, note) = took(&format!("{linux}\nlinux.charge = 'costs.toml'"));
    assert!(note.contains("Processor time is charged") && note.contains("page_cache_add_ns = 50000"));
    // 1000 reads of zeroes, 1000 writes with a copy of 4 KiB and a new page that is written.
    let due_s = 1000.0 * (2.0 * 1_000.0 + 400.0 + 50_000.0 + 43_000.0) / 1e9;
    assert!(charged_s - free_s > due_s, "{charged_s} s, {free_s} s for free");

    let output = run("host = 'model'\nlinux.charge = 'costs.toml'");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("stack.linux.charge") || said.contains("workload.program"), "{said}");
}
