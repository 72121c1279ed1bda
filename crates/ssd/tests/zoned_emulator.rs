//! The zoned device in the configuration of ConfZNS++ against the closed forms of
//! that emulator's timing rules, and the designs that it has or names.

use crate::common::{Rig, changed_profile};
use nvme::{Command, Lba, LbaRange, NamespaceId, ZoneSendAction};
use ssd::profile::DeviceConfig;
use ssd::{Device, Zoned};
use units::Nanos;

const NSID: NamespaceId = NamespaceId::FIRST;
/// 512-byte blocks.
const ZONE_BLOCKS: u64 = 4 << 20;
const CAPACITY_BLOCKS: u64 = 1_107_296_256 / 512;
const PAGE_BLOCKS: u32 = 32;
const PAGES: u64 = CAPACITY_BLOCKS / 32;
/// 22 blocks of 768 pages on each of 4 chips.
const ROW_PAGES: u64 = 768 * 4;

type Emulator = Rig<Zoned>;

/// The emulator with other values.
fn emulator(changes: &str) -> Emulator {
    match changed_profile("confznspp", changes).unwrap().config {
        DeviceConfig::Zoned(config) => Rig::new(Zoned::new(&config).unwrap()),
        other => panic!("{other:?}"),
    }
}

fn write(zone: u64, page: u64) -> Command {
    let start = Lba(zone * ZONE_BLOCKS + page * u64::from(PAGE_BLOCKS));
    Command::write(NSID, LbaRange { start, count: PAGE_BLOCKS }, false)
}

fn read(zone: u64, page: u64) -> Command {
    let start = Lba(zone * ZONE_BLOCKS + page * u64::from(PAGE_BLOCKS));
    Command::Read { nsid: NSID, range: LbaRange { start, count: PAGE_BLOCKS }, fua: false }
}

fn append(zone: u64) -> Command {
    Command::ZoneAppend { nsid: NSID, zone: Lba(zone * ZONE_BLOCKS), blocks: PAGE_BLOCKS, fua: false }
}

fn manage(zone: u64, action: ZoneSendAction) -> Command {
    Command::ZoneManagementSend { nsid: NSID, start: Lba(zone * ZONE_BLOCKS), action, all: false, zrwa: false }
}

fn reset(zone: u64) -> Command {
    manage(zone, ZoneSendAction::Reset)
}

fn finish(zone: u64) -> Command {
    manage(zone, ZoneSendAction::Finish)
}

fn micros(micros: u64) -> Nanos {
    Nanos::from_micros(micros)
}

/// Writes `pages` pages of a zone, 512 KiB at a time.
fn fill(rig: &mut Emulator, zone: u64, pages: u64) {
    let mut page = 0;
    while page < pages {
        let count = (pages - page).min(32);
        let start = Lba(zone * ZONE_BLOCKS + page * u64::from(PAGE_BLOCKS));
        let range = LbaRange { start, count: count as u32 * PAGE_BLOCKS };
        rig.once(Command::write(NSID, range, false));
        page += count;
    }
}

#[test]
fn one_page_takes_its_transfer_and_its_program_or_read() {
    let mut rig = emulator("");
    assert_eq!(rig.once(write(0, 0)), micros(725));
    assert_eq!(rig.once(read(0, 0)), micros(85));
    // A part of a page costs as much, each time.
    for block in 0..4 {
        let start = Lba(u64::from(PAGE_BLOCKS) + block * 8);
        let range = LbaRange { start, count: 8 };
        assert_eq!(rig.once(Command::write(NSID, range, false)), micros(725));
    }
    assert_eq!(rig.counter("flash_programmed_bytes"), 5 * 16384);
    // Nothing is read where nothing was written.
    assert_eq!(rig.once(read(0, 4)), Nanos::ZERO);
}

/// Writes a second of `jobs` writers, each a page at a time to a zone of its own.
fn writes_per_s(jobs: u16) -> f64 {
    let mut rig = emulator("");
    let mut pages = vec![0; jobs.into()];
    let mut done = Vec::new();
    for job in 0..jobs {
        rig.submit(job, write(job.into(), 0));
    }
    let seconds = 4;
    while rig.now < Nanos::from_secs(seconds) {
        rig.now = rig.device.next_event().unwrap();
        rig.device.advance(rig.now, &mut done);
        for completion in done.drain(..) {
            let job = completion.cid.0;
            pages[usize::from(job)] += 1;
            rig.submit(job, write(job.into(), pages[usize::from(job)]));
        }
    }
    pages.iter().sum::<u64>() as f64 / seconds as f64
}

#[test]
fn four_chips_program_5714_pages_a_second() {
    for (jobs, expected) in [(1, 1.0 / 725e-6), (2, 2.0 / 725e-6), (5, 4.0 / 700e-6), (7, 4.0 / 700e-6)] {
        let got = writes_per_s(jobs);
        assert!((got / expected - 1.0).abs() < 0.01, "{jobs} jobs: {got}");
    }
}

#[test]
fn a_full_reset_erases_every_row_and_a_partial_one_those_written() {
    let row = micros(3500);
    for pages in [1, ROW_PAGES, ROW_PAGES + 1, 2 * ROW_PAGES] {
        let mut rig = emulator("management.reset = 'full'");
        fill(&mut rig, 0, pages);
        assert_eq!(rig.once(reset(0)), row * 22);
        assert_eq!(rig.counter("erases"), 22 * 4);

        let mut rig = emulator("management.reset = 'partial'");
        fill(&mut rig, 0, pages);
        assert_eq!(rig.once(reset(0)), row * pages.div_ceil(ROW_PAGES));
        // Empty again: nothing to do, and writable from the start.
        assert_eq!(rig.once(reset(0)), Nanos::ZERO);
        assert_eq!(rig.once(write(0, 0)), micros(725));
    }
}

#[test]
fn a_write_to_another_zone_waits_for_a_reset() {
    let mut rig = emulator("management.reset = 'full'");
    rig.once(write(0, 0));
    rig.submit(1, reset(0));
    assert_eq!(rig.once_beside(write(1, 0)), micros(77_000 + 700));
}

#[test]
fn chunks_of_a_finish_set_its_rate() {
    for (pages, rate) in [(1, 22.6e6), (2, 45.2e6), (4, 90.4e6), (16, 92.8e6)] {
        let changes = format!("management = {{ finish = 'chunked', finish_chunk = '{}KiB' }}", 16 * pages);
        let mut rig = emulator(&changes);
        rig.once(write(0, 0));
        let time = rig.once(finish(0));
        let padded = (PAGES - 1) * 16384;
        let got = padded as f64 / time.as_secs_f64();
        assert!((got / rate - 1.0).abs() < 0.002, "{pages} pages: {got}");
        assert_eq!(rig.counter("padded_bytes"), padded);
        // The padding is flash to erase.
        assert_eq!(rig.once(reset(0)), micros(77_000));
    }
    // In one go every chip programs its share without a pause.
    let mut rig = emulator("management.finish = 'blocking'");
    rig.once(write(0, 0));
    let time = rig.once(finish(0));
    assert_eq!(time, micros(25 + 700 * PAGES / 4));
    // An empty zone has nothing to pad: one transfer.
    assert_eq!(rig.once(finish(1)), micros(25));
}

#[test]
fn host_writes_come_between_the_chunks_of_a_finish_but_not_into_a_blocking_one() {
    let beside = |changes: &str| {
        let mut rig = emulator(changes);
        rig.once(write(0, 0));
        rig.submit(1, finish(0));
        rig.once_beside(write(1, 0))
    };
    // A chunk of 16 pages is 4 on each chip.
    let chunked = beside("management.finish = 'chunked'");
    assert!(chunked <= micros(25 + 5 * 700 + 25 * 4), "{chunked:?}");
    let blocking = beside("management.finish = 'blocking'");
    assert!(blocking > Nanos::from_secs(11), "{blocking:?}");
    let metadata = beside("management.finish = 'metadata'");
    assert_eq!(metadata, micros(725));
}

#[test]
fn a_lazy_reset_is_paid_by_the_writer_that_gets_unerased_flash() {
    let lazy = "namespaces = [2]\nmanagement = { reset = 'lazy', mapping = 'on-demand' }";
    let mut rig = emulator(lazy);
    fill(&mut rig, 0, ROW_PAGES + 1);
    assert_eq!(rig.once(reset(0)), Nanos::ZERO);
    assert_eq!(rig.counter("erases"), 0);
    // The other physical zone was never used.
    assert_eq!(rig.once(write(0, 0)), micros(725));
    // Now only the one to erase is left: two rows, and the write after them.
    assert_eq!(rig.once(write(1, 0)), micros(2 * 3500 + 700));
    assert_eq!((rig.counter("erases"), rig.counter("paid_erases")), (8, 1));
    assert_eq!(rig.once(write(1, 1)), micros(725));
    // With a spare zone nobody pays.
    let mut rig = emulator(&format!("{lazy}\ngeometry.spare_zones = 1"));
    fill(&mut rig, 0, ROW_PAGES + 1);
    rig.once(reset(0));
    rig.once(write(0, 0));
    assert_eq!(rig.once(write(1, 0)), micros(725));
}

#[test]
fn on_demand_mapping_spreads_wear() {
    let mut rig = emulator("namespaces = [4]\nmanagement = { reset = 'partial', mapping = 'on-demand' }");
    let first: Vec<Nanos> = (0..8)
        .map(|_| {
            rig.once(write(0, 0));
            rig.once(reset(0))
        })
        .collect();
    assert!(first.iter().all(|time| *time == micros(3500)));
    assert_eq!(rig.counter("least_erased_rows"), 2);
    assert_eq!(rig.counter("most_erased_rows"), 2);
}

#[test]
fn a_background_reset_erases_when_idle_and_gives_way() {
    let changes = "management = { reset = 'background', idle_after = '5ms' }\n\
                   suspend = { suspend = '10us', resume = '5us', max_per_operation = 100 }";
    let mut rig = emulator(changes);
    fill(&mut rig, 0, 2 * ROW_PAGES);
    rig.once(write(1, 0));
    assert_eq!(rig.once(reset(0)), Nanos::ZERO);
    let start = rig.now;
    rig.drain();
    assert_eq!(rig.now - start, micros(5000 + 2 * 3500));
    assert_eq!((rig.counter("erases"), rig.counter("paid_erases")), (8, 0));
    assert_eq!(rig.once(write(0, 0)), micros(725));

    // A read that meets an erase waits for its suspension alone.
    let mut rig = emulator(changes);
    fill(&mut rig, 0, 2 * ROW_PAGES);
    rig.once(write(1, 0));
    rig.once(reset(0));
    rig.run_until(rig.now + micros(6000));
    assert_eq!(rig.once(read(1, 0)), micros(10 + 85));
    // A writer that comes before the idle time pays.
    let mut rig = emulator(changes);
    fill(&mut rig, 0, 2 * ROW_PAGES);
    rig.once(reset(0));
    assert_eq!(rig.once(write(0, 0)), micros(2 * 3500 + 700));
    assert_eq!(rig.counter("paid_erases"), 1);
}

#[test]
fn a_suspended_erase_lets_host_io_through_and_takes_longer() {
    let beside = |changes: &str| {
        let mut rig = emulator(changes);
        fill(&mut rig, 0, 1);
        rig.once(write(1, 0));
        rig.submit(1, reset(0));
        rig.once_beside(read(1, 0))
    };
    assert_eq!(beside("management.reset = 'full'"), micros(77_000 + 85));
    let suspended = "management = { reset = 'full', erase_suspend = true }\n\
                     suspend = { suspend = '10us', resume = '5us', max_per_operation = 100 }";
    assert_eq!(beside(suspended), micros(10 + 85));
    let mut rig = emulator(suspended);
    fill(&mut rig, 0, 1);
    assert_eq!(rig.once(reset(0)), micros(77_000));
}

#[test]
fn appends_timed_at_the_zone_start_serialise() {
    for (timing, last) in [("at-write-pointer", 725), ("at-zone-start", 25 + 4 * 700)] {
        let mut rig = emulator(&format!("management.append = '{timing}'"));
        for cid in 0..4 {
            rig.submit(cid, append(0));
        }
        let start = rig.now;
        rig.settle(4);
        assert_eq!(rig.now - start, micros(last), "{timing}");
    }
}

#[test]
fn zone_classes_set_what_a_zone_can_do_alone() {
    // ConfZNS: a zone on 1 chip, on 4, on 8 and on all 16; 16 pages at once.
    for (channels, ways, chips) in [(1, 1, 1), (4, 1, 4), (8, 1, 8), (8, 2, 16)] {
        let changes = format!(
            "zone.capacity = '384MiB'\ngeometry = {{ channels = 8, ways = 2, pages_per_block = 96 }}\n\
             stripe = {{ channels = {channels}, ways = {ways} }}"
        );
        let mut rig = emulator(&changes);
        let range = LbaRange { start: Lba(0), count: 16 * PAGE_BLOCKS };
        let time = rig.once(Command::write(NSID, range, false));
        // Transfers of a channel queue; programs of a chip too.
        let ways = u64::from(ways as u32);
        let expected = if chips == 16 { 25 * ways + 700 } else { 25 + 700 * (16 / chips) };
        assert_eq!(time, micros(expected), "{channels} x {ways}");
        // A zone of another group is not disturbed.
        if chips < 16 {
            rig.submit(1, reset(0));
            assert_eq!(rig.once_beside(write(1, 0)), micros(725));
        }
    }
}

#[test]
fn a_background_reset_goes_on_after_a_power_cut() {
    let mut rig = emulator(
        "management = { reset = 'background', idle_after = '5ms' }\n\
         suspend = { suspend = '10us', resume = '5us', max_per_operation = 100 }",
    );
    fill(&mut rig, 0, 2 * ROW_PAGES);
    rig.once(reset(0));
    rig.run_until(rig.now + micros(6000));
    let now = rig.now;
    assert!(rig.device.power_cut(now).undecided.is_empty());
    rig.drain();
    // The row under way when the power went is erased again.
    assert_eq!(rig.now - now, micros(5000 + 2 * 3500));
    assert_eq!(rig.counter("erases"), 8);
    assert_eq!(rig.once(write(0, 0)), micros(725));
}
