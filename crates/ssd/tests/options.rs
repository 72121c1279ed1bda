//! What each option of the flash SSD does, seen from the host.

use crate::common::{Random, Rig, flush, read, write};
use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, Status};
use ssd::config::{Initial, SlcCache, Sleep, SsdConfig, Suspend};
use ssd::{Contents, Device, Ssd, Submission};
use trace::{Recorder, RequestId, Step, Track};
use units::{ByteSize, Nanos};

fn filled() -> SsdConfig {
    let mut config = SsdConfig::reference();
    config.namespaces = vec![ByteSize(2 << 30), ByteSize(1 << 20)];
    config.over_provisioning = Some(0.6);
    config.geometry.pages_per_block = 48;
    config.initial = Initial { fill: 1.0, ..Initial::default() };
    config
}

fn rig(config: &SsdConfig) -> Rig<Ssd> {
    Rig::new(Ssd::new(config).unwrap())
}

#[test]
fn malformed_commands_say_what_is_wrong() {
    let mut device = Ssd::new(&filled()).unwrap();
    let range = |start, count| LbaRange { start: Lba(start), count };
    let second = NamespaceId(2);
    let fua = false;
    let cases = [
        (Command::Read { nsid: NamespaceId(3), range: range(0, 1), fua }, Status::INVALID_NAMESPACE),
        (Command::Flush { nsid: NamespaceId(0) }, Status::INVALID_NAMESPACE),
        (Command::Read { nsid: second, range: range(255, 2), fua }, Status::LBA_OUT_OF_RANGE),
        (Command::write(second, range(u64::MAX, 2), fua), Status::LBA_OUT_OF_RANGE),
        (Command::Deallocate { nsid: second, ranges: [range(0, 1), range(256, 1)].into() }, Status::LBA_OUT_OF_RANGE),
        (Command::write(second, range(0, 129), fua), Status::INVALID_FIELD),
        (Command::Read { nsid: second, range: range(0, 0), fua }, Status::INVALID_FIELD),
        (Command::WriteZeroes { nsid: second, range: range(0, 256), fua: true, deallocate: false }, Status::SUCCESS),
        (Command::Flush { nsid: NamespaceId::ALL }, Status::SUCCESS),
    ];
    for (command, status) in cases {
        let what = format!("{command:?}");
        let (queue, cid, request) = (QueueId(1), CommandId(9), RequestId(0));
        device.submit(Nanos::ZERO, Submission { queue, cid, command, data: None, request });
        let mut done = Vec::new();
        while let Some(next) = device.next_event() {
            device.advance(next, &mut done);
        }
        assert_eq!(done.len(), 1, "{what}");
        assert_eq!((done[0].cid, done[0].status), (cid, status), "{what}");
    }
}

/// Mean read latency in microseconds while programs go on at every die.
fn read_under_writes_us(config: &SsdConfig) -> f64 {
    let mut rig = rig(config);
    let mut random = Random(5);
    let (mut turn, mut at) = (0, 0);
    let blocks = rig.device.identity().namespace_blocks[0];
    // Enough writes to keep every die programming, and a read now and then.
    rig.closed_loop(256, 6000, || {
        turn += 1;
        at = (at + 8) % (blocks - 8);
        if turn % 8 == 0 { read(random.below(blocks), 1) } else { write(at, 8) }
    });
    let mut sum = 0;
    for _ in 0..40 {
        for cid in 0..200 {
            at = (at + 8) % (blocks - 8);
            rig.submit(1000 + cid, write(at, 8));
        }
        let mut done = Vec::new();
        while done.len() < 200 {
            rig.now = rig.device.next_event().unwrap();
            rig.device.advance(rig.now, &mut done);
        }
        sum += rig.once(read(random.below(blocks), 1)).0;
        rig.drain();
    }
    sum as f64 / 40.0 / 1e3
}

#[test]
fn suspend_lets_reads_go_first() {
    let mut config = filled();
    let without = read_under_writes_us(&config);
    let micros = Nanos::from_micros;
    config.suspend = Some(Suspend { suspend: micros(5), resume: micros(10), max_per_operation: 8 });
    let with = read_under_writes_us(&config);
    // A read alone takes about 70 us; a program 400 to 800.
    assert!(without > 200.0, "{without} us");
    assert!(with < 120.0, "{with} us");
}

#[test]
fn the_slc_cache_is_fast_until_full_and_recovers_when_idle() {
    let mut config = filled();
    config.initial = Initial::default();
    config.buffer.size = ByteSize(8 << 20);
    let micros = Nanos::from_micros;
    let size = ByteSize(256 << 20);
    let fold_after_idle = Some(Nanos::from_millis(100));
    config.slc_cache =
        Some(SlcCache { size, read: micros(25), program: micros(200), erase: Nanos::from_millis(2), fold_after_idle });
    let mut rig = rig(&config);
    let mut at = 0;
    let mut rate = |rig: &mut Rig<Ssd>, bytes: u64| {
        let measured = rig.closed_loop(32, bytes / 131_072, || {
            at = (at + 32) % (500_000 / 32 * 32);
            write(at, 32)
        });
        measured.per_s() * 131_072.0
    };
    let fast = rate(&mut rig, 200 << 20);
    // `closed_loop` ends with an idle device: past the fold time.
    let moved = rig.counter("gc_moved_bytes");
    assert!(moved > 100 << 20, "the cache was not folded: {moved}");
    let again = rate(&mut rig, 400 << 20);
    // 64 dies x 32 KiB every 200 us outrun the link; every 600 us do not.
    assert!(fast > 6.3e9, "{fast}");
    assert!(again < 5.5e9 && again > 3.4e9, "{again}");
}

#[test]
fn capacitors_make_flush_and_fua_free() {
    let mut config = filled();
    config.buffer.power_loss_protected = true;
    let mut rig = rig(&config);
    let fixed = config.link.submission_latency + config.controller.flush + config.link.completion_latency;
    let plain = rig.once(write(7, 1));
    assert_eq!(rig.once(flush()), fixed);
    let fua = Command::write(NamespaceId::FIRST, LbaRange { start: Lba(9), count: 1 }, true);
    assert_eq!(rig.once(fua), plain);
    assert!(!rig.device.identity().volatile_write_cache);
}

#[test]
fn fua_costs_its_program_and_journal_pages() {
    let mut config = filled();
    config.initial = Initial::default();
    config.controller.journal_pages_per_fua = 3;
    let mut rig = rig(&config);
    let plain = rig.once(write(7, 1));
    rig.once(flush());
    let fua = Command::write(NamespaceId::FIRST, LbaRange { start: Lba(9), count: 1 }, true);
    let transfer = config.channel.command_overhead + Nanos::transfer(16_384, config.channel.bandwidth.0);
    let programs = (transfer + config.cell.program[0]) * 4;
    // The flush before took the first superpage on die 0; this takes that on die 1.
    assert_eq!(rig.once(fua), plain + config.controller.fua_overhead + programs);
}

#[test]
fn a_drive_without_fua_says_so() {
    let mut config = filled();
    assert!(rig(&config).device.identity().supports_fua);
    config.controller.without_fua = true;
    assert!(!rig(&config).device.identity().supports_fua);
}

#[test]
fn a_large_deallocation_is_one_journal_entry() {
    let config = filled();
    let mut rig = rig(&config);
    let count = rig.device.identity().namespace_blocks[0] as u32;
    let ranges = [LbaRange { start: Lba(0), count }].into();
    rig.once(Command::Deallocate { nsid: NamespaceId::FIRST, ranges });
    assert_eq!(rig.counter("deallocated_bytes"), 2 << 30);
    let fixed = config.link.submission_latency + config.controller.flush + config.link.completion_latency;
    let page =
        config.channel.command_overhead + Nanos::transfer(16_384, config.channel.bandwidth.0) + config.cell.program[0];
    assert_eq!(rig.once(flush()), fixed + config.controller.flush_overhead + page);
    // Nothing on flash any more.
    assert!(rig.once(read(1000, 1)) < Nanos::from_micros(10));
}

#[test]
fn the_first_command_after_sleep_waits() {
    let mut config = filled();
    config.sleep = Some(Sleep { after: Nanos::from_millis(5), wake: Nanos::from_micros(400) });
    let mut rig = rig(&config);
    rig.once(write(0, 1));
    rig.drain();
    let awake = rig.once(write(1, 1));
    rig.drain();
    rig.now += Nanos::from_millis(6);
    assert_eq!(rig.once(write(2, 1)), awake + Nanos::from_micros(400));
}

#[test]
fn a_request_is_seen_on_its_whole_way() {
    let mut rig = rig(&filled());
    let recorder = Recorder::bounded(1000);
    rig.device.set_recorder(recorder.clone());
    rig.submit(42, read(3, 1));
    while let Some(next) = rig.device.next_event() {
        rig.device.advance(next, &mut Vec::new());
    }
    let (spans, _) = recorder.take();
    let way: Vec<_> = spans.iter().map(|span| (span.step, span.track)).collect();
    let die = Track::Die { channel: 0, die: 0 };
    let expected = [
        (Step::LinkLatency, Track::Link),
        (Step::Process, Track::Controller),
        (Step::FlashRead, die),
        (Step::ChannelTransfer, Track::Channel(0)),
        (Step::Transfer, Track::Link),
        (Step::LinkLatency, Track::Link),
    ];
    assert_eq!(way, expected);
    assert!(spans.iter().all(|span| span.request == RequestId(42)));
    assert!(spans.windows(2).all(|pair| pair[0].end == pair[1].start), "no gaps: {spans:?}");
}

#[test]
fn busy_times_add_up() {
    let config = filled();
    let mut rig = rig(&config);
    let mut random = Random(2);
    let blocks = rig.device.identity().namespace_blocks[0];
    rig.closed_loop(8, 3000, || read(random.below(blocks), 1));
    let elapsed = rig.now.0;
    let dies = rig.counters_like("die");
    let channels = rig.counters_like("channel");
    assert_eq!((dies.len(), channels.len()), (64, 8));
    assert!(dies.iter().chain(&channels).all(|busy| *busy <= elapsed));
    let reads = rig.counter("flash_read_bytes") / 4096;
    let each = Nanos::transfer(4096, config.channel.bandwidth.0) + config.channel.command_overhead;
    // Merged reads share the overhead.
    let total: u64 = channels.iter().sum();
    assert!(total <= reads * each.0 && total > reads * (each.0 - 300), "{total} for {reads} reads");
}

#[test]
fn an_empty_terabyte_is_ready_at_once_and_small() {
    let mut config = SsdConfig::reference();
    config.namespaces = vec![ByteSize(1_000_204_886_016)];
    config.over_provisioning = Some(0.07);
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let before = resident();
    let mut rig = Rig::new(Ssd::new(&config).unwrap());
    rig.once(read(123_456_789, 1));
    // Nor does the map grow by what finds nothing: a discard of the drive, as every
    // mkfs sends, and reads all over it.
    let nsid = NamespaceId::FIRST;
    let blocks = rig.device.identity().namespace_blocks[0];
    let whole = LbaRange { start: Lba(0), count: u32::try_from(blocks).unwrap() };
    rig.once(Command::Deallocate { nsid, ranges: [whole].into() });
    for block in (0..blocks).step_by(1 << 14) {
        rig.once(read(block, 1));
    }
    // Other tests of this process give memory back meanwhile.
    let used = resident().saturating_sub(before);
    assert!(used < 50 << 20, "{used} bytes");
    let per_unit = rig.device.map_bytes() as f64 / (1_000_204_886_016.0 / 4096.0);
    assert!(per_unit <= 10.0, "{per_unit} bytes per mapped unit");
}

#[test]
fn contents_come_back_and_deallocated_blocks_are_zero() {
    let mut device = Ssd::new(&filled()).unwrap();
    device.keep_contents(&Contents::Memory, false).unwrap();
    let mut now = Nanos::ZERO;
    let mut run = |device: &mut Ssd, command, data| {
        let (queue, cid, request) = (QueueId(1), CommandId(1), RequestId(0));
        device.submit(now, Submission { queue, cid, command, data, request });
        let mut done = Vec::new();
        while done.is_empty() {
            now = device.next_event().unwrap();
            device.advance(now, &mut done);
        }
        assert!(done[0].status.is_success());
        done.remove(0).data
    };
    let nsid = NamespaceId(2);
    let range = LbaRange { start: Lba(5), count: 2 };
    let bytes: Box<[u8]> = (0..8192_u32).map(|at| at as u8).collect();
    run(&mut device, Command::write(nsid, range, false), Some(bytes.clone()));
    assert_eq!(run(&mut device, Command::Read { nsid, range, fua: false }, None), Some(bytes));
    run(&mut device, Command::Deallocate { nsid, ranges: [range].into() }, None);
    assert_eq!(run(&mut device, Command::Read { nsid, range, fua: false }, None), Some(vec![0; 8192].into()));
}
