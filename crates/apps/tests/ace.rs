//! Every single operation, and a sample of pairs, on the file system of temporary files.
#![allow(clippy::unwrap_used)]

use apps::ace::{Outcome, Selection, run, workloads};

#[test]
fn workloads_run_and_leave_nothing() {
    let place = tempfile::tempdir().unwrap();
    let single = workloads(Selection { operations: 1, sample: Some(150), seed: 1 });
    let pairs = workloads(Selection { operations: 2, sample: Some(150), seed: 1 });
    let mut done = 0;
    for workload in single.iter().chain(&pairs) {
        done += usize::from(run(workload, place.path()).unwrap() == Outcome::Done);
    }
    assert!(done > 200, "{done} of 300");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_place_that_is_not_there_is_an_error_that_names_the_workload() {
    let workload = &workloads(Selection { operations: 1, sample: Some(1), seed: 1 })[0];
    let error = run(workload, "/nowhere".as_ref()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("workload {workload}: before the first operation:")), "{error}");
}
