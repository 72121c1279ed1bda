//! Tasks and a journal, on the modelled host.

use std::fmt::Write;
use std::sync::Arc;

use workload::Host;
use workload::journal::{Journal, JournalOptions, JournalReport};

use super::{Modelled, Reading, Workload};
use crate::error::LabError;
use crate::host::model::{Drive, Played, Simulated};
use crate::results::{DirectionResult, JobResult, Latency, Series};
use crate::spec::HostKind;

/// Tasks whose writes are committed.
#[derive(Debug)]
struct Commits(JournalOptions);

impl Simulated for Commits {
    fn play(&self, host: &Host, drive: &mut Drive<'_>) -> Result<Option<Played>, LabError> {
        let started = Journal::start(host, &self.0).map_err(LabError::unfit)?;
        if !drive(&|| started.progress()) {
            return Ok(None);
        }
        Ok(Some(played(&started.finish())))
    }
}

/// Reads `[workload.journal]`.
pub(super) fn read(reading: &mut Reading<'_>) -> Result<Arc<dyn Workload>, LabError> {
    if reading.spec.stack.host == HostKind::Live {
        return Err(super::not_live("host = \"model\" for workload.journal"));
    }
    reading.hasher.update(b"journal");
    Ok(Arc::new(Modelled(Commits(reading.spec.workload.journal.clone().unwrap_or_default()))))
}

/// From what the tasks measured to a run's record.
fn played(report: &JournalReport) -> Played {
    let mut notes = Vec::new();
    if let Some(why) = report.ordering.fallback {
        notes.push(format!("Order was kept by waiting and flushing: {why}"));
    }
    if report.order.broken > 0 {
        notes.push(format!("{} streams broke since a write failed", report.order.broken));
    }
    let mut failures = Vec::new();
    if let Some(first) = report.first_failure {
        failures.push(format!("{} writes failed, the first with {first:?}", report.failures));
    }
    if report.unfinished > 0 {
        failures.push(format!("{} tasks did not come to their end", report.unfinished));
    }
    let lat = Latency::from(&report.calls);
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = writeln!(
        text,
        "{} calls in {}, mean {:.1} us, p99 {:.1} us; {} commits, {} of them fast; {} checkpoints",
        lat.count,
        report.runtime,
        lat.mean_ns / 1e3,
        lat.percentile_ns(99.0) as f64 / 1e3,
        report.commits,
        report.fast_commits,
        report.checkpoints
    );
    let sync = DirectionResult {
        direction: "sync".to_owned(),
        ios: lat.count,
        bytes: report.data_bytes,
        runtime_ns: report.runtime.0,
        iops_mean: 0.0,
        slat: None,
        clat: None,
        lat,
        series: Series::default(),
    };
    let jobs = vec![JobResult { name: "journal".to_owned(), directions: vec![sync] }];
    Played { jobs, failures, remarks: Vec::new(), notes, text, fio_json: None }
}
