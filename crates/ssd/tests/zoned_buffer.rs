//! The zoned device's write buffer: what completes in it, what Flush and FUA wait for,
//! and what lives in it.

use crate::common::{Rig, changed_profile, flush};
use nvme::{Command, Lba, LbaRange, NamespaceId, ZoneSendAction};
use ssd::Zoned;
use ssd::profile::DeviceConfig;
use units::Nanos;

const NSID: NamespaceId = NamespaceId::FIRST;
const ZONE_BLOCKS: u64 = 524_288;
const CAPACITY_BLOCKS: u64 = 275_712;

fn rig(changes: &str) -> Rig<Zoned> {
    match changed_profile("wd-zn540", changes).unwrap().config {
        DeviceConfig::Zoned(config) => Rig::new(Zoned::new(&config).unwrap()),
        other => panic!("{other:?}"),
    }
}

fn write(zone: u64, block: u64, count: u32, fua: bool) -> Command {
    Command::write(NSID, LbaRange { start: Lba(zone * ZONE_BLOCKS + block), count }, fua)
}

fn manage(zone: u64, action: ZoneSendAction, zrwa: bool) -> Command {
    Command::ZoneManagementSend { nsid: NSID, start: Lba(zone * ZONE_BLOCKS), action, all: false, zrwa }
}

/// Fills a zone, 256 blocks at a time.
fn fill(rig: &mut Rig<Zoned>, zone: u64) {
    for block in (0..CAPACITY_BLOCKS).step_by(256) {
        rig.once(write(zone, block, 256.min(CAPACITY_BLOCKS - block) as u32, false));
    }
}

fn millis(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

#[test]
fn a_write_completes_in_the_buffer_and_a_full_one_makes_it_wait() {
    let mut rig = rig("");
    let alone = rig.once(write(0, 0, 1, false));
    assert!(alone < Nanos::from_micros(20), "{alone:?}");
    // Faster than the flash: a hundred 1 MiB writes.
    let mut block = 1;
    let measured = rig.closed_loop(4, 100, || {
        block += 256;
        write(0, block - 256, 256, false)
    });
    let rate = measured.per_s() * f64::from(1 << 20);
    assert!((1.1e9..1.5e9).contains(&rate), "{rate}");
    assert!(rig.counter("stalls") > 50 && rig.counter("buffer_wait_ns") > 0);
}

#[test]
fn flush_and_fua_wait_for_flash_where_the_buffer_is_not_protected() {
    for (protected, waits) in [(true, false), (false, true)] {
        let mut rig = rig(&format!("buffer.power_loss_protected = {protected}"));
        rig.once(write(0, 0, 1, false));
        let flushed = rig.once(flush());
        assert_eq!(flushed > millis(1), waits, "{flushed:?}");
        let again = rig.once(flush());
        assert!(again < millis(1), "nothing new: {again:?}");
        let fua = rig.once(write(0, 1, 1, true));
        assert_eq!(fua > millis(1), waits, "{fua:?}");
        assert_eq!(rig.counter("saved_bytes"), if waits { 3 * 4096 } else { 0 });
        // A full unit is programmed in its place, not saved.
        let mut rig = self::rig(&format!("buffer.power_loss_protected = {protected}"));
        rig.once(write(0, 0, 24, true));
        assert_eq!(rig.counter("saved_bytes"), 0);
        assert_eq!(rig.counter("flash_programmed_bytes"), 96 << 10);
    }
}

#[test]
fn a_zrwa_costs_the_buffer_alone_until_it_is_committed() {
    let mut rig = rig("zone.zrwa = { size = '1MiB', granularity = '16KiB', zones = 4 }");
    rig.once(manage(0, ZoneSendAction::Open, true));
    let measured = rig.closed_loop(1, 5000, || write(0, 17, 1, false));
    assert!(measured.mean_latency_ns() < 20_000.0);
    assert_eq!(rig.counter("flash_programmed_bytes"), 0);
    // An explicit commit of 192 KiB is two programs.
    let commit = Command::ZoneManagementSend {
        nsid: NSID,
        start: Lba(47),
        action: ZoneSendAction::FlushZrwa,
        all: false,
        zrwa: false,
    };
    rig.once(commit);
    rig.drain();
    assert_eq!(rig.counter("flash_programmed_bytes"), 192 << 10);
    // A write behind the window commits what the window leaves.
    rig.once(write(0, 48 + 256 + 23, 1, false));
    rig.drain();
    assert_eq!(rig.counter("flash_programmed_bytes"), 288 << 10);
}

#[test]
fn a_metadata_finish_programs_what_the_buffer_has_and_no_more() {
    let mut rig = rig("management.finish = 'metadata'\nmanagement.reset = 'partial'");
    rig.once(write(0, 0, 1, false));
    let time = rig.once(manage(0, ZoneSendAction::Finish, false));
    assert!(time < millis(6), "{time:?}");
    assert_eq!((rig.counter("flash_programmed_bytes"), rig.counter("padded_bytes")), (96 << 10, 92 << 10));
}

#[test]
fn designs_that_pad_take_as_long_and_disturb_a_writer_each_in_its_way() {
    // (design, a writer's worst wait beside it, at least and at most)
    let designs = [
        ("blocking", millis(500), millis(1000)),
        ("chunked", Nanos::ZERO, millis(30)),
        ("measured", Nanos::ZERO, millis(30)),
        ("metadata", Nanos::ZERO, millis(15)),
    ];
    for (design, least, most) in designs {
        let mut rig = rig(&format!("management = {{ finish = '{design}', finish_chunk = '3MiB' }}"));
        rig.once(write(0, 0, 1, false));
        rig.submit(9, manage(0, ZoneSendAction::Finish, false));
        let mut worst = Nanos::ZERO;
        for turn in 0..2000 {
            worst = worst.max(rig.once_beside(write(1, turn * 8, 8, false)));
        }
        assert!((least..=most).contains(&worst), "{design}: {worst:?}");
    }
}

#[test]
fn a_buffered_writer_pays_for_a_lazy_reset_only_when_the_buffer_is_full() {
    let mut rig = rig(
        "namespaces = [1]\nmanagement = { reset = 'lazy', mapping = 'on-demand' }\n[zone]\nmax_open = 1\nmax_active = 1",
    );
    fill(&mut rig, 0);
    rig.drain();
    let reset = rig.once(manage(0, ZoneSendAction::Reset, false));
    assert!(reset < millis(1), "{reset:?}");
    let first = rig.once(write(0, 0, 1, false));
    assert!(first < millis(1), "{first:?}");
    assert_eq!((rig.counter("paid_erases"), rig.counter("erases")), (1, 32));
}

#[test]
fn zones_full_at_the_start_are_read_reset_and_written() {
    let mut rig = rig("initial.full_zones = [10]");
    let read = |zone: u64| Command::Read {
        nsid: NSID,
        range: LbaRange { start: Lba(zone * ZONE_BLOCKS + 1000), count: 1 },
        fua: false,
    };
    assert!(rig.once(read(9)) > Nanos::from_micros(50));
    assert!(rig.once(read(10)) < Nanos::from_micros(20));
    let reset = rig.once(manage(3, ZoneSendAction::Reset, false));
    assert!(reset > millis(14), "{reset:?}");
    fill(&mut rig, 3);
    assert!(rig.once(read(3)) > Nanos::from_micros(50));
}

#[test]
fn the_same_seed_gives_the_same_times_and_another_others() {
    let times = |seed: u64| {
        let mut rig = rig(&format!("controller.seed = {seed}"));
        (0..200).map(|block| rig.once(write(0, block, 1, false))).collect::<Vec<_>>()
    };
    assert!(times(1) == times(1));
    assert!(times(1) != times(2));
}
