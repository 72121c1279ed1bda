//! From experiments to their entries in an index.

use crate::experiment::Experiment;
use crate::finished::Finished;
use crate::report::IndexEntry;

/// That of a finished experiment whose results are in `folder` beside the index.
pub fn finished_entry(name: &str, experiment: &Experiment, finished: &Finished, folder: &str) -> IndexEntry {
    IndexEntry {
        name: name.to_owned(),
        title: experiment.spec.title.clone(),
        description: experiment.spec.description.clone(),
        points: finished.points.len(),
        comparisons: finished.shown_comparisons.clone(),
        failures: finished.failures.iter().map(|failure| failure.text.clone()).collect(),
        link: format!("{folder}/report.html"),
    }
}

/// That of an experiment that could not be run.
pub fn failed_entry(name: &str, experiment: &Experiment, message: String) -> IndexEntry {
    IndexEntry {
        name: name.to_owned(),
        title: experiment.spec.title.clone(),
        description: experiment.spec.description.clone(),
        failures: vec![message],
        ..IndexEntry::default()
    }
}
