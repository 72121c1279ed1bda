//! Ordered writes through the queue: what reaches the device, what returns when, and what becomes of streams that break, end, are too
//! many or that the device does not keep.

use std::cell::RefCell;
use std::num::{NonZeroU16, NonZeroU32};
use std::rc::Rc;

use crate::support::{Bench, bio, wait, write, write_with};
use block::{
    Bio, BioFlags, BioOp, BlockDevice, Closes, EpochKind, OrderRequest, Ordering, Owner, QueueConfig, SchedulerKind,
    StreamPolicyKind, StreamsConfig,
};
use nvme::{Closing, Command, Status, StreamAction, WriteCommand};
use sim::Executor;
use ssd::config::OrderKind;
use ssd::faults::{Effect, Fault, FaultPlan, FaultyDevice};
use ssd::{Device, Ssd, SsdConfig, Submission, Wrapper};
use trace::Recorder;
use units::{ByteSize, Nanos};

const JOURNAL: Owner = Owner { task: 100, cgroup: 0 };

/// The commands that reach the device.
struct Seen {
    device: Box<dyn Device>,
    commands: Rc<RefCell<Vec<(u16, Command)>>>,
}

impl Wrapper for Seen {
    fn inner(&self) -> &dyn Device {
        self.device.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        self.device.as_mut()
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        self.commands.borrow_mut().push((submission.queue.0, submission.command.clone()));
        self.device.submit(now, submission);
    }
}

struct Rig {
    executor: Executor,
    device: BlockDevice,
    commands: Rc<RefCell<Vec<(u16, Command)>>>,
    faults: FaultPlan,
}

impl Rig {
    fn new(order: OrderKind, config: QueueConfig) -> Self {
        Self::with(order, config, |_| ())
    }

    fn with(order: OrderKind, config: QueueConfig, change: impl FnOnce(&mut SsdConfig)) -> Self {
        let executor = Executor::new_virtual();
        let mut ssd = SsdConfig::reference();
        ssd.namespaces = vec![ByteSize(1 << 30)];
        ssd.order = order;
        change(&mut ssd);
        let faults = FaultPlan::default();
        let device = FaultyDevice::new(Box::new(Ssd::new(&ssd).unwrap()), faults.clone());
        let commands = Rc::new(RefCell::new(Vec::new()));
        let device = Seen { device: Box::new(device), commands: commands.clone() };
        let device = BlockDevice::new(&executor.handle(), Box::new(device), config, Recorder::default());
        Self { executor, device, commands, faults }
    }

    /// The commands since the last look, in words.
    fn said(&self) -> Vec<String> {
        let said = |(queue, command): &(u16, Command)| match command {
            Command::Write(WriteCommand { range, fua, order, .. }) => {
                let place = |at: nvme::StreamEpoch| format!("{}.{}", at.stream.0, at.epoch.0);
                let mut text = format!("q{queue} W {}+{}", range.start.0, range.count);
                if order.is_ordered() {
                    text += &format!(" {}", place(order.first));
                }
                if order.second.stream.0 > 0 {
                    text += &format!("/{}", place(order.second));
                }
                match order.closing {
                    Closing::None => {}
                    Closing::ByArrival => text += " closes",
                    Closing::Counted { first_blocks, second_blocks } => {
                        text += &format!(" closes {first_blocks}/{second_blocks}");
                    }
                }
                text + if *fua { " fua" } else { "" }
            }
            Command::StreamManagement { stream, action: StreamAction::Open { first }, .. } => {
                format!("open {}.{}", stream.0, first.0)
            }
            Command::StreamManagement { stream, .. } => format!("close {}", stream.0),
            Command::Flush { .. } => "F".to_owned(),
            other => format!("{other:?}"),
        };
        self.commands.borrow_mut().drain(..).map(|command| said(&command)).collect()
    }
}

fn config(ordering: Ordering, policy: StreamPolicyKind, epochs: EpochKind) -> QueueConfig {
    QueueConfig {
        scheduler: Some(SchedulerKind::None),
        cpus: const { NonZeroU16::new(4).unwrap() },
        ordering,
        streams: StreamsConfig { policy, epochs },
        ..QueueConfig::default()
    }
}

fn counted() -> QueueConfig {
    config(Ordering::Streams, StreamPolicyKind::Task, EpochKind::Counted)
}

fn owner(task: u32) -> Owner {
    Owner { task, cgroup: task % 2 }
}

/// A write of a task's file: in the journal's stream, too.
fn data(task: u32, block: u64, blocks: u64, closes: Closes) -> Bio {
    let order = OrderRequest { owner: owner(task), joins: Some(JOURNAL), closes };
    Bio { order: Some(order), ..write(block, blocks) }
}

fn journal(block: u64, blocks: u64, closes: Closes) -> Bio {
    Bio { order: Some(OrderRequest { owner: JOURNAL, joins: None, closes }), ..write(block, blocks) }
}

/// One fsync: data, two blocks of the journal, the record.
fn fsync(rig: &mut Rig) -> Vec<String> {
    let none = Closes::empty();
    let bios = [(0, data(1, 0, 2, Closes::OWN)), (1, journal(100, 1, none)), (1, journal(110, 1, Closes::OWN))];
    let mut futures: Vec<_> = bios.into_iter().map(|(cpu, bio)| rig.device.submit(cpu, bio)).collect();
    futures.push(rig.device.submit(1, journal(120, 1, none)));
    assert!(wait(&mut rig.executor, futures).iter().all(|result| result.status.is_success()));
    rig.said()
}

#[test]
fn one_fsync_on_the_wire() {
    let mut rig = Rig::new(OrderKind::Streams, counted());
    let first = ["open 1.0", "open 2.0", "q1 W 0+2 1.0/2.0 closes 2/0", "q2 W 100+1 2.0", "q2 W 110+1 2.0 closes 4/0"];
    assert_eq!(fsync(&mut rig), [&first[..], &["q2 W 120+1 2.1"]].concat());
    let again = ["q1 W 0+2 1.1/2.1 closes 2/0", "q2 W 100+1 2.1", "q2 W 110+1 2.1 closes 5/0", "q2 W 120+1 2.2"];
    assert_eq!(fsync(&mut rig), again);
    // By arrival a barrier closes the epochs of both streams, as published.
    let mut rig = Rig::new(OrderKind::Streams, config(Ordering::Streams, StreamPolicyKind::Task, EpochKind::Pinned));
    let first = ["open 1.0", "open 2.0", "q1 W 0+2 1.0/2.0 closes", "q2 W 100+1 2.1", "q2 W 110+1 2.1 closes"];
    assert_eq!(fsync(&mut rig), [&first[..], &["q2 W 120+1 2.2"]].concat());
    // One stream for all.
    let mut rig = Rig::new(OrderKind::Streams, config(Ordering::Streams, StreamPolicyKind::One, EpochKind::Counted));
    let one = ["open 1.0", "q1 W 0+2 1.0 closes 2/0", "q2 W 100+1 1.1", "q2 W 110+1 1.1 closes 2/0", "q2 W 120+1 1.2"];
    assert_eq!(fsync(&mut rig), one);
    // One sequence through one queue.
    let barrier = config(Ordering::BarrierSingleQueue, StreamPolicyKind::Task, EpochKind::Counted);
    let mut rig = Rig::new(OrderKind::Streams, barrier);
    let one = ["open 1.0", "q1 W 0+2 1.0 closes", "q1 W 100+1 1.1", "q1 W 110+1 1.1 closes", "q1 W 120+1 1.2"];
    assert_eq!(fsync(&mut rig), one);
    assert_eq!(rig.device.hardware_queues(), 1);
}

#[test]
fn control_groups_share_a_stream() {
    let mut rig = Rig::new(OrderKind::Streams, config(Ordering::Streams, StreamPolicyKind::Cgroup, EpochKind::Counted));
    let order = |task| Some(OrderRequest { owner: owner(task), joins: None, closes: Closes::OWN });
    let bios: Vec<_> =
        (1..4).map(|task| rig.device.submit(0, Bio { order: order(task), ..write(u64::from(task) * 10, 1) })).collect();
    wait(&mut rig.executor, bios);
    let said =
        ["open 1.0", "open 2.0", "q1 W 10+1 1.0 closes 1/0", "q1 W 30+1 1.1 closes 1/0", "q1 W 20+1 2.0 closes 1/0"];
    assert_eq!(rig.said(), said);
}

#[test]
fn an_epoch_stays_where_it_began() {
    let mut rig = Rig::new(OrderKind::Streams, config(Ordering::Streams, StreamPolicyKind::Task, EpochKind::Pinned));
    let order = |closes| Some(OrderRequest { owner: owner(1), joins: None, closes });
    let sent = [(2, Closes::empty()), (3, Closes::empty()), (0, Closes::OWN), (1, Closes::OWN)];
    let bios: Vec<_> = sent
        .into_iter()
        .zip([10, 20, 30, 40])
        .map(|((cpu, closes), block)| rig.device.submit(cpu, Bio { order: order(closes), ..write(block, 1) }))
        .collect();
    wait(&mut rig.executor, bios);
    let said = ["open 1.0", "q3 W 10+1 1.0", "q3 W 20+1 1.0", "q3 W 30+1 1.0 closes", "q2 W 40+1 1.1 closes"];
    assert_eq!(rig.said(), said);
}

#[test]
fn the_last_part_closes() {
    let config = QueueConfig { max_sectors_kb: NonZeroU32::new(8), ..counted() };
    let mut rig = Rig::new(OrderKind::Streams, config);
    let order = Some(OrderRequest { owner: owner(1), joins: None, closes: Closes::OWN });
    let bio = rig.device.submit(0, Bio { order, ..write(0, 5) });
    wait(&mut rig.executor, vec![bio]);
    assert_eq!(rig.said(), ["open 1.0", "q1 W 0+2 1.0", "q1 W 2+2 1.0", "q1 W 4+1 1.0 closes 5/0"]);
}

#[test]
fn neighbours_merge_within_an_epoch_alone() {
    let mut rig = Rig::new(OrderKind::Streams, counted());
    // Opens the streams.
    let first = rig.device.submit(0, data(1, 500, 1, Closes::OWN));
    wait(&mut rig.executor, vec![first]);
    rig.said();
    let none = Closes::empty();
    let mut plug = rig.device.plug(0);
    let bios = vec![
        plug.submit(data(1, 0, 1, none)),
        plug.submit(data(1, 1, 1, none)),
        plug.submit(write(2, 1)),
        plug.submit(data(1, 3, 1, none)),
        plug.submit(journal(4, 1, none)),
        plug.submit(data(1, 5, 1, Closes::OWN)),
        plug.submit(data(1, 6, 1, Closes::OWN)),
    ];
    plug.finish();
    wait(&mut rig.executor, bios);
    let said = [
        "q1 W 0+2 1.1/2.0",
        "q1 W 2+1",
        "q1 W 3+1 1.1/2.0",
        "q1 W 4+1 2.0",
        "q1 W 5+1 1.1/2.0 closes 4/0",
        "q1 W 6+1 1.2/2.0 closes 1/0",
    ];
    assert_eq!(rig.said(), said);
}

/// fbarrier and fdatabarrier return at dispatch, fsync at the end.
#[test]
fn dispatch_is_before_the_end() {
    for ordering in Ordering::ALL {
        let mut rig = Rig::new(OrderKind::Streams, config(ordering, StreamPolicyKind::Task, EpochKind::Counted));
        let (device, handle) = (rig.device.clone(), rig.executor.handle());
        let times = Rc::new(RefCell::new(Vec::new()));
        let sink = times.clone();
        drop(rig.executor.handle().spawn(async move {
            for round in 0..3 {
                let mut bio = device.submit(0, data(1, round * 1000, 400, Closes::OWN));
                bio.dispatched().await;
                let dispatched = handle.now();
                assert!(bio.await.status.is_success());
                sink.borrow_mut().push((dispatched, handle.now()));
            }
            // A bio without order is waited for to its end.
            let mut bio = device.submit(0, write(5000, 1));
            bio.dispatched().await;
            assert!(handle.now() > sink.borrow()[2].1);
            assert!(bio.await.status.is_success());
        }));
        assert_eq!(rig.executor.run(), 0);
        assert_eq!(times.borrow().len(), 3, "{ordering:?}");
        assert!(times.borrow().iter().all(|(dispatched, ended)| dispatched < ended), "{ordering:?}: {times:?}");
    }
}

#[test]
fn a_device_without_order_gets_flushes() {
    let mut rig = Rig::new(OrderKind::None, counted());
    let force = rig.device.ordering();
    assert_eq!((force.ordering, force.fallback), (Ordering::Flush, Some("the device keeps no order")));
    assert_eq!(fsync(&mut rig), ["q1 W 0+2", "q2 W 100+1", "q2 W 110+1", "F", "q2 W 120+1"]);
    let said = fsync(&mut rig);
    // The data's stream needs a flush, and the journal's had one.
    assert_eq!(said, ["F", "q2 W 100+1", "q2 W 110+1", "q1 W 0+2", "F", "q2 W 120+1"]);
    let statistics = rig.device.order_statistics();
    assert_eq!((statistics.bios, statistics.by_waiting, statistics.stream_commands), (8, 8, 0));
    // A protected cache needs no flush, and order is kept by waiting alone.
    let mut rig = Rig::with(OrderKind::None, counted(), |ssd| ssd.buffer.power_loss_protected = true);
    assert_eq!(fsync(&mut rig), ["q1 W 0+2", "q2 W 100+1", "q2 W 110+1", "q2 W 120+1"]);
    assert_eq!(Rig::new(OrderKind::Streams, counted()).device.ordering().fallback, None);
}

#[test]
fn fua_is_left_out_where_it_is_not_wanted() {
    let record = || write_with(0, 1, BioFlags::PREFLUSH | BioFlags::FUA);
    for (ordering, said) in
        [(Ordering::Flush, &["F", "q1 W 0+1 fua"][..]), (Ordering::FlushNoFua, &["F", "q1 W 0+1", "F"])]
    {
        let config = config(ordering, StreamPolicyKind::Task, EpochKind::Counted);
        let mut rig = Rig::new(OrderKind::None, config);
        let bio = rig.device.submit(0, record());
        assert!(wait(&mut rig.executor, vec![bio])[0].status.is_success());
        assert_eq!(rig.said(), said);
    }
}

/// A write of the first task fails at the device.
fn fail_one(rig: &mut Rig) {
    let fault = Fault { times: Some(1), ..Fault::new(Effect::error(Status::WRITE_FAULT)).on(0, 1) };
    rig.faults.inject(fault).unwrap();
    let failed = rig.device.submit(0, data(1, 0, 1, Closes::OWN));
    assert!(!wait(&mut rig.executor, vec![failed])[0].status.is_success());
    rig.said();
}

#[test]
fn a_stream_whose_write_failed_waits_until_it_is_opened_again() {
    let mut rig = Rig::new(OrderKind::Streams, counted());
    fsync(&mut rig);
    fail_one(&mut rig);
    // Both its streams: what the one cannot promise the other cannot, either.
    let said = fsync(&mut rig);
    assert_eq!(said, ["F", "F", "q1 W 0+2", "q2 W 100+1", "F", "q2 W 110+1", "F", "q2 W 120+1"]);
    assert_eq!(rig.device.order_statistics().broken, 2);
    rig.device.restore_order();
    let said = fsync(&mut rig);
    assert_eq!(said[..4], ["F", "F", "close 1", "close 2"].map(str::to_owned), "{said:?}");
    assert!(said[4].starts_with("open 1.") && said[5].starts_with("open 2."), "{said:?}");
    assert!(said.iter().skip(6).all(|line| line.contains(" W ") && line.contains('.')), "{said:?}");
    assert_eq!(said.len(), 10);
}

#[test]
fn barriers_wait_after_a_failure_too() {
    let config = config(Ordering::BarrierSingleQueue, StreamPolicyKind::Task, EpochKind::Counted);
    let mut rig = Rig::new(OrderKind::Streams, config);
    fsync(&mut rig);
    fail_one(&mut rig);
    let said = fsync(&mut rig);
    assert_eq!(said, ["F", "q1 W 0+2", "F", "q1 W 100+1", "F", "q1 W 110+1", "F", "q1 W 120+1"]);
    rig.device.restore_order();
    let said = fsync(&mut rig);
    assert_eq!(said[..2], ["F", "close 1"].map(str::to_owned));
    assert!(said[2].starts_with("open 1.") && said[3].ends_with(" closes"), "{said:?}");
}

#[test]
fn owners_share_a_stream_where_the_device_has_no_more() {
    let mut rig = Rig::with(OrderKind::Streams, counted(), |ssd| ssd.order_tables.streams = 2);
    let order = |task| Some(OrderRequest { owner: owner(task), joins: None, closes: Closes::OWN });
    let submit = |rig: &mut Rig, task: u32| {
        let bio = rig.device.submit(0, Bio { order: order(task), ..write(u64::from(task), 1) });
        assert!(wait(&mut rig.executor, vec![bio])[0].status.is_success());
        rig.said().pop().unwrap()
    };
    let said: Vec<_> = (1..4).map(|task| submit(&mut rig, task)).collect();
    assert_eq!(said, ["q1 W 1+1 1.0 closes 1/0", "q1 W 2+1 2.0 closes 1/0", "q1 W 3+1 2.1 closes 1/0"]);
    // The end of one of two leaves the other its stream; the end of both frees it.
    rig.device.end_owner(owner(3));
    assert_eq!(submit(&mut rig, 2), "q1 W 2+1 2.2 closes 1/0");
    rig.device.end_owner(owner(2));
    rig.executor.run();
    assert_eq!(rig.said(), ["close 2"]);
    assert_eq!(submit(&mut rig, 4), "q1 W 4+1 2.0 closes 1/0");
}

#[test]
fn a_power_cut_closes_every_stream() {
    for ordering in [Ordering::Streams, Ordering::BarrierSingleQueue] {
        let mut rig = Rig::new(OrderKind::Streams, config(ordering, StreamPolicyKind::Task, EpochKind::Counted));
        let first = fsync(&mut rig);
        let mut futures = vec![rig.device.submit(0, data(1, 0, 1, Closes::OWN)), rig.device.submit(0, write(7, 1))];
        futures.push(rig.device.submit(1, journal(100, 1, Closes::OWN)));
        rig.device.power_cut();
        let results = wait(&mut rig.executor, futures);
        assert!(results.iter().all(|result| result.status == Status::ABORTED_POWER_LOSS));
        rig.device.power_on();
        rig.said();
        assert_eq!(fsync(&mut rig), first, "{ordering:?}");
    }
}

#[test]
fn identifiers_wrap() {
    let mut rig = Rig::new(OrderKind::Streams, counted());
    let device = rig.device.clone();
    drop(rig.executor.handle().spawn(async move {
        for epoch in 0..70_000_u64 {
            let order = Some(OrderRequest { owner: owner(1), joins: None, closes: Closes::OWN });
            let mut bio = device.submit(0, Bio { order, ..write(epoch % 1000, 1) });
            if epoch % 64 == 0 {
                assert!(bio.await.status.is_success());
            } else {
                bio.dispatched().await;
            }
        }
    }));
    assert_eq!(rig.executor.run(), 0);
    assert_eq!(rig.device.order_statistics().epochs, 70_000);
    let said = rig.said();
    assert!(said[1 + 65_536].contains(" 1.0 closes"), "{}", said[1 + 65_536]);
}

#[test]
fn order_is_of_writes_alone() {
    let mut bench = Bench::new(QueueConfig::default());
    let order = Some(OrderRequest { owner: owner(1), joins: None, closes: Closes::OWN });
    for wrong in [
        bio(BioOp::Read, 0, 1, BioFlags::empty()),
        bio(BioOp::Discard, 0, 1, BioFlags::empty()),
        bio(BioOp::WriteZeroes, 0, 1, BioFlags::empty()),
        bio(BioOp::Write, 0, 0, BioFlags::PREFLUSH),
        bio(BioOp::Write, 0, 1, BioFlags::PASSTHROUGH),
    ] {
        let future = bench.device.submit(0, Bio { order, ..wrong });
        assert_eq!(bench.wait(vec![future])[0].status, Status::INVALID_FIELD);
    }
}
