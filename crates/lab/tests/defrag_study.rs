//! What `workload.defrag` takes and refuses, as far as it needs neither a kernel nor root.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use lab::Experiment;
use lab::spec::{Override, SpecError};
use lab::{LabError, StudyHostError, plan};

/// Under `host = "live"`, which can be planned everywhere and run where root is.
const SPEC: &str = r#"
title = "t"
[stack]
host = "live"
device = "loop"
filesystem = "ext4"
[workload.defrag]
tool = "traced"
[workload.defrag.interleaved]
"#;

fn experiment(changes: &[&str]) -> Result<Experiment, SpecError> {
    let changes: Vec<Override> = changes.iter().map(|change| change.parse().unwrap()).collect();
    Experiment::parse("t", "t.toml", SPEC, Path::new(""), &changes)
}

#[test]
fn a_cell_is_a_point_like_any_other() {
    let sweep =
        "sweep={\"stack.filesystem\"=[\"ext4\",\"xfs\",\"btrfs\"],\"workload.defrag.tool\"=[\"none\",\"traced\"]}";
    let planned = plan(&experiment(&[sweep]).unwrap()).unwrap();
    assert_eq!(planned.len(), 6);
    let mut keys: Vec<&String> = planned.iter().map(|run| &run.key).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 6, "each cell is a result of its own");
    assert!(planned.iter().all(|run| run.inputs.profile.is_none()), "there is no model of this machine");
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    for (change, word) in [
        ("stack.device=optane-905p-960gb", "loop"),
        ("stack.filesystem=none", "stack.filesystem"),
        ("stack.filesystem=zonefs", "stack.filesystem"),
        ("stack.host=model", "host"),
        ("run.commands=true", "run.commands"),
        ("workload.defrag.hotness=0", "percentage"),
        ("workload.defrag.interleaved.files=1", "files"),
        ("workload.defrag.interleaved.size=1028k", "multiple"),
        ("workload.defrag.tree={}", "exactly one"),
        ("workload={defrag={tool=\"none\"}}", "exactly one"),
    ] {
        match plan(&experiment(&[change]).unwrap()) {
            Err(LabError::Study(StudyHostError::Unfit { message })) => {
                assert!(message.contains(word), "{change}: {message}")
            }
            // The model has no file systems, and a loop device is no profile: said before the workload is looked at.
            Err(error) if change == "stack.host=model" => assert!(error.to_string().contains("host"), "{error}"),
            other => panic!("{change}: {other:?}"),
        }
    }
    let fio = plan(&experiment(&["workload={fio=\"[j]\"}"]).unwrap()).unwrap_err().to_string();
    assert!(fio.contains("workload.defrag"), "{fio}");
    for change in ["workload.defrag.tool=magic", "workload.defrag.interleaved.colour=1", "workload.fio=[j]"] {
        assert!(experiment(&[change]).is_err(), "{change} was accepted");
    }
}
