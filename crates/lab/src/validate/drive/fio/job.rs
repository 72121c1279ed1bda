//! What a job's options say of its load.

use std::collections::BTreeMap;

use units::{ByteSize, Nanos};

use super::super::{Drive, DriveEngine, DriveOp, Ran};
use super::{Group, IOS_MIN};

/// Options that change a load in a way that is not simulated here, with what they do.
const OTHER_LOADS: [(&str, &str); 22] = [
    ("rate", "limits the rate, so that it tells the limit and not the drive"),
    ("rate_iops", "limits the rate, so that it tells the limit and not the drive"),
    ("rate_process", "paces its I/Os"),
    ("rate_min", "ends when a rate is missed"),
    ("thinktime", "pauses between I/Os"),
    ("latency_target", "searches a depth by itself"),
    ("flow", "waits for other jobs"),
    ("bssplit", "has several block sizes"),
    ("bsrange", "has several block sizes"),
    ("blocksize_range", "has several block sizes"),
    ("random_distribution", "does not go to all places alike"),
    ("percentage_random", "is partly random"),
    ("rw_sequencer", "repeats offsets"),
    ("zonemode", "goes by zones"),
    ("read_iolog", "repeats a trace"),
    ("verify", "reads back what it wrote"),
    ("fsync", "flushes between writes"),
    ("fdatasync", "flushes between writes"),
    ("sync", "waits for each write to be on the media"),
    ("iodepth_batch", "submits in batches"),
    ("iodepth_batch_submit", "submits in batches"),
    ("iodepth_batch_complete_min", "waits for several completions"),
];

/// Values with which those change nothing.
fn is_plain(option: &str, value: &str) -> bool {
    match option {
        "random_distribution" => value == "random",
        "percentage_random" => value == "100",
        "zonemode" | "sync" => matches!(value, "none" | "0"),
        "iodepth_batch" | "iodepth_batch_submit" | "iodepth_batch_complete_min" => value == "1",
        _ => value == "0" || value.is_empty(),
    }
}

/// The load that a job was, or why it is none to compare.
pub(super) fn drive(group: &Group, options: &BTreeMap<&str, &str>, beside: Option<&str>) -> Result<Drive, String> {
    let option = |name: &str| options.get(name).copied();
    if group.error != 0 {
        return Err(format!("not comparable: fio ended it with error {}", group.error));
    }
    let rw = option("rw").unwrap_or("read");
    let op = DriveOp::named(rw.split(':').next().unwrap_or(rw));
    if group.trimmed || (group.read.ios > 0 && group.write.ios > 0) {
        return Err(format!("not comparable: rw={rw} mixes kinds of I/O; give each a job of its own"));
    }
    let op = op.ok_or_else(|| format!("not comparable: rw={rw}; known are read, randread, write and randwrite"))?;
    if rw.contains(':') {
        return Err(format!("not comparable: rw={rw} skips or repeats places"));
    }
    let done = if op.reads() { &group.read } else { &group.write };
    if done.ios < IOS_MIN {
        return Err(format!("not comparable: {} I/Os say little; let it run longer", done.ios));
    }
    for (name, does) in OTHER_LOADS {
        if let Some(value) = option(name).filter(|value| !is_plain(name, value)) {
            return Err(format!("not comparable: {name}={value} {does}"));
        }
    }
    if let Some(other) = beside {
        return Err(format!("not comparable: `{other}` ran beside it; put stonewall=1 into each job"));
    }
    let engine_name = option("ioengine").unwrap_or("psync");
    let past_the_cache = ["nbd", "spdk", "io_uring_cmd", "libblkio", "xnvme", "sg"];
    let direct = matches!(option("direct"), Some("1" | "true" | "")) || option("buffered") == Some("0");
    if !direct && !past_the_cache.iter().any(|engine| engine_name.starts_with(engine)) {
        return Err("not comparable: without direct=1 it measures the page cache".to_owned());
    }
    let engine = match engine_name {
        "mmap" | "null" | "cpuio" | "filecreate" | "filestat" | "filedelete" | "ftruncate" => {
            return Err(format!("not comparable: ioengine={engine_name} does no I/O of this kind"));
        }
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => DriveEngine::Synchronous,
        "io_uring" => DriveEngine::Uring,
        _ => DriveEngine::Asynchronous,
    };
    let size = |name: &str, text: &str| {
        text.parse::<ByteSize>().map(|size| size.0).map_err(|_| format!("not comparable: {name}={text} is no size"))
    };
    // Reads, writes and trims may each have a size: `4k,8k`.
    let blocks: Vec<&str> = option("bs").unwrap_or("4k").split(',').collect();
    let own = blocks.get(usize::from(!op.reads())).filter(|text| !text.is_empty()).or(blocks.first());
    let block_bytes = size("bs", own.copied().unwrap_or("4k"))?;
    if !(512..=1 << 30).contains(&block_bytes) {
        return Err(format!("not comparable: blocks of {block_bytes} bytes"));
    }
    let whole = |name: &str, usual: u32| match option(name) {
        None => Ok(usual),
        Some(text) => {
            let count = text.parse::<u32>().ok().filter(|count| (1..=1 << 20).contains(count));
            count.ok_or_else(|| format!("not comparable: {name}={text}"))
        }
    };
    let depth = if engine == DriveEngine::Synchronous { 1 } else { whole("iodepth", 1)? };
    let given_offset = option("offset").unwrap_or("0");
    let offset_bytes = size("offset", given_offset.trim_end_matches('%')).ok().filter(|_| !given_offset.ends_with('%'));
    let offset_bytes =
        offset_bytes.ok_or_else(|| format!("not comparable: offset={given_offset}; give it in bytes"))?;
    let span_bytes = option("size").filter(|text| !text.ends_with('%')).map(|text| size("size", text)).transpose()?;
    if option("time_based").is_none() && option("runtime").is_none() && option("size").is_none() {
        return Err("not comparable: nothing says how long it ran; give runtime and time_based=1".to_owned());
    }
    if let Some(runtime) = option("runtime").and_then(|text| text.parse::<Nanos>().ok())
        && runtime == Nanos::ZERO
    {
        return Err("not comparable: it ran for no time".to_owned());
    }
    let ramp_s = option("ramp_time").map_or(Some(0.0), seconds);
    let ramp_s =
        ramp_s.ok_or_else(|| format!("not comparable: ramp_time={}", option("ramp_time").unwrap_or_default()))?;
    Ok(Drive {
        op,
        block_bytes,
        queue_depth: depth,
        jobs: whole("numjobs", 1)?.max(group.entries),
        engine,
        offset_bytes,
        span_bytes: span_bytes.filter(|bytes| *bytes > 0),
        completion: done.completion,
        rate: Some(done.iops).filter(|rate| *rate > 0.0),
        ran: (done.run_s > 0.0).then_some(Ran { ramp_s, run_s: done.run_s }),
    })
}

/// A time of fio's in seconds: without a unit, it is in seconds.
fn seconds(text: &str) -> Option<f64> {
    let plain = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    plain.or_else(|| text.parse::<Nanos>().ok().map(Nanos::as_secs_f64))
}
