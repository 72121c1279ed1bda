//! A folder of specs in one go, and values made of several points.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Scratch, assert_same_results};

/// A victim's small reads, alone and beside one of two interferers.
const INTERFERENCE: &str = r#"
title = "reads beside reads"
[stack]
device = "samsung-980pro-1tb"
device_set.initial.fill = 0.1
[workload]
fio = """
[global]
size=64m
ioengine=libaio
direct=1
time_based
runtime=20ms
[victim]
rw=randread
bs=4k
iodepth=${DEPTH}
[interferer]
rw=randread
bs=128k
iodepth=${FORCE}
"""
sections.victim = ["victim"]
[sweep]
neighbour = ["none", "weak", "strong"]
"workload.variables.DEPTH" = [1, 4]
[variants.neighbour.none]
"workload.variables.FORCE" = 1
[variants.neighbour.weak]
"workload.variables.FORCE" = 1
"workload.sections.interferer" = ["interferer"]
[variants.neighbour.strong]
"workload.variables.FORCE" = 32
"workload.sections.interferer" = ["interferer"]
[interference]
victim = "job.victim"
interferer = "job.interferer"
without = { neighbour = "none" }
over = ["workload.variables.DEPTH"]
[[derived]]
name = "strong_to_weak"
as = "ratio"
value = "interference.z"
at = { neighbour = "strong" }
to = { neighbour = "weak" }
[[heat_map]]
x = "neighbour"
y = "workload.variables.DEPTH"
value = "job.victim.p99_us"
[[plot]]
x = "neighbour"
y = "interference.z"
[[published]]
at = { neighbour = "strong" }
metric = "interference.z"
value = 1
source = "a claim"
[[published]]
metric = "derived.strong_to_weak"
value = 2
source = "another claim"
"#;

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn interference_is_measured_over_the_load_points() {
    let scratch = Scratch::new();
    scratch.write("spec.toml", INTERFERENCE);
    let found = json(&scratch.plumb(&["run", "spec.toml", "--json", "--out", "out"]).ok().stdout);
    let rows = found["interference"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{found:#}");
    let effect =
        |row: &serde_json::Value, name: &str| row["metrics"][format!("interference.{name}")]["value"].as_f64().unwrap();
    // By hand from the table of runs: rate and p95 of the victim at both depths.
    let table = std::fs::read_to_string(scratch.path("out/runs.csv")).unwrap();
    let header: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let cell = |neighbour: &str, depth: &str, name: &str| -> f64 {
        let of = |line: &&str| {
            let cells: Vec<&str> = line.split(',').collect();
            cells[column("neighbour")] == neighbour
                && cells[column("workload.variables.DEPTH")] == depth
                && cells[column("job")] == "victim"
        };
        table.lines().find(of).unwrap().split(',').nth(column(name)).unwrap().parse().unwrap()
    };
    for (row, neighbour) in rows.iter().zip(["weak", "strong"]) {
        assert_eq!(row["parameters"]["neighbour"], neighbour);
        let term = |depth: &str| {
            let change = |name: &str| cell(neighbour, depth, name) / cell("none", depth, name) - 1.0;
            (0.5 * change("iops").powi(2) + 0.5 * change("lat_p95_ns").powi(2)).sqrt()
        };
        let want = (term("1") + term("4")) / 2.0;
        assert!((effect(row, "z") - want).abs() < 1e-9, "{neighbour}: {} and not {want}", effect(row, "z"));
        assert!(effect(row, "signed") > 0.0 && effect(row, "operations_per_s") > 100.0);
    }
    let ratio = effect(&rows[1], "z") / effect(&rows[0], "z");
    assert!(ratio > 1.5, "{ratio}");
    assert!((found["derived"]["derived.strong_to_weak"]["value"].as_f64().unwrap() - ratio).abs() < 1e-9);
    let sources: Vec<_> = found["published"].as_array().unwrap().iter().map(|row| row["source"].clone()).collect();
    assert_eq!(sources, ["a claim", "another claim"]);
    let report = std::fs::read_to_string(scratch.path("out/report.html")).unwrap();
    assert_eq!(report.matches("class=\"cell\"").count(), 6);
    let counters = std::fs::read_to_string(scratch.path("out/counters.csv")).unwrap();
    assert!(counters.contains(",cpu.core0_busy_ns,") && counters.contains(",cpu.context_switches,"));
    let said = scratch.plumb(&["run", "spec.toml", "--out", "out"]).ok().stdout;
    assert!(said.contains("Interference") && said.contains("derived.strong_to_weak"), "{said}");
}

#[test]
fn a_folder_runs_whole_and_resumes() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("specs/deeper")).unwrap();
    scratch.write("specs/b.toml", INTERFERENCE);
    scratch.write("specs/deeper/a.toml", common::SWEEP);
    scratch.write("specs/notes.txt", "not a spec");
    let said = scratch.plumb(&["run", "specs"]).ok().stdout;
    assert!(said.contains("reads beside reads") && said.contains("a small sweep"), "{said}");
    let index = std::fs::read_to_string(scratch.path("results/specs.html")).unwrap();
    let folders: Vec<_> =
        std::fs::read_dir(scratch.path("results")).unwrap().map(|entry| entry.unwrap().path()).collect();
    for name in ["a-", "b-"] {
        let folder =
            folders.iter().find(|folder| folder.file_name().unwrap().to_string_lossy().starts_with(name)).unwrap();
        let link = format!("{}/report.html", folder.file_name().unwrap().to_string_lossy());
        assert!(index.contains(&format!("href=\"{link}\"")), "no link to {link}");
        // Alone it comes to the same bytes, and a half-done folder to the whole.
        let file = if name == "a-" { "specs/deeper/a.toml" } else { "specs/b.toml" };
        let alone = scratch.path("alone").join(name);
        scratch.plumb(&["run", file, "--out", alone.to_str().unwrap()]).ok();
        assert_same_results(folder, &alone);
        let gone = std::fs::read_dir(folder.join("runs")).unwrap().next().unwrap().unwrap().path();
        std::fs::remove_file(gone).unwrap();
        scratch.plumb(&["run", "specs", "--threads", "1"]).ok();
        assert_same_results(folder, &alone);
    }
    let found = json(&scratch.plumb(&["run", "specs", "--json"]).ok().stdout);
    let names: Vec<_> = found.as_array().unwrap().iter().map(|item| item["experiment"].clone()).collect();
    assert_eq!(names, ["b", "a"]);
}

#[test]
fn a_folder_says_what_is_wrong() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("empty")).unwrap();
    scratch.plumb(&["run", "empty"]).fails(2, &["holds no spec"]);
    std::fs::create_dir_all(scratch.path("specs")).unwrap();
    scratch.write("specs/good.toml", common::SWEEP);
    scratch.plumb(&["run", "specs", "--shard", "1/2"]).fails(2, &["single spec"]);
    for (change, said) in [
        ("neighbour = \"strong\" }\nto", "neighbour = \"stronk\" }\nto"),
        ("without = { neighbour = \"none\" }", "without = { neighbour = \"nobody\" }"),
        ("y = \"workload.variables.DEPTH\"", "y = \"neighbour\""),
        ("y = \"interference.z\"", "y = \"interference.zz\""),
        ("[\"none\", \"weak\"", "[\"none\", \"wimp\""),
        ("sections.victim = [\"victim\"]", "sections.victim = [\"victin\"]"),
    ]
    .into_iter()
    .zip([
        "at 0 places",
        "without the interferer",
        "one value for each cell",
        "not a metric",
        "write one of none, strong, weak",
        "write one of victim, interferer",
    ]) {
        scratch.write("specs/bad.toml", INTERFERENCE.replace(change.0, change.1));
        scratch.plumb(&["run", "specs"]).fails(2, &[said]);
    }
    assert!(!scratch.path("results").exists(), "something ran before all was checked");
}
