//! The host, its log, and the judge of what is left.
//!
//! A transaction writes data (D) in the application's stream and in the journal's, descriptor and metadata blocks (JD) in the
//! journal's, which the last of them closes, and the commit record (JC) in the next epoch of the journal; then it flushes. Each
//! block of the log says of which transaction it is and which it is in it.

use crash::order::{Closing, OrderTuple, WirePlace};
use crash::{Amount, Content, Event, Log, LoggedWrite, Moments, Rule, StatePlan, Survivors, WriteId};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use units::Nanos;

pub const BLOCK: u32 = 4096;
/// Blocks of a transaction's data, of its descriptor and metadata, and its commit record; each has a place of its own.
const DATA: u64 = 3;
const METADATA: u64 = 2;
const COMMIT: u64 = 1;
const BLOCKS: u64 = DATA + METADATA + COMMIT;
/// Each transaction has new places, so that nothing but order tells whether a commit is whole.
const APPLICATION: u16 = 3;
const JOURNAL: u16 = 1;

/// How epochs are closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// By arrival, all in one queue.
    Pinned,
    /// Counted, from two queues.
    Counted,
}

/// What a host does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// Data is not in the journal's stream.
    NoMinorStream,
    /// The commit record is in the epoch of its descriptor.
    CommitBeforeDescriptor,
    /// The journal's epoch is closed by the first part of a write that was split.
    CloseOnFirstFragment,
    /// The last metadata block and the commit record are one write.
    MergeAcrossTuples,
    /// The flush is sent while data is under way.
    FlushBeforeDataCompletes,
    /// Neither order nor FUA.
    NoOrderAtAll,
    /// Epochs closed by arrival, from two queues.
    Unpinned,
}

/// What a host commits.
pub struct Host {
    pub policy: Policy,
    pub transactions: u64,
    pub mistake: Option<Mistake>,
    pub seed: u64,
}

/// A log, and when each transaction's fsync returned, in entries.
pub struct Played {
    pub log: Log,
    returned: Vec<usize>,
}

struct Player {
    log: Log,
    under_way: Vec<WriteId>,
}

/// What a block says: its transaction and its number in it, from 1.
fn block_of(transaction: u64, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK as usize];
    bytes[..8].copy_from_slice(&(transaction * BLOCKS + number + 1).to_le_bytes());
    bytes
}

impl Player {
    fn push(&mut self, event: Event) {
        let at = Nanos(self.log.entries().len() as u64);
        self.log.push(at, event).unwrap();
    }

    fn write(&mut self, transaction: u64, blocks: std::ops::Range<u64>, order: OrderTuple) {
        let id = self.log.next_write();
        let offset_bytes = (transaction * BLOCKS + blocks.start) * u64::from(BLOCK);
        let bytes: Vec<u8> = blocks.flat_map(|number| block_of(transaction, number)).collect();
        self.push(Event::Write { id, offset_bytes, content: Content::Bytes(bytes.into()), fua: false, order });
        self.under_way.push(id);
    }

    fn complete_all(&mut self, random: &mut Xoshiro256PlusPlus) {
        while !self.under_way.is_empty() {
            let done = self.under_way.swap_remove(random.random_range(0..self.under_way.len()));
            self.push(Event::Completed(done));
        }
    }
}

impl Host {
    /// What the device's log has of it.
    pub fn play(&self) -> Played {
        let Self { policy, transactions, mistake, seed } = *self;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let log = Log::new((transactions * BLOCKS).next_multiple_of(16) * u64::from(BLOCK), BLOCK).unwrap();
        let mut player = Player { log, under_way: Vec::new() };
        for stream in [APPLICATION, JOURNAL] {
            player.push(Event::StreamOpened { stream, first: 0 });
        }
        let mut returned = Vec::new();
        let is = |one: Mistake| mistake == Some(one);
        for transaction in 0..transactions {
            let at = |stream: u16, epoch: u64| WirePlace { stream, epoch: epoch as u16 };
            let close = |first: u64, second: u64| match policy {
                Policy::Pinned => Closing::ByArrival,
                Policy::Counted => Closing::Counted { first_blocks: first as u32, second_blocks: second as u32 },
            };
            let other_queue = if policy == Policy::Counted || is(Mistake::Unpinned) { 2 } else { 1 };
            // Two epochs of the journal each transaction: {D, JD}, then JC.
            let (journal, none) = (transaction * 2, WirePlace::default());
            let minor = if is(Mistake::NoMinorStream) { none } else { at(JOURNAL, journal) };
            let in_epoch = if is(Mistake::NoMinorStream) { METADATA } else { DATA + METADATA };
            for number in 0..DATA {
                let (first, second) = (at(APPLICATION, transaction), minor);
                let is_last = number + 1 == DATA;
                // By arrival a barrier closes both: the application's epoch is left open there.
                let closing = if is_last && policy == Policy::Counted { close(DATA, 0) } else { Closing::None };
                let epoch = if policy == Policy::Pinned { at(APPLICATION, 0) } else { first };
                let order = OrderTuple { queue: other_queue, first: epoch, second, closing };
                player.write(transaction, number..number + 1, order);
            }
            let descriptor = |closing| OrderTuple { queue: 1, first: at(JOURNAL, journal), second: none, closing };
            let commit_epoch = if is(Mistake::CommitBeforeDescriptor) { journal } else { journal + 1 };
            let commit = OrderTuple { first: at(JOURNAL, commit_epoch), ..descriptor(close(1, 0)) };
            let first = DATA..DATA + 1;
            let last = DATA + 1..DATA + METADATA;
            let record = DATA + METADATA..BLOCKS;
            match mistake {
                Some(Mistake::MergeAcrossTuples) => {
                    player.write(transaction, first, descriptor(Closing::None));
                    player.write(transaction, last.start..record.end, descriptor(close(in_epoch + COMMIT, 0)));
                }
                Some(Mistake::CloseOnFirstFragment) => {
                    player.write(transaction, first, descriptor(close(in_epoch - 1, 0)));
                    player.write(transaction, record, commit);
                    player.write(transaction, last, descriptor(Closing::None));
                }
                Some(Mistake::CommitBeforeDescriptor) => {
                    player.write(transaction, record, OrderTuple { closing: Closing::None, ..commit });
                    player.write(transaction, first, descriptor(Closing::None));
                    player.write(transaction, last, descriptor(close(in_epoch + COMMIT, 0)));
                }
                Some(Mistake::NoOrderAtAll) => {
                    for range in [first, last, record] {
                        player.write(transaction, range, OrderTuple::NONE);
                    }
                }
                // Counted, the device does not mind which comes first.
                _ if policy == Policy::Counted && random.random_bool(0.5) => {
                    player.write(transaction, record, commit);
                    player.write(transaction, last, descriptor(close(in_epoch, 0)));
                    player.write(transaction, first, descriptor(Closing::None));
                }
                _ => {
                    player.write(transaction, first, descriptor(Closing::None));
                    player.write(transaction, last, descriptor(close(in_epoch, 0)));
                    player.write(transaction, record, commit);
                }
            }
            let has_one_epoch = is(Mistake::MergeAcrossTuples) || is(Mistake::CommitBeforeDescriptor);
            if has_one_epoch {
                // The journal's next epoch has nothing in it but what keeps the numbers right.
                let filler = OrderTuple { first: at(JOURNAL, journal + 1), ..descriptor(close(COMMIT, 0)) };
                player.write(transaction, BLOCKS - 1..BLOCKS, filler);
            }
            if !is(Mistake::FlushBeforeDataCompletes) {
                player.complete_all(&mut random);
            }
            let flush = player.log.next_flush();
            player.push(Event::FlushSubmitted(flush));
            player.complete_all(&mut random);
            player.push(Event::FlushCompleted(flush));
            returned.push(player.log.entries().len());
        }
        Played { log: player.log, returned }
    }
}

impl Played {
    /// Judges what each of these states has: a commit record that can be read has everything of its transaction, and a transaction
    /// whose fsync had returned is there.
    pub fn each_state(&self, rule: &impl Rule, amount: Amount, mut each: impl FnMut(Result<(), String>)) -> StatePlan {
        let plan = StatePlan::new(&self.log, rule, 0, BLOCK, amount);
        let mut durable = vec![0_u64; (self.log.capacity_bytes() / u64::from(BLOCK)) as usize];
        let mut moments = Moments::new(&self.log, rule.clone());
        let mut states = plan.states.iter().peekable();
        let mut moment = 0;
        while moments.advance() {
            for write in moments.settled() {
                write.whole().iter().for_each(|piece| put(&mut durable, piece));
            }
            let undecided = moments.undecided();
            while let Some(state) = states.next_if(|state| state.moment == moment) {
                let blocks = with(&durable, &undecided, &state.survivors);
                each(self.judge(&blocks, state.until));
            }
            moment += 1;
        }
        plan
    }

    /// Of the first bad state, how many lost parts are enough.
    pub fn smallest(&self, rule: &impl Rule, amount: Amount) -> Option<usize> {
        let plan = StatePlan::new(&self.log, rule, 0, BLOCK, amount);
        let mut durable = vec![0_u64; (self.log.capacity_bytes() / u64::from(BLOCK)) as usize];
        let mut moments = Moments::new(&self.log, rule.clone());
        let mut moment = 0;
        while moments.advance() {
            for write in moments.settled() {
                write.whole().iter().for_each(|piece| put(&mut durable, piece));
            }
            let (undecided, order) = (moments.undecided(), moments.part_order(BLOCK));
            let is_bad = |survivors: &Survivors, until: usize| {
                let is_legal = order.as_ref().is_none_or(|order| order.allows(survivors));
                is_legal && self.judge(&with(&durable, &undecided, survivors), until).is_err()
            };
            for state in plan.states.iter().filter(|state| state.moment == moment) {
                if is_bad(&state.survivors, state.until) {
                    let groups: Vec<_> = (0..state.survivors.parts()).map(|part| part..part + 1).collect();
                    let shrunk =
                        crash::shrink(&state.survivors, &groups, 1000, |survivors| is_bad(survivors, state.until));
                    assert!(shrunk.minimal && is_bad(&shrunk.survivors, state.until));
                    return Some(shrunk.survivors.lost());
                }
            }
            moment += 1;
        }
        None
    }

    fn judge(&self, blocks: &[u64], until: usize) -> Result<(), String> {
        for (transaction, returned) in (0..).zip(&self.returned) {
            let first = transaction * BLOCKS;
            let has = |number: u64| blocks.get((first + number) as usize) == Some(&(first + number + 1));
            let is_committed = has(BLOCKS - 1);
            if !is_committed && *returned <= until {
                return Err(format!("transaction {transaction} was durable and is gone"));
            }
            if let Some(missing) = (0..BLOCKS).find(|number| is_committed && !has(*number)) {
                return Err(format!("transaction {transaction} is committed without its block {missing}"));
            }
        }
        Ok(())
    }
}

fn put(blocks: &mut [u64], piece: &crash::Piece<'_>) {
    let first = (piece.offset_bytes / u64::from(BLOCK)) as usize;
    let bytes = piece.bytes().unwrap_or_default().chunks(BLOCK as usize);
    for (block, bytes) in blocks.iter_mut().skip(first).zip(bytes) {
        *block = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    }
}

fn with(durable: &[u64], undecided: &[&LoggedWrite], survivors: &Survivors) -> Vec<u64> {
    let mut blocks = durable.to_vec();
    survivors.pieces(undecided, BLOCK).iter().for_each(|piece| put(&mut blocks, piece));
    blocks
}
