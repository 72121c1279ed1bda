//! What `host = "linux"` takes and refuses, as far as it needs no kernel.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use lab::Experiment;
use lab::spec::Override;
use lab::{LabError, LinuxHostError, plan};

const SPEC: &str = r#"
title = "t"
[stack]
host = "linux"
device = "samsung-980pro-1tb"
[workload]
fio = "[j]\nrw=read\nioengine=psync\ndirect=1\nsize=4k\n"
"#;

fn planned(changes: &[&str]) -> Result<usize, LabError> {
    let changes: Vec<Override> = changes.iter().map(|change| change.parse().unwrap()).collect();
    let experiment = Experiment::parse("t", "t.toml", SPEC, Path::new(""), &changes)?;
    plan(&experiment).map(|runs| runs.len())
}

#[test]
fn what_a_real_kernel_cannot_be_asked_for_is_named() {
    for (change, option) in [
        ("stack.block.scheduler=zinc", "stack.block.scheduler"),
        ("stack.block.cpus=4", "stack.block.cpus"),
        ("stack.block.nr_hw_queues=2", "stack.block.nr_hw_queues"),
        ("stack.block.queue_depth=7", "stack.block.queue_depth"),
        ("stack.block.max_segments=7", "stack.block.max_segments"),
        ("stack.contents=none", "stack.contents"),
        ("workload.set.ioengine=spdk", "ioengine=spdk"),
        ("workload.set.frag_size=4k", "frag_size"),
        ("workload.set.filename=/dev/nvme0n2", "filename"),
    ] {
        match planned(&[change]) {
            Err(LabError::Linux(LinuxHostError::Option { option: named, .. })) => assert_eq!(named, option),
            other => panic!("{change}: {other:?}"),
        }
    }
}

#[test]
fn the_model_has_no_file_systems() {
    match planned(&["stack.host=model", "stack.filesystem=ext4"]) {
        Err(LabError::Linux(LinuxHostError::ModelOption { option, .. })) => assert_eq!(option, "stack.filesystem"),
        other => panic!("{other:?}"),
    }
    assert_eq!(planned(&["stack.host=model"]).unwrap(), 1);
}

/// Results under different hosts and file systems are different results.
#[test]
fn keys_tell_hosts_apart() {
    let key = |changes: &[&str]| {
        let changes: Vec<Override> = changes.iter().map(|change| change.parse().unwrap()).collect();
        let experiment = Experiment::parse("t", "t.toml", SPEC, Path::new(""), &changes).unwrap();
        experiment.points()[0].key(1, "inputs")
    };
    assert_ne!(key(&[]), key(&["stack.host=model"]));
    assert_ne!(key(&[]), key(&["stack.filesystem=ext4"]));
    assert_ne!(key(&["stack.linux.front_end=ublk"]), key(&["stack.linux.front_end=nvme-tcp"]));
}

/// The spec with lines of `[stack.linux]`, and more of `[stack]` before them.
fn with(stack: &str, lines: &str) -> Result<usize, String> {
    let text = SPEC.replace("[workload]", &format!("{stack}\n[stack.linux]\n{lines}\n[workload]"));
    let experiment = Experiment::parse("t", "t.toml", &text, Path::new(""), &[]).map_err(|error| error.to_string())?;
    plan(&experiment).map(|runs| runs.len()).map_err(|error| error.to_string())
}

#[test]
fn keys_of_order_that_do_not_fit_are_named_with_their_line() {
    let ext4 = "filesystem = \"ext4\"";
    for (stack, lines, line, word) in [
        (ext4, "ordering = \"streams:all\"", 8, "task, cgroup, one"),
        (ext4, "ordering = \"flush\"", 8, "streams"),
        (ext4, "submission_cpus = 0", 8, "1 to 256"),
        (ext4, "submission_cpus = 257", 8, "1 to 256"),
        (ext4, "migrate_every = 0", 8, "nonzero"),
        ("filesystem = \"xfs\"", "memory = \"1GiB\"\nordering = \"streams\"", 9, "stack.filesystem = \"ext4\""),
        (ext4, "front_end = \"ublk\"\nordering = \"streams\"", 9, "nvme-tcp"),
        (ext4, "image_on = \"xfs\"", 8, "stack.filesystem = \"betrfs\""),
        ("filesystem = \"betrfs\"", "image_on = \"zonefs\"", 8, "ext4, xfs, btrfs or f2fs"),
        ("block.cpus = 9", "", 6, "one processor"),
    ] {
        let said = with(stack, lines).unwrap_err();
        assert!(said.starts_with(&format!("t.toml:{line}:")) && said.contains(word), "{lines}: {said}");
    }
    for (name, value) in [("stack.linux.ordering", "streams"), ("stack.linux.image_on", "ext4")] {
        match planned(&["stack.host=model", &format!("{name}={value}")]) {
            Err(LabError::Linux(LinuxHostError::ModelOption { option, .. })) => assert_eq!(option, name),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn keys_tell_orders_apart() {
    let key = |change: &str| {
        let changes: Vec<Override> = (!change.is_empty()).then(|| change.parse().unwrap()).into_iter().collect();
        let experiment = Experiment::parse("t", "t.toml", SPEC, Path::new(""), &changes).unwrap();
        experiment.points()[0].key(1, "inputs")
    };
    let changes = [
        "",
        "stack.linux.ordering=streams:one",
        "stack.linux.ordering=streams",
        "stack.linux.submission_cpus=2",
        "stack.linux.migrate_every=2",
        "stack.linux.image_on=ext4",
    ];
    let keys: std::collections::BTreeSet<_> = changes.into_iter().map(key).collect();
    assert_eq!(keys.len(), changes.len());
}
