//! Options of how I/O is issued: engine, depth, rate, think time, syncs.

use super::{OptionSpec, bit, flag, name_of, one_of, print_nonzero, typed, unless};
use crate::fio::PerDirection;
use crate::fio::parse::options::{Engine, PriorityClass, RateProcess, SubmitMode, SyncWrites};
use crate::fio::parse::value::{Parsed, Value, fail, print_directions};

const RATE_PROCESS: &[(&str, RateProcess)] = &[("linear", RateProcess::Linear), ("poisson", RateProcess::Poisson)];

const PRIORITY_CLASS: &[(&str, PriorityClass)] = &[
    ("2", PriorityClass::BestEffort),
    ("0", PriorityClass::BestEffort),
    ("1", PriorityClass::Realtime),
    ("3", PriorityClass::Idle),
];
const SUBMIT_MODE: &[(&str, SubmitMode)] = &[("inline", SubmitMode::Inline), ("offload", SubmitMode::Offload)];

/// Deepest queue taken.
const MAX_DEPTH: u32 = 65_536;

const SYNC: &[(&str, SyncWrites)] = &[
    ("none", SyncWrites::None),
    ("0", SyncWrites::None),
    ("sync", SyncWrites::Sync),
    ("1", SyncWrites::Sync),
    ("dsync", SyncWrites::Dsync),
];

fn counts(value: Value<'_>, old: &PerDirection<u64>) -> Parsed<PerDirection<u64>> {
    value.per_direction(old, &[','], Value::size)
}

fn print_counts(values: &PerDirection<u64>) -> Option<String> {
    unless(values, &PerDirection::default(), |values| print_directions(values, u64::to_string))
}

const MICROSECOND: u64 = 1_000;

pub(super) static OPTIONS: &[OptionSpec] = &[
    typed(
        "ioengine",
        &[],
        "name",
        "psync, sync, vsync, pvsync and pvsync2 make one system call per I/O and force iodepth 1; libaio and io_uring submit batches; posixaio submits one by one. io_uring_cmd sends NVMe commands past the block layer's merging, splitting and scheduler (filename=/dev/ng0n1). spdk (also external:PATH/spdk_nvme) does so from a driver in the program, which polls: no system call, no interrupt, the costs per I/O alone. Default psync.",
        |o, v| {
            let names = Engine::ALL.map(|engine| (engine.name, engine));
            let plugin = v.text.strip_prefix("external:").map(|path| path.rsplit('/').next());
            o.engine = match plugin {
                Some(Some("spdk_nvme")) => one_of(v.with("spdk"), &names)?,
                Some(_) => return fail("of external engines only spdk_nvme is modelled: write ioengine=spdk"),
                None => one_of(v, &names)?,
            };
            Ok(())
        },
        |o| unless(&o.engine, &Engine::ALL[0], |engine| engine.name.to_owned()),
    ),
    typed(
        "filename",
        &[],
        "name",
        "Kept for the report; every name means the modelled device. /dev/nvme0n2 and /dev/ng0n2 (for spdk, `ns=2`) name its second namespace. Several names separated by `:` are not supported.",
        |o, v| {
            if v.text.replace("\\:", "").contains(':') {
                return fail("several files are not supported; write one job per region, with offset and size");
            }
            o.filename = Some(v.text.to_owned());
            Ok(())
        },
        |o| o.filename.clone(),
    ),
    typed(
        "direct",
        &[],
        "0|1",
        "Must be 1: there is no page cache in this stack. Where neither direct nor buffered is given, the job runs as with direct=1 and says so.",
        |o, v| {
            if !v.boolean()? {
                return fail(
                    "buffered I/O is not modelled: write direct=1 (an fsync after buffered writes is best shown by direct=1 with fsync=N)",
                );
            }
            o.direct = Some(true);
            Ok(())
        },
        |o| o.direct.and_then(bit),
    ),
    typed(
        "buffered",
        &[],
        "0|1",
        "Must be 0: see direct.",
        |o, v| {
            if v.boolean()? {
                return fail("buffered I/O is not modelled: write direct=1");
            }
            o.direct = Some(true);
            Ok(())
        },
        |_| None,
    ),
    typed(
        "iodepth",
        &[],
        "count",
        "I/Os in flight; 1 for synchronous engines.",
        |o, v| {
            o.iodepth = v.small(1..=MAX_DEPTH)?;
            Ok(())
        },
        |o| unless(&o.iodepth, &1, u32::to_string),
    ),
    typed(
        "iodepth_batch",
        &["iodepth_batch_submit"],
        "count",
        "I/Os per submission (one system call and one plug); 0 is iodepth. Default 1.",
        |o, v| {
            o.iodepth_batch = v.small(0..=MAX_DEPTH)?;
            Ok(())
        },
        |o| unless(&o.iodepth_batch, &1, u32::to_string),
    ),
    typed(
        "iodepth_batch_complete_min",
        &["iodepth_batch_complete"],
        "count",
        "Fewest I/Os to wait for when the queue is full; 0 looks without waiting before each new I/O.",
        |o, v| {
            o.complete_min = v.small(0..=MAX_DEPTH)?;
            Ok(())
        },
        |o| unless(&o.complete_min, &1, u32::to_string),
    ),
    typed(
        "iodepth_batch_complete_max",
        &[],
        "count",
        "Most I/Os reaped at once. Default: iodepth_batch_complete_min.",
        |o, v| {
            o.complete_max = Some(v.small(1..=MAX_DEPTH)?);
            Ok(())
        },
        |o| o.complete_max.map(|n| n.to_string()),
    ),
    typed(
        "iodepth_low",
        &[],
        "count",
        "Once full, the queue drains to this depth before it is filled again. Default: iodepth.",
        |o, v| {
            o.iodepth_low = Some(v.small(1..=MAX_DEPTH)?);
            Ok(())
        },
        |o| o.iodepth_low.map(|n| n.to_string()),
    ),
    typed(
        "io_submit_mode",
        &[],
        "inline|offload",
        "With inline a rated job waits for its I/Os in flight before it sleeps, as fio does; offload makes a true open loop up to iodepth.",
        |o, v| {
            o.submit_mode = one_of(v, SUBMIT_MODE)?;
            Ok(())
        },
        |o| unless(&o.submit_mode, &SubmitMode::Inline, |m| name_of(*m, SUBMIT_MODE)),
    ),
    typed(
        "prioclass",
        &[],
        "0|1|2|3",
        "I/O priority class: 1 realtime, 2 (or 0) best effort, 3 idle. The scheduler mq-deadline heeds it. Default: 2.",
        |o, v| {
            o.priority_class = one_of(v, PRIORITY_CLASS)?;
            Ok(())
        },
        |o| unless(&o.priority_class, &PriorityClass::BestEffort, |c| name_of(*c, PRIORITY_CLASS)),
    ),
    typed(
        "rate",
        &[],
        "bytes[,bytes][,bytes]",
        "Bandwidth limit in bytes per second.",
        |o, v| {
            o.rate_bytes_per_s = counts(v, &o.rate_bytes_per_s)?;
            Ok(())
        },
        |o| print_counts(&o.rate_bytes_per_s),
    ),
    typed(
        "rate_iops",
        &[],
        "count[,count][,count]",
        "IOPS limit; counted in the smallest block size where sizes vary.",
        |o, v| {
            o.rate_iops = counts(v, &o.rate_iops)?;
            Ok(())
        },
        |o| print_counts(&o.rate_iops),
    ),
    typed(
        "rate_process",
        &[],
        "linear|poisson",
        "Spacing of rated I/Os: even, or exponential gaps.",
        |o, v| {
            o.rate_process = one_of(v, RATE_PROCESS)?;
            Ok(())
        },
        |o| unless(&o.rate_process, &RateProcess::Linear, |r| name_of(*r, RATE_PROCESS)),
    ),
    typed(
        "thinktime",
        &[],
        "time (us)",
        "Pause after thinktime_blocks I/Os, once those in flight are done.",
        |o, v| {
            o.thinktime = v.time(MICROSECOND)?;
            Ok(())
        },
        |o| print_nonzero(o.thinktime),
    ),
    typed(
        "thinktime_spin",
        &[],
        "time (us)",
        "Part of thinktime spent computing.",
        |o, v| {
            o.thinktime_spin = v.time(MICROSECOND)?;
            Ok(())
        },
        |o| print_nonzero(o.thinktime_spin),
    ),
    typed(
        "thinktime_blocks",
        &[],
        "count",
        "I/Os between two pauses. Default 1.",
        |o, v| {
            o.thinktime_blocks = v.small(1..=u32::MAX)?;
            Ok(())
        },
        |o| unless(&o.thinktime_blocks, &1, u32::to_string),
    ),
    typed(
        "fsync",
        &[],
        "count",
        "An fsync after so many writes. On a block device it is a flush (block/fops.c, blkdev_fsync).",
        |o, v| {
            o.fsync = v.small(0..=u32::MAX)?;
            Ok(())
        },
        |o| unless(&o.fsync, &0, u32::to_string),
    ),
    typed(
        "fdatasync",
        &[],
        "count",
        "As fsync, which it equals on a block device.",
        |o, v| {
            o.fdatasync = v.small(0..=u32::MAX)?;
            Ok(())
        },
        |o| unless(&o.fdatasync, &0, u32::to_string),
    ),
    flag(
        "end_fsync",
        &[],
        "An fsync when the job has written its last.",
        |o, v| {
            o.end_fsync = v.boolean()?;
            Ok(())
        },
        |o| bit(o.end_fsync),
    ),
    flag(
        "fsync_on_close",
        &[],
        "An fsync when the job closes the device at its end.",
        |o, v| {
            o.fsync_on_close = v.boolean()?;
            Ok(())
        },
        |o| bit(o.fsync_on_close),
    ),
    typed(
        "sync",
        &[],
        "none|sync|dsync|0|1",
        "O_SYNC or O_DSYNC: direct writes carry REQ_FUA (block/fops.c, dio_bio_write_op); a synchronous engine's write is followed by a flush as well (generic_write_sync).",
        |o, v| {
            o.sync = one_of(v, SYNC)?;
            Ok(())
        },
        |o| unless(&o.sync, &SyncWrites::None, |s| name_of(*s, SYNC)),
    ),
    typed("cmd_type", &[], "nvme", "Of io_uring_cmd: only nvme.", |_, v| one_of(v, &[("nvme", ())]), |_| None),
    flag(
        "sqthread_poll",
        &[],
        "A thread of the kernel with a core of its own takes submissions, one after the other: they cost the job nothing, and the job polls for completions, whose interrupts hold that thread up. As in fio there is no slat.",
        |o, v| {
            o.polled_submission = v.boolean()?;
            Ok(())
        },
        |o| bit(o.polled_submission),
    ),
    flag(
        "hipri",
        &[],
        "The job polls the device for completions in the kernel: no interrupts, and it keeps its core.",
        |o, v| {
            o.polled_completion = v.boolean()?;
            Ok(())
        },
        |o| bit(o.polled_completion),
    ),
    typed(
        "nrfiles",
        &[],
        "1",
        "Only 1.",
        |_, v| match v.size()? {
            1 => Ok(()),
            _ => fail("several files are not supported; write one job per region, with offset and size"),
        },
        |_| None,
    ),
];
