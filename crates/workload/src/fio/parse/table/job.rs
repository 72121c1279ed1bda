//! Options of a job as a whole: threads, time, order, reporting.

use units::Nanos;

use super::{OptionSpec, bit, flag, name_of, one_of, print_nonzero, typed, unless};
use crate::fio::parse::JobFile;
use crate::fio::parse::options::{Options, Unified};
use crate::fio::parse::value::{Parsed, fail, print_time};

const UNIFIED: &[(&str, Unified)] = &[
    ("none", Unified::None),
    ("0", Unified::None),
    ("mixed", Unified::Mixed),
    ("1", Unified::Mixed),
    ("both", Unified::Both),
    ("2", Unified::Both),
];

fn unless_zero(time: Nanos) -> Option<Nanos> {
    (time != Nanos::ZERO).then_some(time)
}

const MILLISECOND: u64 = 1_000_000;

const SECOND: u64 = 1_000_000_000;

pub(super) static OPTIONS: &[OptionSpec] = &[
    typed(
        "kb_base",
        &[],
        "1024|1000",
        "Whether `k` is 1024 (and `ki` 1000, for old scripts) or `k` is 1000 and `ki` 1024. Applies to the whole section, wherever it stands.",
        |o, v| {
            o.kb_base = one_of(v, &[("1024", 1024), ("1000", 1000)])?;
            Ok(())
        },
        |o| unless(&o.kb_base, &1024, u64::to_string),
    ),
    typed(
        "description",
        &[],
        "text",
        "Text for the report.",
        |o, v| {
            o.description = Some(v.text.to_owned());
            Ok(())
        },
        |o| o.description.clone(),
    ),
    typed(
        "numjobs",
        &[],
        "count",
        "Threads that run this job, each with its own random numbers.",
        |o, v| {
            o.numjobs = v.small(1..=JobFile::MAX_THREADS)?;
            Ok(())
        },
        |o| unless(&o.numjobs, &1, u32::to_string),
    ),
    typed(
        "runtime",
        &["timeout"],
        "time (s)",
        "No I/O is issued after this much time, the ramp not counted.",
        |o, v| {
            o.runtime = unless_zero(v.time(SECOND)?);
            Ok(())
        },
        |o| o.runtime.map(print_time),
    ),
    flag(
        "time_based",
        &[],
        "Runs for the whole runtime, going over the region again as needed.",
        |o, v| {
            o.time_based = v.boolean()?;
            Ok(())
        },
        |o| bit(o.time_based),
    ),
    typed(
        "ramp_time",
        &[],
        "time (s)",
        "Runs for this long before anything is counted.",
        |o, v| {
            o.ramp_time = v.time(SECOND)?;
            Ok(())
        },
        |o| print_nonzero(o.ramp_time),
    ),
    typed(
        "startdelay",
        &["start_delay"],
        "time (s)[-time]",
        "Waits before the job starts; of a range, a random part.",
        |o, v| {
            o.start_delay = v.range(|v| v.time(SECOND))?;
            Ok(())
        },
        |o| {
            unless(&o.start_delay, &(Nanos::ZERO, Nanos::ZERO), |(low, high)| {
                format!("{}-{}", print_time(*low), print_time(*high))
            })
        },
    ),
    flag(
        "stonewall",
        &["wait_for_previous"],
        "Starts when every job above has ended, and opens a new group.",
        |o, v| {
            o.stonewall = v.boolean()?;
            Ok(())
        },
        |o| bit(o.stonewall),
    ),
    flag(
        "new_group",
        &[],
        "Opens a new group for the report.",
        |o, v| {
            o.new_group = v.boolean()?;
            Ok(())
        },
        |o| bit(o.new_group),
    ),
    flag(
        "group_reporting",
        &[],
        "Sums the group's threads in the report.",
        |o, v| {
            o.group_reporting = v.boolean()?;
            Ok(())
        },
        |o| bit(o.group_reporting),
    ),
    typed(
        "randseed",
        &[],
        "number",
        "Replaces the run's seed for this job, so that repeats with other seeds draw the same numbers.",
        |o, v| {
            o.randseed = Some(v.size()?);
            Ok(())
        },
        |o| o.randseed.map(|seed| seed.to_string()),
    ),
    typed(
        "log_avg_msec",
        &[],
        "ms",
        "First interval of the bandwidth, IOPS and latency series, which are always kept; it doubles as the run outgrows 4096 intervals. Default 1.",
        |o, v| {
            o.log_interval = unless_zero(v.time(MILLISECOND)?);
            Ok(())
        },
        |o| o.log_interval.map(print_time),
    ),
    typed(
        "slat_percentiles",
        &[],
        "0|1",
        "Prints percentiles of the submission latency.",
        |o, v| {
            o.slat_percentiles = v.boolean()?;
            Ok(())
        },
        |o| bit(o.slat_percentiles),
    ),
    typed(
        "clat_percentiles",
        &[],
        "0|1",
        "Prints percentiles of the completion latency. Default 1.",
        |o, v| {
            o.clat_percentiles = v.boolean()?;
            Ok(())
        },
        |o| (!o.clat_percentiles).then(|| "0".to_owned()),
    ),
    typed(
        "lat_percentiles",
        &[],
        "0|1",
        "Prints percentiles of the total latency.",
        |o, v| {
            o.lat_percentiles = v.boolean()?;
            Ok(())
        },
        |o| bit(o.lat_percentiles),
    ),
    typed(
        "percentile_list",
        &[],
        "number:number:...",
        "Percentiles to print, at most 20, more than 0 and at most 100.",
        |o, v| {
            let mut list = v.text.split(':').map(|part| v.with(part).float()).collect::<Parsed<Vec<f64>>>()?;
            if list.is_empty() || list.len() > 20 || !list.iter().all(|p| *p > 0.0 && *p <= 100.0) {
                return fail("takes from 1 to 20 numbers, each more than 0 and at most 100");
            }
            list.sort_unstable_by(f64::total_cmp);
            o.percentiles = list;
            Ok(())
        },
        |o| {
            unless(&o.percentiles, &Options::default().percentiles, |list| {
                list.iter().map(f64::to_string).collect::<Vec<_>>().join(":")
            })
        },
    ),
    typed(
        "unified_rw_reporting",
        &[],
        "none|mixed|both|0|1|2",
        "Directions apart, summed, or both.",
        |o, v| {
            o.unified = one_of(v, UNIFIED)?;
            Ok(())
        },
        |o| unless(&o.unified, &Unified::None, |u| name_of(*u, UNIFIED)),
    ),
    typed(
        "cpus_allowed",
        &[],
        "list such as 0-3,8",
        "CPUs of the modelled host the job may use: one, or all; of another list each thread gets one, with cpus_allowed_policy=split.",
        |o, v| {
            o.cpus_allowed = v.cpu_list()?;
            Ok(())
        },
        |o| {
            let list: Vec<String> = o.cpus_allowed.iter().map(u32::to_string).collect();
            (!list.is_empty()).then(|| list.join(","))
        },
    ),
    typed(
        "cpus_allowed_policy",
        &[],
        "shared|split",
        "Whether threads share the list or each gets one CPU of it.",
        |o, v| {
            o.cpus_split = one_of(v, &[("shared", false), ("split", true)])?;
            Ok(())
        },
        |o| o.cpus_split.then(|| "split".to_owned()),
    ),
];
