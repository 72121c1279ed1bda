//! From what jobs and replays on the modelled host measured to a run's record.

use units::Nanos;
use workload::fio::output::Header;
use workload::fio::report::grouped;
use workload::fio::{self, DirectionReport, JobReport};
use workload::replay::{Backlog, ReplayReport};

use crate::host::model::Played;
use crate::results::{DirectionResult, JobResult, Latency, Series};

/// Of fio jobs.
pub(crate) fn played(reports: &[JobReport], notes: &[String]) -> Played {
    Played {
        jobs: job_results(reports),
        failures: reports.iter().flat_map(failures).collect(),
        remarks: Vec::new(),
        notes: notes.to_vec(),
        text: fio::output::text(reports, notes, &Header::default()),
        fio_json: Some(fio::output::json_plus(reports, &Header::default())),
    }
}

/// Of a replayed trace.
pub(crate) fn replayed(report: &ReplayReport) -> Played {
    let counts = report.counts;
    let mut notes = vec![format!("{} of {} traced requests were served", counts.served, counts.asked)];
    let mut note = |count: u64, what: &str| {
        if count > 0 {
            notes.push(format!("{count} {what}"));
        }
    };
    note(counts.out_of_order, "requests had a timestamp before that of an earlier line");
    note(counts.adjusted, "requests were rounded to logical blocks or wrapped onto the device");
    note(counts.empty_trims, "trims covered no whole logical block and were left out");
    if report.lateness.max() > Nanos::ZERO {
        let (p99, max) = (report.lateness.percentile(99.0), report.lateness.max());
        notes.push(format!("requests were issued late, since too many were in flight: p99 {p99}, at most {max}"));
    }
    let job = job_result(&report.job);
    Played {
        remarks: behind(&job, report.backlog.as_ref(), report.lateness.max()).into_iter().collect(),
        jobs: vec![job],
        failures: failures(&report.job),
        text: fio::output::text(std::slice::from_ref(&report.job), &notes, &Header::default()),
        notes,
        fio_json: None,
    }
}

/// What each job, or group of jobs, did.
pub(crate) fn job_results(reports: &[JobReport]) -> Vec<JobResult> {
    grouped(reports).iter().map(|report| job_result(report)).collect()
}

/// Requests below which a queue says nothing about a device.
const MANY: u64 = 100;
/// Parts of the trace's time in which what is left at its end is done, at most, by
/// a device that keeps up.
const DRAINED_IN_PARTS: u64 = 10;
/// One in so many requests is outstanding at the trace's end, at most, on such a device.
const LEFT_ONE_IN: u64 = 20;

/// What a replay by timestamp says whose device could not keep up: its
/// latencies are of the backlog and grow with the trace's length.
///
/// It is behind where the requests waiting grow to the trace's end: many are left
/// then, they take long, and none of the trace's second half found the device
/// idle. A burst, however high, is worked off, or begins with an idle device. So is
/// one whose bound on requests in flight held requests back.
fn behind(job: &JobResult, backlog: Option<&Backlog>, latest: Nanos) -> Option<String> {
    let backlog = backlog?;
    let latency = Latency::merged(job.directions.iter().map(|part| &part.lat));
    let growing = backlog.drained_in > backlog.due_over / DRAINED_IN_PARTS
        && backlog.at_last.saturating_mul(LEFT_ONE_IN) >= latency.count
        && backlog.idle_at < backlog.due_over / 2;
    if latency.count < MANY || !(growing || latest > Nanos::ZERO) {
        return None;
    }
    let seconds = |time: Nanos| format!("{:.3} s", time.0 as f64 / 1e9);
    Some(format!(
        "The device fell behind the trace: when the last request was due, after {}, {} were outstanding, and they took another {}. \
         Latencies ({} on average) are of that backlog, grow with the trace's length, and say little about the device. Replay more \
         slowly (workload.replay.speed), by completions (workload.replay.mode = \"closed\"), or on a faster device.",
        seconds(backlog.due_over),
        backlog.at_last,
        seconds(backlog.drained_in),
        seconds(Nanos(latency.mean_ns as u64))
    ))
}

/// One job, directions without I/O left out.
fn job_result(report: &JobReport) -> JobResult {
    let mut directions: Vec<DirectionResult> = report
        .directions
        .iter()
        .filter(|(_, part)| part.ios > 0)
        .map(|(direction, part)| direction_result(direction.name(), part, report))
        .collect();
    // What zonemode=zbd did between the job's own requests.
    let between = [("reset", &report.reset), ("finish", &report.finish)];
    directions.extend(
        between.iter().filter(|(_, part)| part.ios > 0).map(|(name, part)| direction_result(name, part, report)),
    );
    if !report.sync.is_empty() {
        directions.push(DirectionResult {
            direction: "sync".to_owned(),
            ios: report.sync.count(),
            bytes: 0,
            runtime_ns: report.runtime().0,
            iops_mean: 0.0,
            slat: None,
            clat: None,
            lat: Latency::from(&report.sync),
            series: Series::default(),
        });
    }
    JobResult { name: report.name.clone(), directions }
}

fn direction_result(direction: &str, part: &DirectionReport, report: &JobReport) -> DirectionResult {
    DirectionResult {
        direction: direction.to_owned(),
        ios: part.ios,
        bytes: part.bytes,
        runtime_ns: part.runtime.0,
        iops_mean: report.samples(part).1.mean,
        slat: (!report.setup.synchronous && !part.slat.is_empty()).then(|| Latency::from(&part.slat)),
        clat: Some(Latency::from(&part.clat)),
        lat: Latency::from(&part.lat),
        series: Series {
            interval_ns: part.series.interval().0,
            first: part.series.iter().next().map_or(0, |(start, _)| start.0 / part.series.interval().0.max(1)),
            bytes: part.series.iter().map(|(_, interval)| interval.bytes).collect(),
            ios: part.series.iter().map(|(_, interval)| interval.ios).collect(),
            lat_sum_ns: part.series.iter().map(|(_, interval)| interval.lat_sum_ns).collect(),
            lat_max_ns: part.series.iter().map(|(_, interval)| interval.lat_max_ns).collect(),
        },
    }
}

/// What went wrong in a job, one line each.
fn failures(report: &JobReport) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(shortfall) = &report.shortfall {
        lines.push(format!("job {}: {shortfall}", report.name));
    }
    let told = report.errors.iter().map(|error| format!("job {}: {error}", report.name));
    lines.extend(told.filter(|line| lines.iter().all(|known| !known.contains(line.as_str()))).collect::<Vec<_>>());
    let more = report.error_count.saturating_sub(report.errors.len() as u64);
    if more > 0 {
        lines.push(format!("job {}: {more} more errors", report.name));
    }
    if let Some(verify) = report.verify.as_ref().filter(|verify| verify.mismatches > 0) {
        lines.push(format!(
            "job {}: {} of {} blocks verified are wrong",
            report.name, verify.mismatches, verify.checked
        ));
        lines.extend(verify.first.iter().map(|mismatch| format!("job {}: {mismatch}", report.name)));
    }
    lines
}
