//! Options that cannot stand together.

use super::options::{BlockSizes, EngineKind, Extent, Options, RateProcess, SubmitMode, SyncWrites, Verify};
use crate::fio::{Direction, PerDirection};

/// Longest read or write: a buffer of that size may be made.
const MAX_TRANSFER_BYTES: u64 = 1 << 30;

/// What in `options` contradicts itself, and the remedy.
pub(super) fn conflict(options: &Options) -> Option<String> {
    general(options)
        .or_else(|| engine(options))
        .or_else(|| fragments(options))
        .or_else(|| zones(options))
        .map(str::to_owned)
}

fn general(options: &Options) -> Option<&'static str> {
    let rated = |rates: &PerDirection<u64>| rates.iter().any(|(_, rate)| *rate > 0);
    if options.time_based && options.runtime.is_none() {
        return Some("time_based needs a runtime");
    }
    if rated(&options.rate_bytes_per_s) && rated(&options.rate_iops) {
        return Some("rate and rate_iops exclude each other; keep one");
    }
    if options.rate_process == RateProcess::Poisson && !rated(&options.rate_bytes_per_s) && !rated(&options.rate_iops) {
        return Some("rate_process=poisson needs a rate or rate_iops");
    }
    if options.verify == Verify::Pattern && options.verify_pattern.is_empty() {
        return Some("verify=pattern needs a verify_pattern");
    }
    if options.pattern.is_trim_write() && options.modifier.is_some() {
        return Some("an offset modifier after trimwrite has no meaning; remove it");
    }
    let transfers = [(Direction::Read, options.pattern.reads), (Direction::Write, options.pattern.writes)];
    if transfers.into_iter().any(|(direction, used)| used && options.blocks[direction].max() > MAX_TRANSFER_BYTES) {
        return Some("a block that is read or written must be at most 1g; larger ones are for trims alone");
    }
    None
}

fn engine(options: &Options) -> Option<&'static str> {
    let kind = options.engine.kind;
    if kind == EngineKind::Synchronous && options.submit_mode == SubmitMode::Offload {
        return Some("io_submit_mode=offload needs an asynchronous engine: write ioengine=io_uring");
    }
    if (options.polled_submission || options.polled_completion) && !kind.is_uring() {
        return Some("sqthread_poll and hipri are options of io_uring: write ioengine=io_uring or io_uring_cmd");
    }
    match (kind, options.device_node().map(|node| node.generic)) {
        (EngineKind::UringCommand, Some(false)) => {
            return Some("io_uring_cmd needs the generic device: write filename=/dev/ng0n1");
        }
        (EngineKind::UringCommand, _) | (EngineKind::Spdk, _) | (_, Some(false) | None) => {}
        (_, Some(true)) => {
            return Some("a generic device (/dev/ngXnY) takes passthrough commands alone: write ioengine=io_uring_cmd");
        }
    }
    let syncs = options.fsync > 0
        || options.fdatasync > 0
        || options.end_fsync
        || options.fsync_on_close
        || options.sync != SyncWrites::None;
    if kind == EngineKind::UringCommand && syncs {
        return Some("io_uring_cmd has no fsync and no sync writes: write ioengine=io_uring, or leave the syncs out");
    }
    None
}

/// A file in pieces is reached by system calls on it.
fn fragments(options: &Options) -> Option<&'static str> {
    if options.frag_size_bytes == 0 {
        // A sweep over frag_size may come by 0; its distance then says nothing.
        return None;
    }
    if options.engine.kind.is_passthrough() {
        return Some("frag_size is the layout of a file, which passthrough commands pass by: write ioengine=io_uring");
    }
    if options.polled_submission {
        return Some("frag_size and sqthread_poll exclude each other: leave one out");
    }
    if options.zones.zbd {
        return Some("frag_size and zonemode=zbd exclude each other: leave one out");
    }
    None
}

fn zones(options: &Options) -> Option<&'static str> {
    let zones = &options.zones;
    let sizes = [options.size, options.io_size, Some(options.offset), Some(options.offset_increment)];
    if !zones.zbd {
        if sizes.into_iter().chain([Some(zones.skip)]).any(|size| matches!(size, Some(Extent::Zones(_)))) {
            return Some("a size in zones (`z`) needs zonemode=zbd");
        }
        if zones.size_bytes.is_some() {
            return Some("zonesize needs zonemode=zbd; the strided mode is not modelled: use rw=write:N");
        }
        if zones.append || zones.finish_bytes.is_some() || zones.soft_finish || zones.initial_reset {
            return Some("zone_append, finish, softfinish and initial_zone_reset need zonemode=zbd");
        }
        return None;
    }
    if options.pattern.is_trim_write() {
        return Some(
            "with zonemode=zbd a trim resets a whole zone: write two jobs, one that trims and one that writes",
        );
    }
    if options.pattern.trims && !matches!(options.blocks.trim, BlockSizes::Fixed(_)) {
        return Some(
            "with zonemode=zbd a trim resets a whole zone: bsrange and bssplit do not apply, write bs=ZONESIZE",
        );
    }
    if zones.append && !options.engine.kind.is_passthrough() {
        return Some("zone_append needs ioengine=io_uring_cmd or spdk: the block device has no such call");
    }
    if zones.initial_reset && options.engine.kind != EngineKind::Spdk {
        return Some(
            "initial_zone_reset is an option of ioengine=spdk; with another write a trim job before a stonewall",
        );
    }
    if zones.soft_finish && zones.finish_bytes.is_none() {
        return Some("softfinish is how finish=N is done: add finish=1");
    }
    if zones.finish_bytes.is_some() && !(options.engine.kind.is_uring() || options.engine.kind == EngineKind::Spdk) {
        return Some("finish needs ioengine=io_uring, io_uring_cmd or spdk");
    }
    if zones.finish_bytes.is_some() && !options.pattern.writes {
        return Some("finish follows a write: write rw=write or rw=randwrite");
    }
    if zones.finish_bytes.is_some() && options.verify != Verify::None {
        return Some("finish and verify exclude each other: what softfinish pads was not written under verify");
    }
    None
}
