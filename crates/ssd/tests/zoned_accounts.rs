//! What the zoned device counts adds up, whatever its designs: no array or channel is
//! busy longer than time went by, and every byte programmed has an origin.

use crate::common::{Random, Rig, changed_profile};
use nvme::{Command, Lba, LbaRange, NamespaceId, ZoneSendAction};
use ssd::profile::DeviceConfig;
use ssd::{Device, Zoned};
use trace::{Recorder, Step, Track};

const NSID: NamespaceId = NamespaceId::FIRST;

/// Small zones, so that they fill: 8 blocks of 24 pages on each of 4 or 32 arrays.
const SMALL_EMULATOR: &str = "namespaces = [12]\nzone.size = '16MiB'\nzone.capacity = '12MiB'\n\
     geometry.pages_per_block = 24\nsuspend = { suspend = '10us', resume = '5us', max_per_operation = 8 }\n";
const SMALL_DRIVE: &str = "namespaces = [12]\nzone.size = '32MiB'\nzone.capacity = '24MiB'\n\
     geometry.pages_per_block = 6\n";

fn designs() -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    for (profile, small) in [("confznspp", SMALL_EMULATOR), ("wd-zn540", SMALL_DRIVE)] {
        for reset in ["full", "partial", "background"] {
            for finish in ["blocking", "chunked", "metadata"] {
                for mapping in ["static", "on-demand"] {
                    all.push((
                        profile,
                        format!(
                            "{small}management.reset = '{reset}'\nmanagement.finish = '{finish}'\n\
                             management.mapping = '{mapping}'"
                        ),
                    ));
                }
            }
        }
        all.push((profile, format!("{small}management = {{ reset = 'lazy', mapping = 'on-demand' }}")));
        all.push((profile, format!("{small}management = {{ reset = 'full', erase_suspend = true }}")));
    }
    all.push(("wd-zn540", SMALL_DRIVE.to_owned()));
    all
}

/// Writes, reads, finishes and resets at random, 8 outstanding.
fn exercise(rig: &mut Rig<Zoned>, seed: u64) {
    let identity = rig.device.identity().clone();
    let zoned = identity.zoned.unwrap();
    let per_4k = 4096 / identity.lba_bytes;
    let mut random = Random(seed);
    let mut written = [0_u64; 12];
    rig.closed_loop(8, 6000, || {
        let zone = random.below(12);
        let start = zone * zoned.zone_blocks;
        let at = &mut written[zone as usize];
        let count = (1 + random.below(32)) as u32 * per_4k;
        let manage =
            |action| Command::ZoneManagementSend { nsid: NSID, start: Lba(start), action, all: false, zrwa: false };
        match random.below(100) {
            0..2 if *at < zoned.zone_capacity_blocks => {
                *at = zoned.zone_capacity_blocks;
                manage(ZoneSendAction::Finish)
            }
            0..4 => {
                *at = 0;
                manage(ZoneSendAction::Reset)
            }
            4..30 => {
                let first = start + random.below(zoned.zone_capacity_blocks / 2);
                Command::Read { nsid: NSID, range: LbaRange { start: Lba(first), count }, fua: false }
            }
            _ if *at + u64::from(count) <= zoned.zone_capacity_blocks => {
                let range = LbaRange { start: Lba(start + *at), count };
                *at += u64::from(count);
                Command::write(NSID, range, false)
            }
            _ => {
                *at = 0;
                manage(ZoneSendAction::Reset)
            }
        }
    });
}

#[test]
fn nothing_is_busy_longer_than_time_goes_by_and_every_program_has_an_origin() {
    for (index, (profile, changes)) in designs().into_iter().enumerate() {
        let DeviceConfig::Zoned(config) = changed_profile(profile, &changes).unwrap().config else { panic!() };
        let mut rig = Rig::new(Zoned::new(&config).unwrap());
        exercise(&mut rig, index as u64 + 1);
        rig.drain();
        let name = format!("{profile} {changes}");
        for prefix in ["die", "channel"] {
            let busy = rig.counters_like(prefix);
            assert!(busy.iter().all(|busy| *busy <= rig.now.0), "{name}: {prefix} {busy:?} of {:?}", rig.now);
            assert!(busy.iter().any(|busy| *busy > 0), "{name}");
        }
        let [host, programmed, padded] =
            ["host_written_bytes", "flash_programmed_bytes", "padded_bytes"].map(|key| rig.counter(key));
        if config.buffer.is_some() {
            // What is not programmed was in the buffer, perhaps when its zone was reset.
            assert!(programmed <= host + padded, "{name}: {programmed} of {host} + {padded}");
            assert!(programmed > host / 2, "{name}");
        } else {
            // Every page touched is programmed, whole.
            assert!(programmed >= host + padded, "{name}: {programmed} of {host} + {padded}");
            assert!(programmed < 2 * host + padded, "{name}");
        }
        assert!(
            rig.counter("zone_resets") > 10 && rig.counter("zone_finishes") > 10 && rig.counter("erases") > 0,
            "{name}"
        );
    }
}

#[test]
fn the_trace_shows_what_each_part_did() {
    let DeviceConfig::Zoned(config) = changed_profile("wd-zn540", SMALL_DRIVE).unwrap().config else { panic!() };
    let mut rig = Rig::new(Zoned::new(&config).unwrap());
    let recorder = Recorder::bounded(1 << 20);
    rig.device.set_recorder(recorder.clone());
    exercise(&mut rig, 7);
    rig.drain();
    let (spans, dropped) = recorder.take();
    assert_eq!(dropped, 0);
    let count =
        |wanted: &dyn Fn(&Track, Step) -> bool| spans.iter().filter(|span| wanted(&span.track, span.step)).count();
    assert!(count(&|track, step| *track == Track::Controller && step == Step::Process) > 5000);
    assert!(count(&|track, step| *track == Track::Link && step == Step::Transfer) > 5000);
    for step in [Step::FlashRead, Step::FlashProgram, Step::FlashErase] {
        assert!(count(&|track, other| matches!(track, Track::Die { .. }) && other == step) > 20, "{step}");
    }
    assert!(count(&|track, step| matches!(track, Track::Channel(_)) && step == Step::ChannelTransfer) > 1000);
    // The programs in it are those that are counted.
    let programs = spans.iter().filter(|span| span.step == Step::FlashProgram).map(|span| u64::from(span.bytes));
    assert_eq!(programs.sum::<u64>(), rig.counter("flash_programmed_bytes"));
}
