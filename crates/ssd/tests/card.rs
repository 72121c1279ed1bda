//! The card obeys the laws of cards.

use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, Status, WriteCommand};
use ssd::card::{CardBus, CardController, CardFlash, CardMapping};
use ssd::profile::{Driver, Op, Pattern, Phase, Sample};
use ssd::{Card, CardConfig, Contents, Device, Store, Submission};
use trace::RequestId;
use units::{ByteSize, Nanos};

fn config() -> CardConfig {
    CardConfig {
        model: "test card".to_owned(),
        lba: ByteSize(512),
        capacity: ByteSize(32_000_000_000),
        flash: CardFlash {
            stripe: ByteSize(32 << 10),
            read: Nanos::from_micros(80),
            program: Nanos::from_micros(400),
            erase: Nanos::from_millis(5),
        },
        mapping: CardMapping { allocation_unit: ByteSize(4 << 20), open_units: 4 },
        controller: CardController { command_overhead: Nanos::from_micros(200) },
        bus: CardBus { bandwidth: ByteSize(100_000_000), max_transfer: ByteSize(512 << 10) },
    }
}

fn card(contents: &Contents) -> Card {
    let config = config();
    Card::new(&config, Store::new(contents, 512, &[Card::blocks(&config)], true).unwrap()).unwrap()
}

fn run(op: Op, pattern: Pattern, block: u64, span: Option<u64>) -> Sample {
    let phase = Phase {
        op,
        block: ByteSize(block),
        pattern,
        queue_depth: 1,
        fua: false,
        span: span.map(ByteSize),
        offset: ByteSize(0),
        bytes: None,
        commands: Some(2000),
        after_write: None,
        idle_before: None,
        duration: None,
    };
    Driver::new(&mut card(&Contents::None), 1).run(&phase, 100).unwrap()
}

#[test]
fn reads_follow_the_closed_forms() {
    let mean_us = |pattern, block| run(Op::Read, pattern, block, None).mean_latency_ns() / 1e3;
    let random = mean_us(Pattern::Random, 4096);
    assert!((random - (200.0 + 80.0 + 40.96)).abs() < 0.01, "{random}");
    // 512 KiB in 16 stripes: the bus is slower than the flash; the stream goes on.
    let stream = mean_us(Pattern::Sequential, 512 << 10);
    assert!((stream - (200.0 + 5242.88)).abs() < 0.01, "{stream}");
}

#[test]
fn streams_run_at_the_flash_rate_and_scattered_writes_pay_for_merging() {
    let stream = run(Op::Write, Pattern::Sequential, 512 << 10, None).throughput();
    // Per 512 KiB: overhead, one stripe over the bus, 16 programs; per unit of
    // 4 MiB an erase, a map load and a map store.
    let expected_us = 200.0 + 327.68 + 16.0 * 400.0 + (5000.0 * 129.0 / 128.0 + 80.0 + 400.0) / 8.0;
    assert!((stream / (524_288.0 / expected_us * 1e6) - 1.0).abs() < 0.01, "{stream}");
    let scattered = run(Op::Write, Pattern::Random, 4096, None).mean_latency_ns() / 1e3;
    // Leaving a unit completes one stripe and stores a map; the write itself
    // programs one: three programs, two reads, and their share of erases.
    let expected_us = 200.0 + 40.96 + 3.0 * 400.0 + 2.0 * 80.0 + 3.0 / 128.0 * 5000.0;
    assert!((scattered / expected_us - 1.0).abs() < 0.02, "{scattered} {expected_us}");
    let within_open = run(Op::Write, Pattern::Random, 4096, Some(16 << 20)).mean_latency_ns() / 1e3;
    assert!(within_open < 0.6 * scattered, "four open units are not left: {within_open}");
}

fn submit(card: &mut Card, now: Nanos, cid: u16, command: Command, fill: u8) {
    let data = match &command {
        Command::Write(WriteCommand { range, .. }) => Some(vec![fill; range.count as usize * 512].into()),
        _ => None,
    };
    card.submit(now, Submission { queue: QueueId(1), cid: CommandId(cid), command, data, request: RequestId(0) });
}

#[test]
fn a_completed_write_survives_and_the_one_under_way_may() {
    let mut card = card(&Contents::Memory);
    let nsid = NamespaceId::FIRST;
    let range = |start| LbaRange { start: Lba(start), count: 8 };
    let write = |start| Command::write(nsid, range(start), false);
    submit(&mut card, Nanos::ZERO, 1, write(0), 1);
    submit(&mut card, Nanos::ZERO, 2, write(0), 2);
    submit(&mut card, Nanos::ZERO, 3, write(8), 3);
    let first = card.next_event().unwrap();
    let mut completions = Vec::new();
    card.advance(first, &mut completions);
    assert_eq!(completions.len(), 1);
    let undecided = card.power_cut(first + Nanos(1)).undecided;
    assert_eq!(undecided.iter().map(|write| (write.start, write.blocks)).collect::<Vec<_>>(), [(Lba(0), 8)]);
    let now = first + Nanos(2);
    submit(&mut card, now, 4, Command::Read { nsid, range: range(0), fua: false }, 0);
    submit(&mut card, now, 5, Command::Deallocate { nsid, ranges: [range(0)].into() }, 0);
    submit(&mut card, now, 6, Command::Read { nsid, range: range(0), fua: false }, 0);
    completions.clear();
    card.advance(Nanos::from_secs(1), &mut completions);
    let read: Vec<_> = completions.iter().filter_map(|done| done.data.as_ref().map(|data| data[0])).collect();
    assert_eq!(read, [1, 0]);
    assert!(completions.iter().all(|done| done.status == Status::SUCCESS));
}
