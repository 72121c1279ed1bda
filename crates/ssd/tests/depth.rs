//! Throughput by depth, on every built-in profile: more commands outstanding never
//! make a device slower, nor a command dearer to simulate.
//!
//! A quick run draws cells from the grid of operation x block size x streams with a
//! fixed seed; `PLUMB_LONG=1 cargo test --release -p plumb-ssd --test ssd_tests depth` goes through all of it.

use std::collections::HashMap;
use std::fmt;

use crate::common::{Random, changed_profile};
use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, ZoneSendAction};
use ssd::profile::{BuildOptions, Profile, builtin_names};
use ssd::{Device, Submission};
use trace::RequestId;
use units::Nanos;

/// Designs that no built-in profile has: a name, the profile, and what is changed in it.
const DESIGNS: [(&str, &str, &str); 4] = [
    ("two namespaces", "wd-zn540", "namespaces = [452, 452]"),
    ("random write areas", "wd-zn540", "zone.zrwa = { size = '64KiB', granularity = '16KiB', zones = 14 }"),
    // Both without a buffer, as the profile is.
    ("appends timed at the zone's start", "confznspp", "management.append = 'at-zone-start'"),
    ("erases paid by the writer", "confznspp", "management = { reset = 'lazy', mapping = 'on-demand' }"),
];

/// Commands outstanding, over all streams, in a long run and in a quick one.
const DEPTHS: [u32; 7] = [1, 8, 32, 128, 512, 2048, 4096];
const FEW_DEPTHS: [u32; 4] = [1, 16, 256, 4096];

/// How far throughput may be below the best at a lower depth: what is left of the
/// times' variation in so many commands.
const TOLERANCE: f64 = 0.05;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    SequentialRead,
    RandomRead,
    SequentialWrite,
    RandomWrite,
    Append,
    /// In a zone with a random write area: each block twice, so that every other
    /// write is one in place.
    Twice,
    /// Every other command a random read, the others writes in sequence (appends
    /// on a zoned device).
    Mixed,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    work: Work,
    block_bytes: u64,
    /// Zones, or regions of the device, each walked on its own.
    streams: u32,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} KiB, {} streams", self.work, self.block_bytes / 1024, self.streams)
    }
}

#[derive(Clone, Copy, Debug)]
struct Rate {
    bytes_per_s: f64,
    /// Times at which the device has something to do, for each command.
    events: f64,
}

/// What a stream does next.
struct Stream {
    nsid: NamespaceId,
    /// Writes so far.
    writes: u64,
    /// First block, blocks in it, and how far it is.
    first: u64,
    blocks: u64,
    at: u64,
}

fn long() -> bool {
    std::env::var_os("PLUMB_LONG").is_some()
}

/// A profile, or a design that none has.
#[derive(Clone, Copy)]
struct Target {
    name: &'static str,
    profile: &'static str,
    changes: &'static str,
}

impl Target {
    fn builtin(name: &'static str) -> Self {
        Self { name, profile: name, changes: "" }
    }

    fn build(&self, more: &str) -> Box<dyn Device> {
        let profile: Profile = changed_profile(self.profile, &format!("{}\n{more}", self.changes)).unwrap();
        profile.build(&BuildOptions::default()).unwrap()
    }

    /// A device, its first 16 zones (of each namespace) full where it is zoned and read.
    fn device(&self, cell: Cell) -> Box<dyn Device> {
        let device = self.build("");
        let fresh = matches!(cell.work, Work::SequentialWrite | Work::Append | Work::Twice);
        if device.identity().zoned.is_none() || fresh {
            return device;
        }
        let full = vec!["16"; device.identity().namespace_blocks.len()].join(", ");
        self.build(&format!("initial.full_zones = [{full}]"))
    }
}

/// Opens zones with random write areas.
fn open_areas(device: &mut dyn Device, streams: &[Stream]) -> Nanos {
    let mut now = Nanos::ZERO;
    for stream in streams {
        let (nsid, start) = (stream.nsid, Lba(stream.first));
        let command = Command::ZoneManagementSend { nsid, start, action: ZoneSendAction::Open, all: false, zrwa: true };
        let (queue, cid, request) = (QueueId(1), CommandId(0), RequestId(0));
        device.submit(now, Submission { queue, cid, command, data: None, request });
        let mut completions = Vec::new();
        while completions.is_empty() {
            now = device.next_event().unwrap();
            device.advance(now, &mut completions);
        }
        assert!(completions[0].status.is_success(), "{completions:?}");
    }
    now
}

/// Keeps `depth` commands outstanding until `warm_up` and then `count` have
/// completed.
fn measure(device: &mut dyn Device, cell: Cell, depth: u32, warm_up: u64, count: u64) -> Rate {
    let identity = device.identity().clone();
    let lba = u64::from(identity.lba_bytes);
    let blocks = (cell.block_bytes / lba) as u32;
    let zoned = identity.zoned.clone();
    let (all, namespaces) = (identity.namespace_blocks[0], identity.namespace_blocks.len() as u64);
    let reads = matches!(cell.work, Work::SequentialRead | Work::RandomRead);
    let mut streams: Vec<Stream> = (0..u64::from(cell.streams))
        .map(|index| {
            let (first, blocks) = match &zoned {
                Some(zoned) => {
                    let zone = index / namespaces + if reads { 0 } else { 16 };
                    (zone * zoned.zone_blocks, zoned.zone_capacity_blocks)
                }
                None => {
                    let each = all / u64::from(cell.streams) / 4096 * 4096;
                    (index * each, each)
                }
            };
            let nsid = NamespaceId((index % namespaces) as u32 + 1);
            Stream { nsid, writes: 0, first, blocks, at: 0 }
        })
        .collect();
    let mut now = if cell.work == Work::Twice { open_areas(device, &streams) } else { Nanos::ZERO };
    let mut random = Random(0x5eed_0001);
    let mut issued = 0_u64;
    let mut next = |index: usize| {
        issued += 1;
        let stream = &mut streams[index];
        let nsid = stream.nsid;
        let work = match cell.work {
            Work::Mixed if issued.is_multiple_of(2) => Work::RandomRead,
            Work::Mixed if zoned.is_some() => Work::Append,
            Work::Mixed => Work::SequentialWrite,
            work => work,
        };
        if matches!(work, Work::RandomRead | Work::RandomWrite) {
            let slots = stream.blocks / u64::from(blocks);
            let base = match &zoned {
                Some(zoned) => (index as u64 / namespaces % 16) * zoned.zone_blocks,
                None => stream.first,
            };
            let start = Lba(base + random.below(slots) * u64::from(blocks));
            let range = LbaRange { start, count: blocks };
            return match work {
                Work::RandomRead => Command::Read { nsid, range, fua: false },
                _ => Command::write(nsid, range, false),
            };
        }
        if stream.at + u64::from(blocks) > stream.blocks {
            stream.at = 0;
            if let Some(zoned) = zoned.as_ref().filter(|_| !reads) {
                stream.first += u64::from(cell.streams) * zoned.zone_blocks;
            }
        }
        let range = LbaRange { start: Lba(stream.first + stream.at), count: blocks };
        stream.writes += 1;
        if cell.work != Work::Twice || stream.writes.is_multiple_of(2) {
            stream.at += u64::from(blocks);
        }
        match work {
            Work::Append => Command::ZoneAppend { nsid, zone: Lba(stream.first), blocks, fua: false },
            Work::SequentialRead => Command::Read { nsid, range, fua: false },
            _ => Command::write(nsid, range, false),
        }
    };
    // A queue has so many identifiers; a slot keeps its own.
    let per_queue = u32::from(identity.queue_depth);
    let of_slot = |slot: u32| (QueueId((slot / per_queue) as u16 + 1), CommandId((slot % per_queue) as u16));
    let slots: HashMap<(QueueId, CommandId), u32> = (0..depth).map(|slot| (of_slot(slot), slot)).collect();
    let submit = |device: &mut dyn Device, now: Nanos, slot: u32, command: Command| {
        let (queue, cid) = of_slot(slot);
        device.submit(now, Submission { queue, cid, command, data: None, request: RequestId(0) });
    };
    let stream_of = |slot: u32| (slot % cell.streams) as usize;
    for slot in 0..depth {
        submit(device, now, slot, next(stream_of(slot)));
    }
    let mut completions = Vec::new();
    let (mut completed, mut events) = (0, 0_u64);
    let (mut from, mut completed_from, mut events_from) = (now, 0, 0);
    while completed < warm_up + count {
        now = device.next_event().unwrap_or_else(|| panic!("{cell}, depth {depth}: stuck at {now}"));
        events += 1;
        device.advance(now, &mut completions);
        for completion in completions.drain(..) {
            assert!(completion.status.is_success(), "{cell}, depth {depth}: {completion:?}");
            completed += 1;
            let slot = slots[&(completion.queue, completion.cid)];
            submit(device, now, slot, next(stream_of(slot)));
        }
        if completed_from == 0 && completed >= warm_up {
            (from, completed_from, events_from) = (now, completed, events);
        }
    }
    let done = (completed - completed_from) as f64;
    Rate {
        bytes_per_s: done * cell.block_bytes as f64 / now.since(from).as_secs_f64().max(1e-12),
        events: (events - events_from) as f64 / done,
    }
}

/// The depths at which a device can be driven.
fn depths(device: &dyn Device, streams: u32) -> Vec<u32> {
    let identity = device.identity();
    let most = u32::from(identity.queues) * u32::from(identity.queue_depth);
    let depths: &[u32] = if long() { &DEPTHS } else { &FEW_DEPTHS };
    let within = |least: u32| depths.iter().copied().filter(|depth| (least..=most).contains(depth)).collect();
    let depths: Vec<u32> = within(streams);
    // A card takes one command at a time, of whichever stream.
    if depths.is_empty() { within(1) } else { depths }
}

/// Goes through a cell's depths; says what is wrong.
fn examine(target: Target, cell: Cell) -> Result<(), String> {
    let name = target.name;
    let probe = target.device(cell);
    let depths = depths(probe.as_ref(), cell.streams);
    let deepest = u64::from(*depths.last().unwrap());
    // The same volume at each depth, so that buffers and caches are as full: first
    // what they hold, and every command a few times, as they do not end in order.
    // Writes beside reads fill a buffer slowly, as flash takes nearly as much: 64 MiB of
    // it with an eighth of what is written. A disk's cache holds 32 MiB.
    let rotational = probe.identity().rotational;
    let least_bytes = match cell.work {
        Work::Mixed => 1 << 30,
        Work::SequentialWrite | Work::RandomWrite if rotational => 128 << 20,
        _ => 16 << 20,
    };
    let warm_up = (4 * deepest).max(least_bytes / cell.block_bytes) + 200;
    let count = (2 * deepest).max((16 << 20) / cell.block_bytes).max(600);
    let mut best: Option<(u32, f64)> = None;
    let mut wrong = Vec::new();
    let mut line = String::new();
    for depth in depths {
        let rate = measure(target.device(cell).as_mut(), cell, depth, warm_up, count);
        line += &format!("  {depth}: {:.1} MB/s ({:.1})", rate.bytes_per_s / 1e6, rate.events);
        if let Some((lower, most)) = best
            && rate.bytes_per_s < most * (1.0 - TOLERANCE)
        {
            wrong.push(format!(
                "{name}, {cell}: {:.1} MB/s at depth {depth}, {:.1} MB/s at {lower}",
                rate.bytes_per_s / 1e6,
                most / 1e6
            ));
        }
        let bound = events_bound(cell);
        if rate.events > bound {
            wrong.push(format!(
                "{name}, {cell}: {:.1} events a command at depth {depth}, more than {bound}",
                rate.events
            ));
        }
        if best.is_none_or(|(_, most)| rate.bytes_per_s > most) {
            best = Some((depth, rate.bytes_per_s));
        }
    }
    println!("{name}, {cell}:{line}");
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Events that a command may cost: those of the command itself, and those of each
/// flash page that it touches.
fn events_bound(cell: Cell) -> f64 {
    12.0 + 8.0 * (cell.block_bytes as f64 / 4096.0)
}

fn grid(target: Target) -> Vec<Cell> {
    let probe = target.build("");
    let identity = probe.identity();
    use Work::{Append, Mixed, RandomRead, RandomWrite, SequentialRead, SequentialWrite, Twice};
    let works: &[Work] = match &identity.zoned {
        Some(zoned) if zoned.zrwa.is_some() => &[Twice],
        Some(_) => &[RandomRead, SequentialRead, SequentialWrite, Append, Mixed],
        None => &[RandomRead, SequentialRead, SequentialWrite, RandomWrite, Mixed],
    };
    // In a random write area a zone is never left.
    let most = identity.zoned.as_ref().map_or(identity.max_transfer_bytes, |zoned| {
        if zoned.zrwa.is_some() { 64 << 10 } else { zoned.append_limit_bytes }
    });
    let streams = identity.zoned.as_ref().map_or(8, |zoned| zoned.max_open.unwrap_or(14).min(14));
    let mut cells = Vec::new();
    for work in works {
        // 20 and 100 KiB divide neither pages nor stripes.
        for kib in [4_u64, 16, 20, 64, 100, 128, 256] {
            for streams in [1, 2, streams] {
                if kib * 1024 <= u64::from(most) {
                    cells.push(Cell { work: *work, block_bytes: kib * 1024, streams });
                }
            }
        }
    }
    cells
}

fn holds(target: Target) {
    let mut cells = grid(target);
    if !long() {
        // Other cells of each profile; more of zoned ones, which are cheap to build.
        let mut random = Random(
            target.name.bytes().fold(0x0dd5_eed5, |seed, byte| (seed ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)),
        );
        let kept = if cells.iter().any(|cell| matches!(cell.work, Work::Append | Work::Twice)) { 12 } else { 3 };
        for index in 0..kept {
            let other = index + random.below((cells.len() - index) as u64) as usize;
            cells.swap(index, other);
        }
        cells.truncate(kept);
    }
    let wrong: Vec<String> = cells.into_iter().filter_map(|cell| examine(target, cell).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn more_commands_outstanding_never_slow_a_device_down() {
    for name in builtin_names() {
        holds(Target::builtin(name));
    }
}

#[test]
fn nor_do_they_slow_down_other_designs_of_zones() {
    for (name, profile, changes) in DESIGNS {
        holds(Target { name, profile, changes });
    }
}

#[test]
fn deep_appends_are_no_slower_than_shallow_ones() {
    for streams in [1, 14] {
        examine(Target::builtin("wd-zn540"), Cell { work: Work::Append, block_bytes: 128 << 10, streams }).unwrap();
    }
}
