//! What a run prints and leaves behind.
#![allow(clippy::unwrap_used)]

mod common;

use common::{SWEEP, Scratch};

const JOB: &str = "[job]\nrw=randread\nbs=4k\nsize=16m\niodepth=4\nioengine=libaio\ndirect=1\n";

#[test]
fn a_fio_job_prints_as_fio_does() {
    let scratch = Scratch::new();
    scratch.write("job.fio", JOB);
    let ran = scratch.plumb(&["run", "job.fio", "--device", "optane-905p-960gb"]).ok();
    for part in ["job: (groupid=0, jobs=1)", "read: IOPS=", "clat percentiles", "report.html"] {
        assert!(ran.stdout.contains(part), "{part} is missing:\n{}", ran.stdout);
    }
    let json = scratch.plumb(&["run", "job.fio", "--device", "optane-905p-960gb", "--json"]).ok().stdout;
    assert!(json.contains("\"clat_ns\"") && json.contains("\"bins\""), "{json}");
}

#[test]
fn a_trace_follows_requests_to_the_flash() {
    let scratch = Scratch::new();
    scratch.write("job.fio", JOB);
    scratch.plumb(&["run", "job.fio", "--trace", "--out", "out"]).ok();
    let table = std::fs::read_to_string(scratch.path("out/trace.tsv")).unwrap();
    let mut lines = table.lines();
    let header: Vec<_> = lines.next().unwrap().split('\t').collect();
    let column = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let (track, request) = (column("track"), column("request"));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split('\t').collect()).collect();
    let one = rows.iter().find(|row| row[request] != "0").unwrap()[request];
    let tracks: Vec<_> = rows.iter().filter(|row| row[request] == one).map(|row| row[track]).collect();
    for layer in ["job", "hostq", "nvmeq", "controller", "die", "channel", "link"] {
        assert!(tracks.iter().any(|track| track.to_lowercase().contains(layer)), "no {layer} in {tracks:?}");
    }
    assert!(std::fs::metadata(scratch.path("out/trace.perfetto")).unwrap().len() > 1000);
}

#[test]
fn the_report_tells_of_each_kind_of_request() {
    let scratch = Scratch::new();
    // The writes and syncs begin long after the recorder's first slice is full.
    let later = "[later]\nstonewall\nrw=randwrite\nbs=4k\nsize=16m\nnumber_ios=200\nfsync=8\ndirect=1\n";
    scratch.write("job.fio", format!("{JOB}{later}"));
    scratch.plumb(&["run", "job.fio", "--out", "out"]).ok();
    let report = std::fs::read_to_string(scratch.path("out/report.html")).unwrap();
    for story in ["A read of median latency", "A write of median latency", "A flush of median latency"] {
        assert!(report.contains(story), "no story: {story}");
    }
}

#[test]
fn a_sweep_prints_json_and_published_values() {
    let scratch = Scratch::new();
    let published =
        "[[published]]\nat = { 'workload.set.iodepth' = 1 }\nmetric = 'read.mean_us'\nvalue = 1\nsource = 'a claim'\n";
    scratch.write("spec.toml", format!("{SWEEP}{published}"));
    let ran = scratch.plumb(&["run", "spec.toml"]).ok();
    assert!(ran.stdout.contains("a claim"), "{}", ran.stdout);
    let json = scratch.plumb(&["run", "spec.toml", "--json"]).ok().stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["points"].as_array().unwrap().len(), 3);
    scratch.write("strict.toml", format!("{SWEEP}{published}within = 0.5\n"));
    scratch.plumb(&["run", "strict.toml"]).fails(1, &["MISSED"]);
}

#[test]
fn a_realtime_job_goes_before_an_idle_one() {
    let scratch = Scratch::new();
    let job = "[urgent]\nprioclass=1\n[idle]\nprioclass=3\n";
    let global =
        "[global]\nrw=randread\nbs=4k\nsize=64m\niodepth=8\nioengine=libaio\ndirect=1\nruntime=1s\ntime_based\n";
    scratch.write("job.fio", format!("{global}{job}"));
    // One command at a time, and room for all in the scheduler: its order is all there is.
    let room = ["--set", "stack.block.nr_requests=64"];
    scratch.plumb(&[&["run", "job.fio", "--device", "microsd-evo-128gb", "--out", "out"][..], &room].concat()).ok();
    let table = std::fs::read_to_string(scratch.path("out/runs.csv")).unwrap();
    let header: Vec<_> = table.lines().next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let ios = |job: &str| -> u64 {
        let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
        rows.find(|row| row[column("job")] == job).map_or(0, |row| row[column("ios")].parse().unwrap())
    };
    assert!(ios("urgent") > 1000 && ios("idle") * 20 < ios("urgent"), "{} urgent, {} idle", ios("urgent"), ios("idle"));
}

#[test]
fn a_trace_is_replayed_by_timestamp() {
    let scratch = Scratch::new();
    // 1000 reads, one each millisecond.
    let lines: Vec<_> = (0..1000)
        .map(|i| format!("{},web,0,Read,{},4096,0\n", 128_166_372_003_061_629_u64 + i * 10_000, i * 8192))
        .collect();
    scratch.write("web.csv", lines.concat());
    scratch.plumb(&["run", "web.csv", "--device", "optane-905p-960gb", "--out", "out"]).ok();
    let table = std::fs::read_to_string(scratch.path("out/runs.csv")).unwrap();
    let cell = |name: &str| {
        let mut lines = table.lines();
        let at = lines.next().unwrap().split(',').position(|column| column == name).unwrap();
        lines.next().unwrap().split(',').nth(at).unwrap().to_owned()
    };
    assert_eq!(cell("ios"), "1000");
    let runtime_ms = cell("runtime_ns").parse::<f64>().unwrap() / 1e6;
    assert!((999.0..1000.0).contains(&runtime_ms), "{runtime_ms} ms");
}

#[test]
fn lists_name_what_there_is() {
    let scratch = Scratch::new();
    for (what, name) in [
        ("devices", "samsung-980pro-1tb"),
        ("schedulers", "mq-deadline"),
        ("fio-options", "iodepth"),
        ("trace-formats", "alibaba"),
    ] {
        let ran = scratch.plumb(&["list", what]).ok();
        assert!(ran.stdout.contains(name), "{}", ran.stdout);
        let json = scratch.plumb(&["list", what, "--json"]).ok().stdout;
        assert!(serde_json::from_str::<serde_json::Value>(&json).unwrap().is_array());
    }
}

#[test]
fn the_shipped_experiments_parse() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_plumb"))
        .args(["list", "experiments"])
        .current_dir(root)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("experiments/quickstart.toml"), "{text}");
    assert!(!text.contains("does not parse"), "{text}");
}
