//! How fast the zoned SSD model runs: I/Os per second of processor time and
//! memory. Usage: `zoned_rate [commands] [profile]`.

mod support;

use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, ZoneSendAction};
use ssd::profile::{BuildOptions, Profile};
use ssd::{Completion, Device, Submission};
use support::{Random, cpu_s, resident_bytes};
use trace::RequestId;
use units::Nanos;

const NSID: NamespaceId = NamespaceId::FIRST;

/// Keeps `depth` commands outstanding; `next` gives a place's next command. The
/// clock goes on from `now`.
fn run(device: &mut dyn Device, now: &mut Nanos, depth: u16, commands: u64, mut next: impl FnMut(u16) -> Command) {
    let submit = |device: &mut dyn Device, now, cid: u16, command| {
        let (queue, cid) = (QueueId(1), CommandId(cid));
        device.submit(now, Submission { queue, cid, command, data: None, request: RequestId(0) });
    };
    let mut submitted = 0;
    for cid in 0..depth {
        submit(device, *now, cid, next(cid));
        submitted += 1;
    }
    let mut outstanding = depth;
    let mut done: Vec<Completion> = Vec::with_capacity(depth.into());
    while outstanding > 0 {
        let Some(at) = device.next_event() else { return };
        *now = at;
        device.advance(at, &mut done);
        for completion in done.drain(..) {
            if !completion.status.is_success() {
                eprintln!("a command failed: {:?}", completion.status);
                std::process::exit(2);
            }
            if submitted < commands {
                submit(device, at, completion.cid.0, next(completion.cid.0));
                submitted += 1;
            } else {
                outstanding -= 1;
            }
        }
    }
}

fn measure(name: &str, now: &mut Nanos, commands: u64, before: u64, phase: impl FnOnce(&mut Nanos)) {
    let start = (cpu_s(), *now);
    phase(now);
    let (cpu, modelled) = (cpu_s() - start.0, (*now - start.1).as_secs_f64());
    println!(
        "  {name}: {:.2} M I/O per core-second; modelled {:.0} k IOPS; {:.0} MB resident",
        commands as f64 / cpu / 1e6,
        commands as f64 / modelled / 1e3,
        resident_bytes().saturating_sub(before) as f64 / 1e6,
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let commands = arguments.next().map_or(Ok(4_000_000), |text| text.parse::<u64>());
    let Ok(commands) = commands else {
        eprintln!("usage: zoned_rate [COMMANDS [PROFILE]]");
        std::process::exit(2);
    };
    let name = arguments.next().unwrap_or_else(|| "wd-zn540".to_owned());
    let before = resident_bytes();
    let device = Profile::builtin(&name).and_then(|profile| profile.build(&BuildOptions::default()));
    let mut device = match device {
        Ok(device) => device,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    };
    let identity = device.identity();
    let Some(zoned) = identity.zoned.clone() else {
        eprintln!("{name} has no zones");
        std::process::exit(2);
    };
    let blocks_of_4k = 4096 / identity.lba_bytes;
    let zones = identity.namespace_blocks[0] / zoned.zone_blocks;
    let per_zone = zoned.zone_capacity_blocks / u64::from(blocks_of_4k);
    println!("{name}");
    let mut now = Nanos::ZERO;
    let range = |zone: u64, at: u64| LbaRange {
        start: Lba(zone * zoned.zone_blocks + at * u64::from(blocks_of_4k)),
        count: blocks_of_4k,
    };

    // Each place writes zone after zone of its own; a full one is followed by the next.
    let mut written = [(0_u64, 0_u64); 8];
    measure("4 KiB writes, 8 zones", &mut now, commands, before, |now| {
        run(device.as_mut(), now, 8, commands, |place| {
            let (turn, at) = &mut written[usize::from(place)];
            if *at == per_zone {
                (*turn, *at) = (*turn + 1, 0);
            }
            let zone = (*turn * 8 + u64::from(place)) % zones;
            let range = range(zone, *at);
            *at += 1;
            Command::write(NSID, range, false)
        });
    });
    let filled: u64 = written.iter().map(|(turn, _)| turn + 1).min().unwrap_or(1) * 8;
    let mut random = Random(1);
    // Only zones written to the end, or the first part of those begun.
    let least = written.iter().map(|(turn, at)| if *turn > 0 { per_zone } else { *at }).min().unwrap_or(1);
    let whole = if least == per_zone { filled - 8 } else { 8 };
    measure("4 KiB random reads, 32 outstanding", &mut now, commands, before, |now| {
        run(device.as_mut(), now, 32, commands, |_| {
            let range = range(random.below(whole), random.below(least));
            Command::Read { nsid: NSID, range, fua: false }
        });
    });
    let resets = whole.min(64);
    let mut zone = 0;
    measure("zone resets", &mut now, resets, before, |now| {
        run(device.as_mut(), now, 1, resets, |_| {
            zone += 1;
            Command::ZoneManagementSend {
                nsid: NSID,
                start: Lba((zone - 1) * zoned.zone_blocks),
                action: ZoneSendAction::Reset,
                all: false,
                zrwa: false,
            }
        });
    });
}
