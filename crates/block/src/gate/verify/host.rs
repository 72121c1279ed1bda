//! The tasks, their journal, and the order that they mean.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crash::order::{EpochId, OrderedLog, Places, Visible};
use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId};
use rand::RngExt;
use sim::rng::stream;
use sim::{Executor, Handle};
use ssd::{Contents, Device, PowerCut, Ssd, Submission, VolatileWrite, Wrapper};
use trace::{Recorder, RequestId};
use units::Nanos;

use super::Case;
use crate::bio::{Bio, BioFlags, BioOp, Closes, OrderRequest, Owner, Sector};
use crate::device::{BioFuture, BlockDevice};

pub(super) const BLOCK: u64 = 4096;
/// Tasks, of two control groups; the journal's task comes behind them.
const TASKS: u32 = 4;
pub(super) const JOURNAL: Owner = Owner { task: TASKS, cgroup: 9 };
/// Blocks that are written at most.
const BLOCKS: u64 = 4000;

/// What a write is in its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Unordered,
    Data { task: u32 },
    Journal,
    Commit,
}

/// A write as its task means it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meant {
    pub role: Role,
    /// Of data its task's epoch; of the rest nothing.
    pub own: u64,
    /// The transaction that it belongs to.
    pub transaction: u64,
}

/// What is meant, and what was promised.
#[derive(Default)]
pub(super) struct Intent {
    pub log: OrderedLog,
    /// Each write, and of each block the write.
    pub writes: Vec<Meant>,
    pub by_block: BTreeMap<u64, usize>,
    next_block: u64,
    transaction: u64,
    committed: u64,
    /// The tasks' data belongs to the journal's transactions.
    joins: bool,
    pub failures: Vec<String>,
    pub fsyncs: u64,
}

impl Intent {
    /// A new write of so many blocks, where nothing was written.
    fn write(&mut self, blocks: u64, role: Role, own: u64) -> (usize, Bio) {
        let place = |stream: u64, epoch| Some(EpochId { stream, epoch, is_late: false });
        // Without a tie no record follows it.
        let is_tied = self.joins || !matches!(role, Role::Data { .. });
        let transaction = if is_tied { self.transaction } else { u64::MAX };
        let places: Places = match role {
            Role::Unordered => [None, None],
            Role::Data { task } if !self.joins => [place(task.into(), own), None],
            Role::Data { task } => [place(task.into(), own), place(JOURNAL.task.into(), transaction)],
            Role::Journal => [None, place(JOURNAL.task.into(), transaction)],
            // The record comes after everything of its transaction.
            Role::Commit => [None, place(JOURNAL.task.into(), transaction + 1)],
        };
        let first = self.next_block;
        self.next_block += blocks;
        let number = self.log.accept(first..first + blocks, places);
        self.writes.push(Meant { role, own, transaction });
        self.by_block.extend((first..first + blocks).map(|block| (block, number)));
        let mut data = vec![0; (blocks * BLOCK) as usize];
        data.chunks_mut(BLOCK as usize)
            .for_each(|block| block[..8].copy_from_slice(&(number as u64 + 1).to_le_bytes()));
        let bio = Bio {
            nsid: NamespaceId::FIRST,
            op: BioOp::Write,
            sector: Sector(first * BLOCK / Sector::BYTES),
            bytes: blocks * BLOCK,
            flags: BioFlags::SYNC,
            data: Some(data.into()),
            order: None,
            request: RequestId::default(),
        };
        (number, bio)
    }
}

/// The commands that reached the device.
struct Seen {
    device: Box<dyn Device>,
    commands: Rc<RefCell<Vec<(QueueId, Command)>>>,
}

impl Wrapper for Seen {
    fn inner(&self) -> &dyn Device {
        self.device.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        self.device.as_mut()
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        self.commands.borrow_mut().push((submission.queue, submission.command.clone()));
        self.device.submit(now, submission);
    }
}

/// A run to a power cut.
pub(super) struct Run {
    executor: Executor,
    pub device: BlockDevice,
    pub intent: Rc<RefCell<Intent>>,
    pub commands: Rc<RefCell<Vec<(QueueId, Command)>>>,
    /// What can be read without any of the undecided writes.
    pub durable: Visible,
    cut_at: Nanos,
}

/// What a task needs.
#[derive(Clone)]
struct Task {
    handle: Handle,
    device: BlockDevice,
    intent: Rc<RefCell<Intent>>,
    case: Case,
}

impl Run {
    pub fn new(case: &Case) -> Self {
        let executor = Executor::new_virtual();
        let mut ssd = Ssd::new(&case.device()).unwrap();
        ssd.keep_contents(&Contents::Memory, true).unwrap();
        ssd.recover_from_flash();
        let commands = Rc::new(RefCell::new(Vec::new()));
        let seen = Seen { device: Box::new(ssd), commands: commands.clone() };
        let device = BlockDevice::new(&executor.handle(), Box::new(seen), case.queue(), Recorder::default());
        let intent = Rc::new(RefCell::new(Intent { joins: case.joins, ..Intent::default() }));
        let handle = executor.handle();
        let task = Task { handle: handle.clone(), device: device.clone(), intent: intent.clone(), case: case.clone() };
        for number in 0..TASKS {
            drop(handle.spawn(task.clone().application(number)));
        }
        drop(handle.spawn(task.journal()));
        let cut_at = Nanos(stream(case.seed, "cut").random_range(50_000..12_000_000));
        Self { executor, device, intent, commands, durable: Visible::new(), cut_at }
    }

    /// Runs until the power goes.
    pub fn until_the_cut(&mut self) -> Result<PowerCut, String> {
        self.executor.run_until(self.cut_at);
        if let Some(failure) = self.intent.borrow().failures.first() {
            return Err(failure.clone());
        }
        let cut = self.device.power_cut();
        let now = self.executor.handle().now();
        let blocks = self.intent.borrow().next_block;
        self.device.with_device(|device| {
            for block in 0..blocks {
                let range = LbaRange { start: Lba(block), count: 1 };
                let command = Command::Read { nsid: NamespaceId::FIRST, range, fua: false };
                let (cid, request) = (CommandId(0), RequestId(0));
                let at = device.next_event().unwrap_or(now).max(now);
                device.submit(at, Submission { queue: QueueId(1), cid, command, data: None, request });
                let mut done = Vec::new();
                while done.is_empty() {
                    let Some(at) = device.next_event() else { return };
                    device.advance(at, &mut done);
                }
                if let Some(write) = done[0].data.as_deref().and_then(stamp) {
                    self.durable.insert(block, write);
                }
            }
        });
        Ok(cut)
    }

    /// Runs until every task has written what it wants.
    pub fn until_the_end(&mut self) -> Result<(), String> {
        let waiting = self.executor.run_until(Nanos::from_secs(2));
        let intent = self.intent.borrow();
        match intent.failures.first() {
            Some(failure) => Err(failure.clone()),
            None if waiting > 0 => Err(format!("{waiting} tasks wait for ever")),
            None if intent.fsyncs == 0 => Err("nobody waited for anything".to_owned()),
            None => Ok(()),
        }
    }

    /// An undecided write is there.
    pub fn overlay(&self, write: &VolatileWrite, visible: &mut Visible) {
        let Some(data) = &write.data else { return };
        for (block, bytes) in (write.start.0..).zip(data.chunks(BLOCK as usize)) {
            visible.extend(stamp(bytes).map(|write| (block, write)));
        }
    }

    pub fn check(&self, visible: &Visible) -> Result<(), String> {
        self.intent.borrow().log.check(visible).map_err(|violation| violation.to_string())
    }
}

/// The write that a block is from.
fn stamp(bytes: &[u8]) -> Option<usize> {
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    number.checked_sub(1).map(|number| number as usize)
}

impl Task {
    fn fail(&self, why: String) {
        self.intent.borrow_mut().failures.push(why);
    }

    /// Notes when a write is acknowledged.
    async fn ended(self, number: usize, bio: BioFuture) {
        let status = bio.await.status;
        if status.is_success() {
            self.intent.borrow_mut().log.acknowledge(number);
        } else if status != nvme::Status::ABORTED_POWER_LOSS {
            self.fail(format!("write {number} ended with {status:?}"));
        }
    }

    async fn pause(&self, rng: &mut sim::rng::Rng, most_us: u64) {
        self.handle.sleep(Nanos::from_micros(rng.random_range(0..=most_us))).await;
    }

    /// A task that writes files in batches and has them committed, or only in order.
    async fn application(self, number: u32) {
        let mut rng = stream(self.case.seed, &format!("task {number}"));
        let owner = Owner { task: number, cgroup: number % 2 };
        let joins = self.case.joins.then_some(JOURNAL);
        let mut own = 0;
        let mut cpu = number as u16 % 3;
        loop {
            self.pause(&mut rng, 40).await;
            if self.intent.borrow().next_block > BLOCKS {
                return;
            }
            let batch = rng.random_range(1..6);
            let mut plug = (rng.random_range(0..3) == 0).then(|| self.device.plug(cpu));
            let mut writes = Vec::new();
            let mut last = None;
            for index in 0..batch {
                if plug.is_none() {
                    self.pause(&mut rng, 3).await;
                    if self.case.migrates {
                        cpu = rng.random_range(0..3);
                    }
                }
                let blocks = if rng.random_range(0..6) == 0 { 5 } else { rng.random_range(1..3) };
                let is_ordered = index + 1 == batch || rng.random_range(0..8) > 0;
                let role = if is_ordered { Role::Data { task: number } } else { Role::Unordered };
                let (write, bio) = self.intent.borrow_mut().write(blocks, role, own);
                let closes = if index + 1 == batch { Closes::OWN } else { Closes::empty() };
                let order = is_ordered.then_some(OrderRequest { owner, joins, closes });
                let bio = Bio { order, ..bio };
                let mut future = match &mut plug {
                    Some(plug) => plug.submit(bio),
                    None => self.device.submit(cpu, bio),
                };
                if index + 1 < batch {
                    writes.push(self.handle.spawn(self.clone().ended(write, future)));
                } else {
                    drop(plug.take());
                    // fdatabarrier goes on when the last write has left.
                    future.dispatched().await;
                    last = Some(self.handle.spawn(self.clone().ended(write, future)));
                }
            }
            own += 1;
            if rng.random_range(0..3) == 0 {
                continue;
            }
            // fsync: the transaction, the data, and one flush.
            let transaction = self.intent.borrow().transaction;
            while self.case.joins && self.intent.borrow().committed <= transaction {
                self.handle.sleep(Nanos::from_micros(20)).await;
                if self.intent.borrow().next_block > BLOCKS {
                    return;
                }
            }
            for write in writes.into_iter().chain(last) {
                write.await;
            }
            let flush = self.intent.borrow_mut().log.flush_begins();
            let bio = Bio { flags: BioFlags::PREFLUSH, bytes: 0, data: None, ..self.empty() };
            if self.device.submit(cpu, bio).await.status.is_success() {
                let mut intent = self.intent.borrow_mut();
                intent.log.flush_ends(flush);
                intent.fsyncs += 1;
            }
        }
    }

    fn empty(&self) -> Bio {
        Bio {
            nsid: NamespaceId::FIRST,
            op: BioOp::Write,
            sector: Sector(0),
            bytes: 0,
            flags: BioFlags::empty(),
            data: None,
            order: None,
            request: RequestId::default(),
        }
    }

    /// Commits now and then: blocks of the journal, the last of which closes the transaction's epoch, and the record in the next.
    async fn journal(self) {
        let mut rng = stream(self.case.seed, "journal");
        loop {
            self.pause(&mut rng, 100).await;
            let cpu = rng.random_range(0..3);
            let mut writes = Vec::new();
            let blocks = rng.random_range(1..4);
            for index in 0..blocks {
                let is_last = index + 1 == blocks;
                let closes = if is_last { Closes::OWN } else { Closes::empty() };
                let (number, bio) = self.intent.borrow_mut().write(rng.random_range(1..4), Role::Journal, 0);
                let order = Some(OrderRequest { owner: JOURNAL, joins: None, closes });
                let future = self.device.submit(cpu, Bio { order, ..bio });
                writes.push(self.handle.spawn(self.clone().ended(number, future)));
                if !is_last {
                    self.pause(&mut rng, 5).await;
                }
            }
            let (number, bio) = self.intent.borrow_mut().write(1, Role::Commit, 0);
            let order = Some(OrderRequest { owner: JOURNAL, joins: None, closes: Closes::empty() });
            let record = self.device.submit(cpu, Bio { order, ..bio });
            writes.push(self.handle.spawn(self.clone().ended(number, record)));
            self.intent.borrow_mut().transaction += 1;
            for write in writes {
                write.await;
            }
            let mut intent = self.intent.borrow_mut();
            intent.committed += 1;
            if intent.next_block > BLOCKS {
                return;
            }
        }
    }
}
