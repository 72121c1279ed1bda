//! A device that keeps order: whatever a power cut leaves is legal by the contract, and all else is as ever.
//!
//! The host has two applications with a stream each and a journal; writes reach the device through several queues, which it
//! fetches from by lot. What the contract says is worked out from the host's own epochs, which it never wraps.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crash::order::{EpochId, OrderedLog, Places, Visible};
use nvme::{Closing, Epoch, Stream, StreamAction, StreamEpoch};

use super::*;
use crate::VolatileWrite;
use crate::config::{Arbitration, OrderKind, OrderTables};

/// A write of an application, of the journal, or of both.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderedWrite {
    pub ns: bool,
    pub at: u16,
    pub blocks: u8,
    pub fua: bool,
    pub queue: u16,
    /// 0: in no stream; `JOURNAL`: in that alone.
    stream: u16,
    joins_journal: bool,
    closes: bool,
    closes_journal: bool,
}

const JOURNAL: u16 = 3;

/// What the host knows of a stream.
#[derive(Clone, Copy)]
struct HostStream {
    /// Its present epoch on the wire, and counted from the first.
    id: Epoch,
    epoch: u64,
    /// Blocks that it has sent of the epoch.
    blocks: u32,
}

/// A write on its way: the blocks that it covers, and its epochs.
struct Pending {
    blocks: Vec<(u32, u64)>,
    places: Places,
    value: u64,
    fua: bool,
}

/// The host's side of order, since the last power cut.
pub(super) struct Ordered {
    counted: bool,
    first: Epoch,
    is_protected: bool,
    cuts: u64,
    streams: BTreeMap<u16, HostStream>,
    log: OrderedLog,
    sent: BTreeMap<u16, Places>,
    pending: BTreeMap<u16, Pending>,
    numbers: BTreeMap<u16, (usize, bool)>,
    flushes: BTreeMap<u16, usize>,
    by_value: BTreeMap<u64, usize>,
    zeroed: BTreeMap<u64, usize>,
}

/// A block in the contract's numbering.
fn flat((nsid, lba): (u32, u64)) -> u64 {
    u64::from(nsid) << 32 | lba
}

/// Which of the undecided writes survive, of those that `survives` chooses.
pub(super) fn survivors(undecided: &[VolatileWrite], survives: impl FnMut(usize) -> bool) -> BTreeSet<usize> {
    let mut log = OrderedLog::default();
    for write in undecided {
        let first = flat((write.nsid.0, write.start.0));
        log.accept(first..first + u64::from(write.blocks), write.places);
    }
    log.survivors(survives)
}

impl Ordered {
    fn new(counted: bool, first: Epoch, is_protected: bool, cuts: u64) -> Self {
        let stream = HostStream { id: first, epoch: 0, blocks: 0 };
        Self {
            counted,
            first,
            is_protected,
            cuts,
            streams: (1..=JOURNAL).map(|number| (number, stream)).collect(),
            log: OrderedLog::default(),
            sent: BTreeMap::new(),
            pending: BTreeMap::new(),
            numbers: BTreeMap::new(),
            flushes: BTreeMap::new(),
            by_value: BTreeMap::new(),
            zeroed: BTreeMap::new(),
        }
    }

    /// After a power cut.
    pub fn again(&self) -> Self {
        Self::new(self.counted, self.first, self.is_protected, self.cuts + 1)
    }

    /// What a write says of order.
    pub fn order(&mut self, write: &OrderedWrite, cid: u16, blocks: u32) -> WriteOrder {
        if write.stream == 0 {
            return WriteOrder::NONE;
        }
        let dual = write.joins_journal && write.stream != JOURNAL;
        // By arrival, a barrier closes both.
        let closes_both = write.closes_journal || (!self.counted && write.closes);
        let names = [(write.stream, write.closes), (if dual { JOURNAL } else { 0 }, dual && closes_both)];
        let closes_any = names.iter().any(|(_, closes)| *closes);
        let (mut at, mut places, mut counts) = ([StreamEpoch::default(); 2], [None, None], [0, 0]);
        for (index, (number, closes)) in names.into_iter().enumerate() {
            let Some(stream) = self.streams.get_mut(&number) else { continue };
            at[index] = StreamEpoch { stream: Stream(number), epoch: stream.id };
            places[index] = Some(EpochId { stream: number.into(), epoch: stream.epoch, is_late: false });
            stream.blocks += blocks;
            if closes || (closes_any && !self.counted) {
                counts[index] = stream.blocks;
                *stream = HostStream { id: stream.id.next(), epoch: stream.epoch + 1, blocks: 0 };
            }
        }
        self.sent.insert(cid, places);
        let closing = match (closes_any, self.counted) {
            (false, _) => Closing::None,
            (true, false) => Closing::ByArrival,
            (true, true) => Closing::Counted { first_blocks: counts[0], second_blocks: counts[1] },
        };
        WriteOrder { first: at[0], second: at[1], closing }
    }

    pub fn submitted(&mut self, cid: u16, command: &Outstanding) {
        match command {
            Outstanding::Read { .. } => {}
            Outstanding::Write { blocks, value, fua, .. } => {
                let places = self.sent.remove(&cid).unwrap_or([None, None]);
                self.pending.insert(cid, Pending { blocks: blocks.clone(), places, value: *value, fua: *fua });
            }
            Outstanding::Flush { .. } => {
                self.flushes.insert(cid, self.log.flush_begins());
            }
        }
    }

    /// The device has accepted these; whether they came late only it can tell.
    pub fn accepted(&mut self, accepted: &[(CommandId, Places)]) -> Result<(), String> {
        for (cid, found) in accepted {
            let Some(Pending { blocks, mut places, value, fua }) = self.pending.remove(&cid.0) else {
                return Err(format!("{cid:?} is accepted and was not sent"));
            };
            for (place, found) in places.iter_mut().flatten().zip(found.iter().flatten()) {
                place.is_late = found.is_late;
                if self.counted && found.is_late {
                    return Err(format!("{cid:?} is late, and its epoch was counted"));
                }
            }
            let (first, last) = (flat(blocks[0]), flat(blocks[blocks.len() - 1]));
            let number = self.log.accept(first..last + 1, places);
            self.numbers.insert(cid.0, (number, fua));
            match value {
                0 => self.zeroed.extend((first..=last).map(|block| (block, number))),
                _ => drop(self.by_value.insert(value, number)),
            }
        }
        Ok(())
    }

    pub fn completed(&mut self, cid: u16) {
        match self.numbers.get(&cid) {
            Some((number, fua)) if *fua || self.is_protected => self.log.make_durable(*number),
            Some((number, _)) => self.log.acknowledge(*number),
            None => {}
        }
        if let Some(flush) = self.flushes.get(&cid) {
            self.log.flush_ends(*flush);
        }
    }

    /// The power goes as a page of the journal is programmed: now and then it is there all the same.
    pub fn finish_page(&self, ssd: &mut Ssd, now: Nanos) {
        if self.cuts % 2 == 1 && ssd.ftl.journal.is_busy() {
            ssd.journal_page_done(now);
        }
    }

    /// What each block holds after a power cut is legal.
    pub fn check(&self, found: &BTreeMap<(u32, u64), u64>) -> Result<(), String> {
        let mut visible = Visible::new();
        for (block, value) in found {
            let block = flat(*block);
            // All zeroes are alike: the newest asks for the least.
            let write = if *value == 0 { self.zeroed.get(&block) } else { self.by_value.get(value) };
            visible.extend(write.map(|write| (block, *write)));
        }
        self.log.check(&visible).map_err(|violation| violation.to_string())
    }
}

impl Host {
    fn ordered(config: &SsdConfig, counted: bool, mutant: Option<Mutant>) -> Self {
        let mut host = Self::new(config, mutant);
        let is_protected = config.buffer.power_loss_protected;
        host.open_streams(Ordered::new(counted, Epoch(u16::MAX - 2), is_protected, 0)).unwrap();
        host
    }

    pub(super) fn open_streams(&mut self, ordered: Ordered) -> Result<(), String> {
        self.ordered = None;
        self.ssd.acceptances.clear();
        for number in 1..=JOURNAL {
            let action = StreamAction::Open { first: ordered.first };
            let command = Command::StreamManagement { nsid: NamespaceId::ALL, stream: Stream(number), action };
            let (cid, request) = (CommandId(u16::MAX), RequestId(0));
            self.ssd.submit(self.now, Submission { queue: QueueId(1), cid, command, data: None, request });
            let mut done = Vec::new();
            while done.is_empty() {
                self.now = self.ssd.next_event().ok_or("a stream is never opened")?;
                self.ssd.advance(self.now, &mut done);
            }
            if !done[0].status.is_success() {
                return Err(format!("stream {number} is not opened: {:?}", done[0]));
            }
        }
        self.ordered = Some(ordered);
        Ok(())
    }
}

fn ordered_action() -> impl Strategy<Value = Action> {
    let range = (any::<bool>(), any::<u16>(), 1..24_u8);
    let streams = (0..=JOURNAL, any::<bool>(), prop::bool::weighted(0.3), prop::bool::weighted(0.1));
    let write = (range, streams, 1..5_u16, prop::bool::weighted(0.05));
    let ordered = write.prop_map(|((ns, at, blocks), (stream, joins_journal, closes, closes_journal), queue, fua)| {
        Action::Ordered(OrderedWrite { ns, at, blocks, fua, queue, stream, joins_journal, closes, closes_journal })
    });
    let cut = prop_oneof![Just(Choice::Nothing), any::<u64>().prop_map(Choice::Lot)];
    prop_oneof![
        60 => ordered,
        15 => action().prop_filter("cuts are below", |action| !matches!(action, Action::Cut { .. })),
        20 => (0..2500_u16).prop_map(|micros| Action::Wait { micros }),
        2 => Just(Action::Flush),
        3 => cut.prop_map(|survivors| Action::Cut { survivors }),
    ]
}

/// Every option of the others, with room for what is delayed, several queues, and tables of several sizes.
fn ordering() -> Vec<SsdConfig> {
    let mut configs = configs();
    for (number, config) in configs.iter_mut().enumerate() {
        config.order = OrderKind::Streams;
        config.order_tables = OrderTables { streams: JOURNAL.into(), epochs: [1, 2, 64][number % 3] };
        config.arbitration = (number % 4 != 3).then_some(Arbitration { window: Nanos(40_000), seed: number as u64 });
        config.geometry.blocks_per_plane = Some(15);
    }
    configs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_power_cut_leaves_is_legal(
        which in 0..ordering().len(),
        counted: bool,
        actions in prop::collection::vec(ordered_action(), 1..250),
    ) {
        let mut host = Host::ordered(&ordering()[which], counted, None);
        host.run(&actions).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn every_order_survives_a_long_run() {
    let seeds = if std::env::var_os("PLUMB_LONG").is_some() { 200 } else { 4 };
    let (mut delayed, mut late, mut waits) = (0, 0, 0);
    for config in ordering() {
        for seed in 0..seeds {
            let mut host = Host::ordered(&config, seed % 2 == 0, None);
            host.run(&sequence_of(ordered_action(), seed, 1500)).unwrap();
            let counters: BTreeMap<String, u64> = host.ssd.counters().into_iter().collect();
            delayed += counters["order_delayed_bytes"];
            late += counters["order_late_bytes"];
            waits += counters["order_waits"];
        }
    }
    assert!(delayed > 0 && late > 0 && waits > 0, "{delayed} bytes delayed, {late} late, {waits} commands waited");
}

#[test]
fn broken_orders_are_noticed() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let noticed = |mutant| {
        (0..60).any(|seed| {
            let config = &ordering()[usize::from(seed % 3)];
            let actions = sequence_of(ordered_action(), seed, 900);
            let run = || Host::ordered(config, true, Some(mutant)).run(&actions);
            !matches!(catch_unwind(AssertUnwindSafe(run)), Ok(Ok(())))
        })
    };
    let unnoticed: Vec<_> = Mutant::OF_ORDER.into_iter().filter(|mutant| !noticed(*mutant)).collect();
    std::panic::set_hook(hook);
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}
