//! fio's text.

use std::fmt::{self, Write};

use stats::Histogram;
use units::Nanos;

use super::Header;
use super::number::{Base, bandwidth, short, time_unit};
use super::summary::{GroupRates, LATENCY_BOUNDS, cpu_percent, errno, latency_table, percentiles, sections, share};
use crate::fio::report::{DirectionReport, JobReport, grouped};

/// The reports as fio 3.33 prints them. `notes` are printed first.
pub fn text(reports: &[JobReport], notes: &[String], header: &Header) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write_all(&mut out, reports, notes, header);
    out
}

fn write_all(out: &mut String, reports: &[JobReport], notes: &[String], header: &Header) -> fmt::Result {
    for note in notes {
        writeln!(out, "note: {note}")?;
    }
    let mut last: Option<&JobReport> = None;
    for report in reports {
        if last.is_some_and(|last| last.name == report.name && last.setup == report.setup) {
            if !out.ends_with("...\n") {
                out.push_str("...\n");
            }
        } else {
            write_setup(out, report)?;
        }
        last = Some(report);
    }
    writeln!(out, "plumb-{}", env!("CARGO_PKG_VERSION"))?;
    let threads: u32 = reports.iter().map(|report| report.threads).sum();
    writeln!(out, "Starting {threads} thread{}\n", if threads == 1 { "" } else { "s" })?;
    let shown = grouped(reports);
    let rates = GroupRates::of(&shown);
    for report in &shown {
        write_job(out, report, &rates, header)?;
    }
    write_groups(out, reports)
}

fn write_setup(out: &mut String, report: &JobReport) -> fmt::Result {
    let setup = &report.setup;
    let size = |bytes: u64| short(bytes, Base::Binary, "B");
    let range = |(min, max): (u64, u64)| format!("{}-{}", size(min), size(max));
    writeln!(
        out,
        "{}: (g={}): rw={}, bs=(R) {}, (W) {}, (T) {}, ioengine={}, iodepth={}",
        report.name,
        report.group,
        setup.pattern,
        range(setup.block_bytes.read),
        range(setup.block_bytes.write),
        range(setup.block_bytes.trim),
        setup.engine,
        setup.depth,
    )
}

fn write_job(out: &mut String, report: &JobReport, rates: &GroupRates, header: &Header) -> fmt::Result {
    writeln!(
        out,
        "{}: (groupid={}, jobs={}): err={:2}: pid=0: {}",
        report.name,
        report.group,
        report.threads,
        errno(report),
        header.time
    )?;
    if let Some(description) = &report.setup.description {
        writeln!(out, "  Description  : [{description}]")?;
    }
    for (name, figures) in sections(report) {
        if figures.ios > 0 {
            write_direction(out, report, name, &figures, rates.bytes_per_s(report.group, name))?;
        }
    }
    write_latency_table(out, report)?;
    if !report.sync.is_empty() {
        writeln!(out, "  fsync/fdatasync/sync_file_range:")?;
        write_times(out, "sync", &report.sync)?;
        write_percentiles(out, "sync", report, &report.sync)?;
    }
    let (user, system) = cpu_percent(report);
    let switches = report.cpu.context_switches;
    writeln!(out, "  cpu          : usr={user:.2}%, sys={system:.2}%, ctx={switches}, majf=0, minf=0")?;
    write_depths(out, "  IO depths    ", ["1", "2", "4", "8", "16", "32", ">=64"], &report.depths.in_flight)?;
    const BATCHES: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];
    write_depths(out, "     submit    ", BATCHES, &report.depths.per_submit)?;
    write_depths(out, "     complete  ", BATCHES, &report.depths.per_complete)?;
    let [reads, writes, trims] =
        [&report.directions.read, &report.directions.write, &report.directions.trim].map(|d| d.ios);
    let syncs = report.sync.count();
    writeln!(out, "     issued rwts: total={reads},{writes},{trims},{syncs} short=0,0,0,0 dropped=0,0,0,0")?;
    writeln!(out, "     latency   : target=0, window=0, percentile=100.00%, depth={}", report.setup.depth)?;
    if let Some(verify) = &report.verify {
        writeln!(out, "  verify       : checked={}, mismatches={}", verify.checked, verify.mismatches)?;
        for mismatch in &verify.first {
            writeln!(out, "     {mismatch}")?;
        }
    }
    for error in &report.errors {
        writeln!(out, "  error        : {error}")?;
    }
    if let Some(shortfall) = &report.shortfall {
        writeln!(out, "  SHORTFALL    : {shortfall}")?;
    }
    Ok(())
}

fn write_direction(
    out: &mut String,
    report: &JobReport,
    name: &str,
    figures: &DirectionReport,
    group_bytes_per_s: f64,
) -> fmt::Result {
    let iops = short(figures.iops() as u64, Base::Si, "");
    let bw = bandwidth(figures.bytes_per_s());
    let bytes = short(figures.bytes, Base::Binary, "B");
    let millis = whole_millis(figures.runtime);
    // fio's zbd_write_status, printed for writes whether there are zones or not.
    let resets = if name == "write" { format!("; {} zone resets", report.zone_resets()) } else { String::new() };
    writeln!(out, "  {name}: IOPS={iops}, BW={bw}({bytes}/{millis}msec){resets}")?;
    let kinds = [("slat", &figures.slat), ("clat", &figures.clat), ("lat", &figures.lat)];
    for (name, times) in kinds {
        if !times.is_empty() {
            write_times(out, name, times)?;
        }
    }
    for ((name, times), wanted) in kinds.into_iter().zip(report.setup.percentiles_of) {
        if wanted && !times.is_empty() {
            write_percentiles(out, name, report, times)?;
        }
    }
    let (bandwidth, iops) = report.samples(figures);
    if bandwidth.count > 0 {
        // In MiB where fio would: above 10^5 KiB/s.
        let (unit, scale) = if bandwidth.min > 99_999 { ("MiB", 1024.0) } else { ("KiB", 1.0) };
        let of_group = 100.0 * bandwidth.mean * 1024.0 / group_bytes_per_s;
        writeln!(
            out,
            "   bw ({unit:>5}/s): min={:5}, max={:5}, per={:3.2}%, avg={:5.2}, stdev={:5.2}, samples={}",
            (bandwidth.min as f64 / scale) as u64,
            (bandwidth.max as f64 / scale) as u64,
            of_group.min(100.0),
            bandwidth.mean / scale,
            bandwidth.stddev / scale,
            bandwidth.count
        )?;
        writeln!(
            out,
            "   iops        : min={:5}, max={:5}, avg={:5.2}, stdev={:5.2}, samples={}",
            iops.min, iops.max, iops.mean, iops.stddev, iops.count
        )?;
    }
    Ok(())
}

fn write_times(out: &mut String, name: &str, times: &Histogram) -> fmt::Result {
    let (unit, ns) = time_unit(times.min().0, times.max().0, times.stddev_ns());
    let whole = |time: Nanos| short_time(time.0 as f64 / ns);
    writeln!(
        out,
        "    {name:>4} ({unit}): min={}, max={}, avg={:5.2}, stdev={:5.2}",
        whole(times.min()),
        whole(times.max()),
        times.mean_ns() / ns,
        times.stddev_ns() / ns
    )
}

/// fio gives minima and maxima up to six digits.
fn short_time(value: f64) -> String {
    let whole = value as u64;
    if whole < 1_000_000 { whole.to_string() } else { short(whole, Base::Si, "") }
}

/// Percentiles in a line of the table.
const PER_LINE: usize = 4;

fn write_percentiles(out: &mut String, name: &str, report: &JobReport, times: &Histogram) -> fmt::Result {
    let list = percentiles(report, times);
    let (low, high) = (list.first().map_or(0, |p| p.1.0), list.last().map_or(0, |p| p.1.0));
    // fio looks at the extremes alone here, whatever their spread.
    let (unit, ns) = time_unit(low, high, f64::INFINITY);
    writeln!(out, "    {name} percentiles ({unit}):")?;
    for line in list.chunks(PER_LINE) {
        let cells: Vec<String> =
            line.iter().map(|(percent, time)| format!("{percent:6.2}th=[{:5}]", (time.0 as f64 / ns) as u64)).collect();
        let is_last = std::ptr::eq(line.as_ptr_range().end, list.as_ptr_range().end);
        writeln!(out, "     |{}{}", cells.join(","), if is_last { "" } else { "," })?;
    }
    Ok(())
}

/// Buckets in a line of the table.
const BUCKETS_PER_LINE: usize = 5;

fn write_latency_table(out: &mut String, report: &JobReport) -> fmt::Result {
    for (unit, row) in ["nsec", "usec", "msec"].into_iter().zip(latency_table(report)) {
        let label = |bound: u64| if bound == u64::MAX { ">=2000".to_owned() } else { bound.to_string() };
        let seen: Vec<String> = LATENCY_BOUNDS
            .into_iter()
            .zip(row)
            .filter(|(_, share)| *share > 0.0)
            .map(|(bound, share)| format!("{}={share:.2}%", label(bound)))
            .collect();
        for line in seen.chunks(BUCKETS_PER_LINE) {
            writeln!(out, "  lat ({unit})   : {}", line.join(", "))?;
        }
    }
    Ok(())
}

fn write_depths(out: &mut String, title: &str, names: [&str; 7], counts: &[u64; 7]) -> fmt::Result {
    let all = counts.iter().sum();
    let cells: Vec<String> =
        names.iter().zip(counts).map(|(name, count)| format!("{name}={:.1}%", share(*count, all))).collect();
    writeln!(out, "{title}: {}", cells.join(", "))
}

fn write_groups(out: &mut String, reports: &[JobReport]) -> fmt::Result {
    let last = reports.iter().map(|report| report.group).max();
    let mut groups: Vec<Vec<_>> = vec![Vec::new(); last.unwrap_or(0) as usize + 1];
    for report in reports {
        groups[report.group as usize].push(sections(report));
    }
    for (group, threads) in groups.iter().enumerate() {
        writeln!(out, "\nRun status group {group} (all jobs):")?;
        for (section, title) in [
            ("read", "READ"),
            ("write", "WRITE"),
            ("trim", "TRIM"),
            ("mixed", "MIXED"),
            ("finish", "FINISH"),
            ("reset", "RESET"),
        ] {
            let figures: Vec<&DirectionReport> = threads
                .iter()
                .flatten()
                .filter(|(name, figures)| *name == section && figures.ios > 0)
                .map(|(_, figures)| &**figures)
                .collect();
            let Some(first) = figures.first() else { continue };
            let rates = || figures.iter().map(|figures| figures.bytes_per_s());
            let times = || figures.iter().map(|figures| figures.runtime);
            let (least, most) = (rates().fold(first.bytes_per_s(), f64::min), rates().fold(0.0, f64::max));
            let bytes: u64 = figures.iter().map(|figures| figures.bytes).sum();
            let longest = times().max().unwrap_or(Nanos::ZERO);
            // fio: all bytes over the longest runtime.
            let all = if longest == Nanos::ZERO { 0.0 } else { bytes as f64 / longest.as_secs_f64() };
            let both = |base| format!("{}-{}", short(least as u64, base, "B/s"), short(most as u64, base, "B/s"));
            writeln!(
                out,
                "{title:>7}: bw={}, {} ({}), io={} ({}), run={}-{}msec",
                bandwidth(all),
                both(Base::Binary),
                both(Base::Si),
                short(bytes, Base::Binary, "B"),
                short(bytes, Base::Si, "B"),
                whole_millis(times().min().unwrap_or(Nanos::ZERO)),
                whole_millis(longest)
            )?;
        }
    }
    Ok(())
}

/// Milliseconds, and 1 for anything shorter that happened at all.
fn whole_millis(time: Nanos) -> u64 {
    (time.0 / 1_000_000).max(u64::from(time.0 > 0))
}
