//! The log of writes against a device that keeps order and fetches from its queues by lot: whatever a power cut leaves there, the
//! rule of streams allows by the log alone. On a device that ignores order it finds what is wrong.

use crate::kept::Shared;
use crash::order::OrderedLog;
use crash::{LogReader, Moments, Streams, Survivors};
use nvme::{
    Closing, Command, CommandId, Epoch, Lba, LbaRange, NamespaceId, QueueId, Stream, StreamAction, StreamEpoch,
    WriteOrder,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use serve::WriteLog;
use ssd::config::{Arbitration, OrderKind, OrderTables, SsdConfig};
use ssd::{Contents, Device, Ssd, Submission};
use trace::RequestId;
use units::{ByteSize, Nanos};

const LBA_BYTES: usize = 4096;

/// What a host does, on places of its own each time: a write in up to two streams, which may close them; a flush; time goes by.
#[derive(Clone, Debug)]
enum Step {
    Write { queue: u16, streams: [bool; 2], closes: bool, fua: bool },
    Flush,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = (bool, Vec<Step>)> {
    let write = (1..3_u16, any::<[bool; 2]>(), prop::bool::weighted(0.4), prop::bool::weighted(0.05));
    let step = prop_oneof![
        8 => write.prop_map(|(queue, streams, closes, fua)| Step::Write { queue, streams, closes, fua }),
        1 => Just(Step::Flush),
        2 => (0..400_000_u64).prop_map(Step::Wait),
    ];
    (any::<bool>(), prop::collection::vec(step, 1..60))
}

struct Host {
    device: Box<dyn Device>,
    now: Nanos,
    cid: u16,
}

impl Host {
    fn submit(&mut self, queue: u16, command: Command, data: Option<Box<[u8]>>) {
        self.cid += 1;
        let (queue, cid, request) = (QueueId(queue), CommandId(self.cid), RequestId(0));
        self.device.submit(self.now, Submission { queue, cid, command, data, request });
    }

    fn advance(&mut self, time_ns: u64) -> Vec<ssd::Completion> {
        let mut done = Vec::new();
        self.now += Nanos(time_ns);
        self.device.advance(self.now, &mut done);
        done
    }
}

/// Whether what a cut left after these steps is none of the log's states.
fn breach(order: OrderKind, is_counted: bool, steps: &[Step], lot: u64) -> Result<(), String> {
    let mut config = SsdConfig::reference();
    config.namespaces = vec![ByteSize(1 << 30)];
    (config.order, config.order_tables) = (order, OrderTables { streams: 2, epochs: 64 });
    config.arbitration = Some(Arbitration { window: Nanos::from_micros(60), seed: lot });
    let mut ssd = Ssd::new(&config).unwrap();
    ssd.keep_contents(&Contents::Memory, true).unwrap();
    ssd.recover_from_flash();
    let file = Shared::default();
    let (log, device) = WriteLog::wrap(Box::new(file.clone()), Box::new(ssd)).unwrap();
    let mut host = Host { device, now: Nanos::ZERO, cid: 0 };
    for stream in [1, 2] {
        let action = StreamAction::Open { first: Epoch(u16::MAX) };
        host.submit(1, Command::StreamManagement { nsid: NamespaceId::ALL, stream: Stream(stream), action }, None);
        host.advance(1_000_000);
    }
    // Of each stream the epoch, and the blocks in it.
    let mut epochs = [(Epoch(u16::MAX), 0_u32); 2];
    let mut writes = 0;
    for step in steps {
        match *step {
            Step::Write { queue, streams, closes, fua } => {
                let mut places = [StreamEpoch::default(); 2];
                let mut counts = [0; 2];
                for (stream, (epoch, blocks)) in epochs.iter_mut().enumerate().filter(|(stream, _)| streams[*stream]) {
                    *blocks += 1;
                    places[stream] = StreamEpoch { stream: Stream(stream as u16 + 1), epoch: *epoch };
                    if closes {
                        counts[stream] = *blocks;
                        (*epoch, *blocks) = (epoch.next(), 0);
                    }
                }
                if !streams[0] {
                    (places, counts) = ([places[1], StreamEpoch::default()], [counts[1], 0]);
                }
                let closing = match (closes && streams != [false; 2], is_counted) {
                    (false, _) => Closing::None,
                    (true, true) => Closing::Counted { first_blocks: counts[0], second_blocks: counts[1] },
                    (true, false) => Closing::ByArrival,
                };
                let order = WriteOrder { first: places[0], second: places[1], closing };
                let range = LbaRange { start: Lba(writes), count: 1 };
                let command = Command::ordered_write(NamespaceId::FIRST, range, fua, order);
                host.submit(queue, command, Some(vec![0xab; LBA_BYTES].into()));
                writes += 1;
            }
            Step::Flush => host.submit(1, Command::Flush { nsid: NamespaceId::FIRST }, None),
            Step::Wait(time_ns) => _ = host.advance(time_ns),
        }
    }
    host.advance(lot % 300_000);
    let cut = host.device.power_cut(host.now);
    let mut accepted = OrderedLog::default();
    for write in &cut.undecided {
        accepted.accept(write.start.0..write.start.0 + u64::from(write.blocks), write.places);
    }
    let mut lot = lot;
    let there = accepted.survivors(|_| {
        lot = lot.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        lot >> 62 != 0
    });
    there.iter().for_each(|write| host.device.survive(&cut.undecided[*write]));
    log.finish().unwrap();
    let read = LogReader::read(&**file.0.borrow()).unwrap();
    let mut is_there = Vec::new();
    for lba in 0..writes {
        let range = LbaRange { start: Lba(lba), count: 1 };
        host.submit(1, Command::Read { nsid: NamespaceId::FIRST, range, fua: false }, None);
        let done = host.advance(50_000_000).pop().ok_or("a read does not end")?;
        is_there.push(done.data.is_some_and(|data| data[0] != 0));
    }
    let lba_of = |offset_bytes: u64| (offset_bytes / LBA_BYTES as u64) as usize;
    let mut moments = Moments::new(&read.log, Streams::new(LBA_BYTES as u32));
    let mut known = vec![false; is_there.len()];
    while moments.advance() {
        for write in moments.settled() {
            let lba = lba_of(write.offset_bytes);
            known[lba] = true;
            if !is_there[lba] {
                return Err(format!("{lba} was durable"));
            }
        }
    }
    let undecided = moments.undecided();
    undecided.iter().for_each(|write| known[lba_of(write.offset_bytes)] = true);
    if let Some(lba) = (0..known.len()).find(|lba| is_there[*lba] && !known[*lba]) {
        return Err(format!("{lba} was not accepted"));
    }
    let survivors = Survivors::choose(undecided.len(), |write| is_there[lba_of(undecided[write].offset_bytes)]);
    let is_legal = moments.part_order(LBA_BYTES as u32).unwrap().allows(&survivors);
    if is_legal { Ok(()) } else { Err(format!("{is_there:?} breaks the order")) }
}

proptest! {
    #![proptest_config(Config { cases: 100, failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_device_leaves_what_its_log_allows((is_counted, steps) in steps(), lot: u64) {
        let found = breach(OrderKind::Streams, is_counted, &steps, lot);
        prop_assert!(found.is_ok(), "{found:?}");
    }
}

#[test]
fn a_device_that_ignores_order_is_found_out() {
    let mut runner =
        TestRunner::new(Config { cases: 200, failure_persistence: None, max_shrink_iters: 0, ..Config::default() });
    let result = runner.run(&(steps(), any::<u64>()), |((is_counted, steps), lot)| {
        breach(OrderKind::Ignored, is_counted, &steps, lot).map_err(TestCaseError::fail)
    });
    assert!(matches!(result, Err(TestError::Fail(..))), "{result:?}");
}
