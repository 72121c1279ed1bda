//! A fault names the user's own file and the line in it, wherever it came from;
//! and a results folder is not given to two experiments.
#![allow(clippy::unwrap_used)]

mod common;

use common::{SWEEP, Scratch, results_bytes};

const JOB: &str = "[job]\nrw=randread\nbs=4k\nsize=16m\ndirect=1\n";

#[test]
fn a_job_file_is_called_what_the_user_called_it() {
    let scratch = Scratch::new();
    scratch.write("job.fio", JOB.replace("bs=4k", "bs=${BLOCK}k"));
    // What the environment does not have is empty, as in fio.
    scratch.plumb(&["run", "job.fio"]).fails(2, &["job.fio:3:4", "bs"]);
    let mut command = scratch.command(&["run", "job.fio", "--out", "out"]);
    common::Ran::of(command.env("BLOCK", "8").output().unwrap()).ok();
    let spec = std::fs::read_to_string(scratch.path("out/spec.toml")).unwrap();
    assert!(spec.contains("BLOCK = \"8\""), "{spec}");
    // A fault that shows when the jobs start.
    scratch.write("big.fio", "[small]\nrw=read\nbs=4k\nsize=1m\n\n[big]\nrw=read\nbs=4k\noffset=1t\nsize=4t\n");
    scratch.plumb(&["run", "big.fio"]).fails(2, &["big.fio:6"]);
    scratch.write("bom.fio", format!("\u{feff}{}", JOB.replace("4k", "four")));
    scratch.plumb(&["run", "bom.fio"]).fails(2, &["bom.fio:3:4"]);
    scratch.write("crlf.fio", JOB.replace("4k", "four").replace('\n', "\r\n"));
    scratch.plumb(&["run", "crlf.fio"]).fails(2, &["crlf.fio:3:4"]);
    scratch.write("bytes.fio", b"[job]\nrw=read\nname=\xff\xfe\n");
    scratch.plumb(&["run", "bytes.fio"]).fails(2, &["bytes.fio:3:"]);
}

#[test]
fn an_inline_job_is_a_line_of_its_spec() {
    let scratch = Scratch::new();
    scratch.write("spec.toml", SWEEP.replace("bs=4k", "bs=four"));
    scratch.plumb(&["run", "spec.toml"]).fails(2, &["spec.toml:10:4", "four"]);
    let escaped = SWEEP.replace("\"\"\"\n[job]", "\"[job]").replace("\n\"\"\"", "\\n\"");
    let (head, tail) = escaped.split_once("[job]").unwrap();
    let (job, tail) = tail.split_once("\"\n").unwrap();
    scratch.write("one-line.toml", format!("{head}[job]{}\"\n{tail}", job.replace('\n', "\\n").replace("4k", "four")));
    scratch.plumb(&["run", "one-line.toml"]).fails(2, &["one-line.toml:7:", "four"]);
    scratch.write("spec.toml", SWEEP.replace("size=64m", "size=64t"));
    scratch.plumb(&["run", "spec.toml"]).fails(2, &["spec.toml:8"]);
    let swept = "\"workload.fio\" = ['''\n[a]\nrw=read\nsize=1m\n''', '''\n[b]\nrw=raed\nsize=1m\n''']\n[run]\n";
    scratch.write("swept.toml", SWEEP.replace("[run]\n", swept));
    scratch.plumb(&["run", "swept.toml"]).fails(2, &["swept.toml:24:4", "raed"]);
}

#[test]
fn swept_and_changed_values_name_themselves() {
    let scratch = Scratch::new();
    scratch.write("spec.toml", SWEEP);
    let cases: [(&str, &[&str]); 5] = [
        ("run.repeats=many", &["--set run.repeats=many"]),
        ("workload.set.iodepht=3", &["--set workload.set.iodepht=3", "iodepth"]),
        ("stack.device_set.cell.read=soon", &["cell.read", "soon", "stack.device_set"]),
        ("run.repeats=0", &["spec.toml:19", "run.repeats is 0"]),
        ("workload.fio=[j", &["--set workload.fio"]),
    ];
    for (change, said) in cases {
        // The good one is not blamed.
        scratch.plumb(&["run", "spec.toml", "--set", "run.seed=3", "--set", change]).fails(2, said);
    }
    for (from, to, said) in [
        ("[1, 4, 16]", "[1, 'deep']", "spec.toml:17"),
        ("\"workload.set.iodepth\" = [1, 4, 16]", "\"run.seed\" = [1, 'x']", "spec.toml:17"),
        ("[1, 4, 16]", "[]", "spec.toml:17"),
        ("repeats = 2", "repeats = 0", "spec.toml:19"),
        ("[run]", "[[plot]]\nx = 'workload.set.bs'\ny = 'read.iops'\n[run]", "spec.toml:19"),
        ("[run]", "[[plot]]\nx = 'workload.set.iodepth'\ny = 'read.ipos'\n[run]", "spec.toml:20"),
    ] {
        scratch.write("spec.toml", SWEEP.replace(from, to));
        scratch.plumb(&["run", "spec.toml"]).fails(2, &[said]);
    }
}

#[test]
fn a_folder_holds_one_experiment() {
    let scratch = Scratch::new();
    scratch.write("a.toml", SWEEP);
    scratch.write("b.toml", SWEEP.replace("rw=randrw", "rw=randread"));
    scratch.plumb(&["run", "a.toml", "--out", "out"]).ok();
    let kept = results_bytes(&scratch.path("out"));
    scratch.plumb(&["run", "b.toml", "--out", "out"]).fails(2, &["out", "workload.fio", "--out", "--fresh"]);
    let other = ["run", "a.toml", "--out", "out", "--device", "samsung-860evo-250gb"];
    scratch.plumb(&other).fails(2, &["stack.device", "samsung-980pro-1tb", "samsung-860evo-250gb"]);
    // Fewer points would drop results out of the tables.
    scratch.write("less.toml", SWEEP.replace("[1, 4, 16]", "[1]"));
    scratch.plumb(&["run", "less.toml", "--out", "out"]).fails(2, &["sweep"]);
    assert_eq!(results_bytes(&scratch.path("out")), kept, "a refused run changed the folder");
    // The same goes on, and so does a sweep that has grown.
    scratch.plumb(&["run", "a.toml", "--out", "out"]).ok();
    scratch.write("a.toml", SWEEP.replace("[1, 4, 16]", "[1, 2, 4, 16]").replace("repeats = 2", "repeats = 3"));
    scratch.plumb(&["run", "a.toml", "--out", "out"]).ok();
    scratch.plumb(&["run", "b.toml", "--out", "out", "--fresh"]).ok();
    std::fs::write(scratch.path("out/spec.toml"), "title = 3").unwrap();
    scratch.plumb(&["run", "b.toml", "--out", "out"]).fails(2, &["out", "cannot be read", "--fresh"]);
}
