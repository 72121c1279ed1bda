//! Time series as fio's own logs (`write_bw_log`, `write_lat_log`,
//! `write_iops_log` with `log_avg_msec`), which fio2gnuplot reads.
//!
//! A line is: milliseconds, value, direction (0 read, 1 write, 2 trim), block
//! size, offset, priority. Bandwidth is in KiB a second, latency in nanoseconds.
//! As in fio's averaged logs, block size and offset are 0.

use std::fmt::Write;

use super::record::{Interval, JobResult};

/// A log's text: of its kind and of one job.
pub(super) struct FioLog {
    /// `bw`, `iops` or `lat`.
    pub(super) kind: &'static str,
    pub(super) text: String,
}

/// The logs of a job; none where it has no series.
pub(super) fn logs(job: &JobResult) -> Vec<FioLog> {
    let mut lines: [Vec<(u64, u8, u64)>; 3] = Default::default();
    for part in &job.directions {
        let Some(direction) = ["read", "write", "trim"].iter().position(|name| *name == part.direction) else {
            continue;
        };
        let interval_ns = part.series.interval_ns;
        if interval_ns == 0 {
            continue;
        }
        let seconds = interval_ns as f64 / 1e9;
        // The job ends within its last interval, whose rate would be too low; fio, too,
        // leaves out what does not fill one.
        let whole = part.series.ios.len().saturating_sub(1).max(1);
        for interval in part.series.intervals().take(whole) {
            let Interval { start_ns, bytes, ios, lat_mean_ns, .. } = interval;
            // fio writes an average when its interval ends.
            let at_ms = (start_ns + interval_ns) / 1_000_000;
            let mut push = |log: usize, value: f64| lines[log].push((at_ms, direction as u8, value.round() as u64));
            push(0, bytes as f64 / 1024.0 / seconds);
            push(1, ios as f64 / seconds);
            if let Some(mean) = lat_mean_ns {
                push(2, mean);
            }
        }
    }
    let log = |(kind, mut lines): (&'static str, Vec<(u64, u8, u64)>)| {
        lines.sort_by_key(|(at_ms, direction, _)| (*at_ms, *direction));
        let mut text = String::with_capacity(lines.len() * 32);
        for (at_ms, direction, value) in &lines {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{at_ms}, {value}, {direction}, 0, 0, 0");
        }
        FioLog { kind, text }
    };
    let logs = ["bw", "iops", "lat"].into_iter().zip(lines).map(log);
    logs.filter(|log| !log.text.is_empty()).collect()
}

/// A job's name as part of a file's: letters, digits and a few signs stay.
pub(super) fn file_part(name: &str) -> String {
    let kept = name.chars().take(60).map(|c| if c.is_alphanumeric() || "._+".contains(c) { c } else { '-' });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::super::{DirectionResult, Series};
    use super::*;

    #[test]
    fn lines_as_fio_writes_them() {
        let part = |direction: &str, first| DirectionResult {
            direction: direction.to_owned(),
            series: Series {
                interval_ns: 500_000_000,
                first,
                bytes: vec![1 << 20, 0, 1 << 18],
                ios: vec![256, 0, 64],
                lat_sum_ns: vec![25_600_000, 0, 6_400_000],
                lat_max_ns: vec![200_000, 0, 200_000],
            },
            ..DirectionResult::default()
        };
        let job =
            JobResult { name: "j".to_owned(), directions: vec![part("read", 1), part("write", 0), part("sync", 0)] };
        let logs = logs(&job);
        let text = |kind: &str| logs.iter().find(|log| log.kind == kind).unwrap().text.clone();
        assert_eq!(
            text("bw"),
            "500, 2048, 1, 0, 0, 0\n1000, 2048, 0, 0, 0, 0\n1000, 0, 1, 0, 0, 0\n1500, 0, 0, 0, 0, 0\n"
        );
        assert_eq!(text("iops").lines().next(), Some("500, 512, 1, 0, 0, 0"));
        assert_eq!(text("lat"), "500, 100000, 1, 0, 0, 0\n1000, 100000, 0, 0, 0, 0\n");
        assert!(super::logs(&JobResult::default()).is_empty());
        assert_eq!(file_part("../a b/é=x"), "..-a-b-é-x");
    }
}
