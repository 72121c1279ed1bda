//! Ordered writes over NVMe/TCP, by a host of our own: what is said of order, who waits for whom, and what becomes of streams when
//! controllers, queues, hosts and the power go.

use crate::initiator::served::Served;
use crate::initiator::{Host, LBA_BYTES, Queue, Wish, flush_entry, write_entry};
use nvme::tcp::Digests;
use nvme::{
    AdminOpcode, Closing, Command, CommandId, Epoch, FabricsCommand, IdentifyController, NamespaceId,
    OrderingCapability, Property, Status, Stream, StreamAction, StreamEpoch, SubmissionEntry, WriteOrder,
};
use serve::control::{Request, Status as ControlStatus};
use serve::nvme_tcp::Limits;
use serve::{PowerLoss, Survival};
use ssd::SsdConfig;
use ssd::config::{Arbitration, OrderKind, OrderTables};
use units::Nanos;
use zerocopy::FromBytes;

const STREAMS: u32 = 3;

/// Short writes travel in their capsules, so that nobody has to ask for their data.
const WISH: Wish =
    Wish { digests: Digests::empty(), alignment: 0, max_r2t: 1, flow_control: true, in_capsule_bytes: 8192 };

fn config(order: OrderKind) -> SsdConfig {
    let order_tables = OrderTables { streams: STREAMS, epochs: 8 };
    SsdConfig { order, order_tables, ..SsdConfig::reference() }
}

fn served() -> Served {
    Served::ssd_of(Limits::default(), config(OrderKind::Streams))
}

fn at(stream: u16, epoch: u16) -> StreamEpoch {
    StreamEpoch { stream: Stream(stream), epoch: Epoch(epoch) }
}

fn in_stream(stream: u16, epoch: u16, closing: Closing) -> WriteOrder {
    WriteOrder { first: at(stream, epoch), closing, ..WriteOrder::NONE }
}

fn counted(first_blocks: u32) -> Closing {
    Closing::Counted { first_blocks, second_blocks: 0 }
}

fn write(lba: u64, blocks: u32, order: WriteOrder) -> (SubmissionEntry, Vec<u8>) {
    let bytes = blocks * LBA_BYTES;
    let mut entry = write_entry(lba, bytes);
    order.set(&mut entry);
    (entry, vec![lba as u8 + 1; bytes as usize])
}

fn submit(queue: &mut Queue, lba: u64, blocks: u32, order: WriteOrder) -> u16 {
    let (entry, data) = write(lba, blocks, order);
    queue.submit(entry, &data, 0)
}

fn call(queue: &mut Queue, lba: u64, order: WriteOrder) -> Status {
    let (entry, data) = write(lba, 1, order);
    queue.call(entry, &data, 0).status()
}

fn manage(queue: &mut Queue, stream: u16, action: StreamAction) -> Status {
    let command = Command::StreamManagement { nsid: NamespaceId::FIRST, stream: Stream(stream), action };
    queue.call(command.encode(CommandId(0)).unwrap().0, &[], 0).status()
}

fn open(queue: &mut Queue, stream: u16) -> Status {
    manage(queue, stream, StreamAction::Open { first: Epoch(0) })
}

fn counter(served: &Served, name: &str) -> u64 {
    let status: ControlStatus = served.control().ask(&Request::Status).unwrap();
    status.counters[name]
}

/// Waits until the device has so many commands; fails by a deadlock otherwise.
fn until_outstanding(served: &Served, wanted: u64) {
    for _ in 0..500 {
        let status: ControlStatus = served.control().ask(&Request::Status).unwrap();
        if status.outstanding == wanted {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the device never has {wanted} commands");
}

/// The next two commands to end, in order of their identifiers.
fn two(queue: &mut Queue) -> Vec<(u16, Status)> {
    let mut done: Vec<_> = (0..2).map(|_| queue.next_done().unwrap()).map(|done| (done.cid, done.status())).collect();
    done.sort_unstable_by_key(|(cid, _)| *cid);
    done
}

#[test]
fn the_descriptor_says_what_the_device_does() {
    let blocks = (64 << 20) / LBA_BYTES;
    let keeps = OrderingCapability::version_1(STREAMS, 8, blocks);
    for (order, descriptor) in
        [(OrderKind::None, OrderingCapability::none()), (OrderKind::Streams, keeps), (OrderKind::Ignored, keeps)]
    {
        let served = Served::ssd_of(Limits::default(), config(order));
        let mut host = Host::connect(served.address, WISH, 1);
        let identify =
            SubmissionEntry { opc: AdminOpcode::Identify as u8, cdw10: 1.into(), ..SubmissionEntry::default() };
        let page = IdentifyController::read_from_bytes(&host.admin.call(identify, &[], 4096).data).unwrap();
        assert_eq!(OrderingCapability::of(&page.vs), Some(descriptor), "{order:?}");
        let opened = open(&mut host.io[0], 1);
        assert_eq!(opened == Status::SUCCESS, order != OrderKind::None, "{opened:?}");
        let barrier = call(&mut host.io[0], 0, in_stream(1, 0, Closing::ByArrival));
        assert_eq!(barrier == Status::SUCCESS, order != OrderKind::None, "{barrier:?}");
        // Who keeps an order keeps it from those that ask wrongly.
        let stranger = call(&mut host.io[0], 0, in_stream(2, 0, Closing::None));
        assert_eq!(stranger == Status::SUCCESS, order != OrderKind::Streams, "{stranger:?}");
    }
}

/// Later epochs wait in their queue, whichever it is; flushes and unordered writes do not.
#[test]
fn later_epochs_wait() {
    let served = served();
    let mut host = Host::connect(served.address, WISH, 2);
    let [one, other] = &mut host.io[..] else { panic!("two queues") };
    assert_eq!(open(one, 1), Status::SUCCESS);
    let later = submit(other, 8, 1, in_stream(1, 1, counted(1)));
    until_outstanding(&served, 1);
    assert_eq!(one.write(64, &[7; 4096]), Status::SUCCESS);
    assert_eq!(one.call(flush_entry(), &[], 0).status(), Status::SUCCESS);
    assert_eq!(call(one, 16, in_stream(1, 0, counted(2))), Status::SUCCESS);
    until_outstanding(&served, 1);
    assert_eq!(call(one, 24, in_stream(1, 0, Closing::None)), Status::SUCCESS);
    let done = other.next_done().unwrap();
    assert_eq!((done.cid, done.status()), (later, Status::SUCCESS));
    assert_eq!(one.read(8, LBA_BYTES), [9; 4096]);
    assert_eq!(counter(&served, "order_waits"), 1);
}

/// The data of a write may come after the next command. A barrier closes what was queued before it all the same.
#[test]
fn a_queue_s_writes_arrive_in_their_order() {
    let served = served();
    let mut host = Host::connect(served.address, WISH, 1);
    let io = &mut host.io[0];
    assert_eq!(open(io, 1), Status::SUCCESS);
    for epoch in 0..20 {
        let long = submit(io, 0, 64, in_stream(1, epoch, Closing::None));
        let barrier = submit(io, 100, 1, in_stream(1, epoch, Closing::ByArrival));
        assert_eq!(two(io), [(long, Status::SUCCESS), (barrier, Status::SUCCESS)]);
    }
    assert_eq!(counter(&served, "order_late_bytes"), 0);
}

/// Between two queues the device fetches by lot: a barrier overtakes what it is to close. A count tells the device to wait.
#[test]
fn arbitration_reorders_queues() {
    let window = Nanos::from_millis(5);
    let arbitration = Some(Arbitration { window, seed: 7 });
    let served = Served::ssd_of(Limits::default(), SsdConfig { arbitration, ..config(OrderKind::Streams) });
    let mut host = Host::connect(served.address, WISH, 2);
    let [one, other] = &mut host.io[..] else { panic!("two queues") };
    for (stream, closing) in [(1, counted(2)), (2, Closing::ByArrival)] {
        assert_eq!(open(one, stream), Status::SUCCESS);
        for epoch in 0..30 {
            submit(one, 0, 1, in_stream(stream, epoch, Closing::None));
            submit(other, 8, 1, in_stream(stream, epoch, closing));
            assert_eq!([one.next_done(), other.next_done()].map(|done| done.unwrap().status()), [Status::SUCCESS; 2]);
        }
        let late = counter(&served, "order_late_bytes");
        assert_eq!(late > 0, closing == Closing::ByArrival, "{late} bytes");
    }
}

/// What a controller's end leaves: accepted writes stay, waiting ones are gone, and the streams are free again.
fn aborted_by(ends: fn(&mut Host)) {
    let served = served();
    let mut host = Host::connect(served.address, WISH, 2);
    for stream in 1..=STREAMS as u16 {
        assert_eq!(open(&mut host.io[0], stream), Status::SUCCESS);
    }
    assert_eq!(open(&mut host.io[0], 9), Status::STREAM_RESOURCE_ALLOCATION_FAILED);
    assert_eq!(call(&mut host.io[0], 8, in_stream(1, 0, Closing::None)), Status::SUCCESS);
    submit(&mut host.io[1], 16, 1, in_stream(1, 1, Closing::None));
    until_outstanding(&served, 1);
    ends(&mut host);
    until_outstanding(&served, 0);
    let mut next = Host::connect(served.address, WISH, 1);
    let io = &mut next.io[0];
    for stream in 1..=STREAMS as u16 {
        assert_eq!(open(io, stream), Status::SUCCESS);
    }
    assert_eq!((io.read(8, LBA_BYTES), io.read(16, LBA_BYTES)), (vec![9; 4096], vec![0; 4096]));
    // Its first epoch is the first again.
    assert_eq!(call(io, 16, in_stream(1, 0, counted(1))), Status::SUCCESS);
    assert_eq!(io.call(flush_entry(), &[], 0).status(), Status::SUCCESS);
}

#[test]
fn a_reset_closes_streams() {
    aborted_by(|host| {
        let disable = FabricsCommand::PropertySet { offset: Property::Configuration as u32, wide: false, value: 0 };
        assert_eq!(host.admin.call(disable.encode(CommandId(0)), &[], 0).status(), Status::SUCCESS);
    });
}

#[test]
fn the_end_of_the_last_queue_closes_streams() {
    aborted_by(|host| host.io.clear());
}

#[test]
fn a_host_that_is_gone_leaves_no_streams() {
    aborted_by(|host| host.admin.stream.shutdown(std::net::Shutdown::Both).unwrap());
}

/// What the target refuses by itself has failed as if the device had refused it.
#[test]
fn a_refused_write_breaks_its_stream() {
    let served = served();
    let mut host = Host::connect(served.address, WISH, 2);
    let [one, other] = &mut host.io[..] else { panic!("two queues") };
    assert_eq!((open(one, 1), open(one, 2)), (Status::SUCCESS, Status::SUCCESS));
    submit(other, 8, 1, in_stream(1, 1, Closing::None));
    until_outstanding(&served, 1);
    assert_eq!(call(one, 1 << 40, in_stream(1, 0, counted(1))), Status::LBA_OUT_OF_RANGE);
    assert_eq!(other.next_done().unwrap().status(), Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(call(one, 8, in_stream(1, 0, Closing::None)), Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(call(one, 8, in_stream(2, 0, Closing::None)), Status::SUCCESS);
    assert_eq!((manage(one, 1, StreamAction::Close), open(one, 1)), (Status::SUCCESS, Status::SUCCESS));
    assert_eq!(call(one, 8, in_stream(1, 0, counted(1))), Status::SUCCESS);
}

/// Each controller has streams of its own.
#[test]
fn hosts_do_not_meet() {
    let served = served();
    let mut hosts = [1, 2].map(|_| Host::connect(served.address, WISH, 1));
    for host in &mut hosts {
        assert_eq!(open(&mut host.io[0], 5), Status::SUCCESS);
        assert_eq!(open(&mut host.io[0], 5), Status::COMMAND_SEQUENCE_ERROR);
    }
    let [one, other] = &mut hosts;
    submit(&mut one.io[0], 8, 1, in_stream(5, 1, Closing::None));
    until_outstanding(&served, 1);
    for epoch in 0..3 {
        assert_eq!(call(&mut other.io[0], 16, in_stream(5, epoch, counted(1))), Status::SUCCESS);
    }
    assert_eq!(manage(&mut other.io[0], 5, StreamAction::Close), Status::SUCCESS);
    assert_eq!(manage(&mut other.io[0], 5, StreamAction::Close), Status::COMMAND_SEQUENCE_ERROR);
    until_outstanding(&served, 1);
    assert_eq!(call(&mut one.io[0], 16, in_stream(5, 0, counted(1))), Status::SUCCESS);
    assert_eq!(one.io[0].next_done().unwrap().status(), Status::SUCCESS);
}

/// The server ends although a host's epoch never will.
#[test]
fn stopping_leaves_nobody_waiting() {
    let served = served();
    let mut host = Host::connect(served.address, WISH, 1);
    assert_eq!(open(&mut host.io[0], 1), Status::SUCCESS);
    submit(&mut host.io[0], 8, 1, in_stream(1, 1, Closing::None));
    until_outstanding(&served, 1);
    served.finish();
}

#[test]
fn a_power_cut_keeps_the_order() {
    for seed in 0..12 {
        let served = served();
        let mut host = Host::connect(served.address, WISH, 1);
        let io = &mut host.io[0];
        assert_eq!(open(io, 1), Status::SUCCESS);
        for epoch in 0..6 {
            assert_eq!(call(io, epoch, in_stream(1, epoch as u16, counted(1))), Status::SUCCESS);
        }
        let cut = Request::PowerCut { survive: Survival::Random { seed }, off: false };
        let loss: PowerLoss = served.control().ask(&cut).unwrap();
        let mut host = Host::connect(served.address, WISH, 1);
        let there: Vec<bool> = (0..6).map(|lba| host.io[0].read(lba, LBA_BYTES)[0] != 0).collect();
        assert!(there.is_sorted_by(|earlier, later| earlier >= later), "{there:?} with {loss:?}");
        assert_eq!(open(&mut host.io[0], 1), Status::SUCCESS, "no stream is open after a cut");
    }
}
