//! Options of zoned devices.

use super::pattern::{extent, print_extent};
use super::{OptionSpec, bit, flag, typed, unless};
use crate::fio::parse::options::Extent;
use crate::fio::parse::value::{Parsed, Value, fail};
use crate::fio::parse::zone_options::ZoneOptions;

/// fio's bound on write target zones (zbd_types.h, ZBD_MAX_OPEN_ZONES).
const MAX_OPEN_ZONES: u32 = 4096;

fn share(value: Value<'_>) -> Parsed<f64> {
    match value.float()? {
        share if (0.0..=1.0).contains(&share) => Ok(share),
        share => fail(format!("{share} is out of range; it must be from 0 to 1")),
    }
}

fn print_count(count: u32) -> Option<String> {
    unless(&count, &0, u32::to_string)
}

fn print_share(share: f64) -> Option<String> {
    unless(&share, &0.0, f64::to_string)
}

pub(super) static OPTIONS: &[OptionSpec] = &[
    typed(
        "zonemode",
        &[],
        "none|zbd",
        "With zbd writes go to the write pointers of zones, a zone that is full is reset before it is written again, reads stay below the write pointer, and a trim resets a zone. An offset inside a zone is rounded up and a region's end down to a zone, unless the job only reads. A zone is locked while another job's I/O is in it. On a device without zones they are imagined, as fio does, where zonesize is given. strided is not supported.",
        |o, v| match v.text {
            "none" => {
                o.zones.zbd = false;
                Ok(())
            }
            "zbd" => {
                o.zones.zbd = true;
                Ok(())
            }
            "strided" => fail("`strided` is not modelled; use rw=read:N or rw=write:N"),
            other => fail(format!("`{other}` is not one of none, zbd")),
        },
        |o| o.zones.zbd.then(|| "zbd".to_owned()),
    ),
    typed(
        "zonesize",
        &[],
        "size",
        "Must be the device's zone size, which is the default; on a device without zones it makes them.",
        |o, v| {
            o.zones.size_bytes = match v.size()? {
                0 => None,
                1..512 => return fail("must be at least 512 bytes"),
                bytes => Some(bytes),
            };
            Ok(())
        },
        |o| o.zones.size_bytes.map(|bytes| bytes.to_string()),
    ),
    typed(
        "zonecapacity",
        &[],
        "size",
        "Writable part of a zone where the device has none of its own. Default: zonesize.",
        |o, v| {
            o.zones.capacity_bytes = Some(v.positive_size()?);
            Ok(())
        },
        |o| o.zones.capacity_bytes.map(|bytes| bytes.to_string()),
    ),
    typed(
        "zoneskip",
        &[],
        "size|zonesz",
        "Space left out after each zone of a sequential job; a multiple of the zone size. The job wraps until its bytes are moved.",
        |o, v| {
            o.zones.skip = match extent(v)? {
                Extent::Percent(_) => return fail("takes bytes or zones, not percent"),
                skip => skip,
            };
            Ok(())
        },
        |o| unless(&o.zones.skip, &Extent::Bytes(0), print_extent),
    ),
    flag(
        "read_beyond_wp",
        &[],
        "Reads go where they fall, also past the write pointer.",
        |o, v| {
            o.zones.read_beyond_write_pointer = v.boolean()?;
            Ok(())
        },
        |o| bit(o.zones.read_beyond_write_pointer),
    ),
    typed(
        "max_open_zones",
        &[],
        "count",
        "Zones that the jobs on a device write to at a time, at most as many as the device may have open. 0: the device's limit.",
        |o, v| {
            o.zones.max_open = v.small(0..=MAX_OPEN_ZONES)?;
            Ok(())
        },
        |o| print_count(o.zones.max_open),
    ),
    typed(
        "job_max_open_zones",
        &[],
        "count",
        "Zones that one thread writes to at a time.",
        |o, v| {
            o.zones.job_max_open = v.small(0..=MAX_OPEN_ZONES)?;
            Ok(())
        },
        |o| print_count(o.zones.job_max_open),
    ),
    flag(
        "ignore_zone_limits",
        &[],
        "Lets max_open_zones exceed the device's limit.",
        |o, v| {
            o.zones.ignore_limits = v.boolean()?;
            Ok(())
        },
        |o| bit(o.zones.ignore_limits),
    ),
    typed(
        "zone_reset_threshold",
        &[],
        "share",
        "Share of the region that must hold data before zone_reset_frequency applies. Jobs that use it must have the same region.",
        |o, v| {
            o.zones.reset_threshold = share(v)?;
            Ok(())
        },
        |o| print_share(o.zones.reset_threshold),
    ),
    typed(
        "zone_reset_frequency",
        &[],
        "share",
        "Resets per write: 0.1 resets the zone that every tenth write is about to go to.",
        |o, v| {
            o.zones.reset_frequency = share(v)?;
            Ok(())
        },
        |o| print_share(o.zones.reset_frequency),
    ),
    flag(
        "initial_zone_reset",
        &[],
        "Resets the zones of the job's region before it starts (fio's SPDK engine).",
        |o, v| {
            o.zones.initial_reset = v.boolean()?;
            Ok(())
        },
        |o| bit(o.zones.initial_reset),
    ),
    flag(
        "zone_append",
        &[],
        "Writes are Zone Appends (fio's SPDK engine, and the fork of ConfZNS++'s artifact for io_uring_cmd). They count as writes.",
        |o, v| {
            o.zones.append = v.boolean()?;
            Ok(())
        },
        |o| bit(o.zones.append),
    ),
    OptionSpec {
        flag: true,
        ..typed(
            "finish",
            &[],
            "bytes",
            "After a write that leaves at least so many bytes of its zone, the zone is finished, and is not written again: 1 finishes after the first write. The padded bytes count as written, also for rate; the latencies stand under `finish`. From the fork of ConfZNS++'s artifact.",
            |o, v| {
                o.zones.finish_bytes = Some(v.size()?).filter(|bytes| *bytes > 0);
                Ok(())
            },
            |o| o.zones.finish_bytes.map(|bytes| bytes.to_string()),
        )
    },
    flag(
        "softfinish",
        &[],
        "The host finishes the zone: synchronous writes of zeroes up to its capacity, one at a time, each followed by usleep(50) where they pass the block layer by, which takes 100 us with Linux's timer slack. From the same fork.",
        |o, v| {
            o.zones.soft_finish = v.boolean()?;
            Ok(())
        },
        |o| bit(o.zones.soft_finish),
    ),
    typed(
        "softfinish_chunk",
        &[],
        "sectors",
        "Length of softfinish's writes in sectors of 512 bytes. Default 1024.",
        |o, v| {
            o.zones.soft_finish_chunk_sectors = v.small(1..=1 << 21)?;
            Ok(())
        },
        |o| {
            let default = ZoneOptions::default().soft_finish_chunk_sectors;
            unless(&o.zones.soft_finish_chunk_sectors, &default, u32::to_string)
        },
    ),
];
