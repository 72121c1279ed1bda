//! Streams as a host uses them, and what becomes of one that uses them wrongly.

use std::collections::BTreeMap;

use nvme::{
    Closing, Command, CommandId, Epoch, Lba, LbaRange, NamespaceId, QueueId, Status, Stream, StreamAction, StreamEpoch,
    WriteOrder,
};
use ssd::config::{Arbitration, OrderKind, OrderTables, SsdConfig};
use ssd::faults::{Effect, Fault, FaultPlan, FaultyDevice};
use ssd::{Contents, Device, OrderingIdentity, Ssd, Submission};
use trace::{Recorder, RequestId, Step};
use units::{ByteSize, Nanos};

struct Host {
    ssd: Ssd,
    now: Nanos,
    cid: u16,
    answers: BTreeMap<u16, Status>,
}

fn config(order: OrderKind) -> SsdConfig {
    let mut config = SsdConfig::reference();
    config.namespaces = vec![ByteSize(1 << 30)];
    config.order = order;
    config.order_tables = OrderTables { streams: 2, epochs: 4 };
    config
}

fn at(stream: u16, epoch: u16) -> StreamEpoch {
    StreamEpoch { stream: Stream(stream), epoch: Epoch(epoch) }
}

fn in_stream(stream: u16, epoch: u16, closing: Closing) -> WriteOrder {
    WriteOrder { first: at(stream, epoch), closing, ..WriteOrder::NONE }
}

fn counted(first_blocks: u32, second_blocks: u32) -> Closing {
    Closing::Counted { first_blocks, second_blocks }
}

impl Host {
    fn new(config: &SsdConfig) -> Self {
        let mut ssd = Ssd::new(config).unwrap();
        ssd.keep_contents(&Contents::Memory, true).unwrap();
        ssd.recover_from_flash();
        Self { ssd, now: Nanos::ZERO, cid: 0, answers: BTreeMap::new() }
    }

    /// Submits a command: its identifier.
    fn submit(&mut self, queue: u16, command: Command, bytes: Option<usize>) -> u16 {
        self.cid += 1;
        let data = bytes.map(|bytes| vec![self.cid as u8; bytes].into_boxed_slice());
        let (queue, cid, request) = (QueueId(queue), CommandId(self.cid), RequestId(0));
        self.ssd.submit(self.now, Submission { queue, cid, command, data, request });
        self.cid
    }

    /// A write of blocks from `start` on, in the queue of its stream.
    fn write(&mut self, start: u64, count: u32, order: WriteOrder) -> u16 {
        let range = LbaRange { start: Lba(start), count };
        let command = Command::ordered_write(NamespaceId::FIRST, range, false, order);
        self.submit(order.first.stream.0, command, Some(count as usize * 4096))
    }

    fn advance(&mut self, time: Nanos) {
        let mut done = Vec::new();
        self.now += time;
        self.ssd.advance(self.now, &mut done);
        self.answers.extend(done.iter().map(|completion| (completion.cid.0, completion.status)));
    }

    /// What became of a command after a while; `None`: it still waits.
    fn answer(&mut self, cid: u16) -> Option<Status> {
        self.advance(Nanos::from_millis(30));
        self.answers.get(&cid).copied()
    }

    fn manage(&mut self, stream: u16, action: StreamAction) -> Status {
        let command = Command::StreamManagement { nsid: NamespaceId::ALL, stream: Stream(stream), action };
        let cid = self.submit(1, command, None);
        self.answer(cid).unwrap()
    }

    fn open(&mut self, stream: u16, first: u16) -> Status {
        self.manage(stream, StreamAction::Open { first: Epoch(first) })
    }

    fn counter(&self, name: &str) -> u64 {
        self.ssd.counters().into_iter().find(|(found, _)| found == name).unwrap().1
    }
}

#[test]
fn a_device_without_order_says_so() {
    let mut host = Host::new(&config(OrderKind::None));
    assert_eq!(host.ssd.identity().ordering, None);
    assert_eq!(host.open(1, 0), Status::INVALID_OPCODE);
    let plain = host.write(0, 1, in_stream(1, 5, Closing::None));
    assert_eq!(host.answer(plain), Some(Status::SUCCESS));
    let barrier = host.write(0, 1, in_stream(1, 5, Closing::ByArrival));
    assert_eq!(host.answer(barrier), Some(Status::INVALID_FIELD));
    assert!(host.ssd.counters().iter().all(|(name, _)| !name.starts_with("order_")));
}

#[test]
fn a_device_that_ignores_order_takes_everything() {
    let mut host = Host::new(&config(OrderKind::Ignored));
    assert!(host.ssd.identity().ordering.is_some());
    assert_eq!(host.open(1, 0), Status::SUCCESS);
    // Epochs that nobody opened, closed or counted right, in any order.
    for order in [in_stream(7, 9, counted(100, 0)), in_stream(7, 3, Closing::ByArrival), in_stream(9, 0, Closing::None)]
    {
        let write = host.write(0, 1, order);
        assert_eq!(host.answer(write), Some(Status::SUCCESS));
    }
    host.write(8, 1, in_stream(1, 1, Closing::None));
    host.advance(Nanos::from_micros(100));
    let cut = host.ssd.power_cut(host.now);
    assert!(!cut.undecided.is_empty() && cut.undecided.iter().all(|write| write.places == [None, None]));
}

#[test]
fn streams_are_opened_and_closed() {
    let mut host = Host::new(&config(OrderKind::Streams));
    let identity = OrderingIdentity { streams: 2, epochs: 4, delayed_blocks: (64 << 20) / 4096 };
    assert_eq!(host.ssd.identity().ordering, Some(identity));
    assert_eq!(host.open(0, 0), Status::INVALID_FIELD);
    assert_eq!(host.manage(1, StreamAction::Close), Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!((host.open(1, 0), host.open(2, 7)), (Status::SUCCESS, Status::SUCCESS));
    assert_eq!(host.open(1, 0), Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(host.open(3, 0), Status::STREAM_RESOURCE_ALLOCATION_FAILED);
    assert_eq!(host.manage(1, StreamAction::Close), Status::SUCCESS);
    assert_eq!(host.open(3, 0), Status::SUCCESS);
    // A power cut closes all of them.
    host.ssd.power_cut(host.now);
    assert_eq!((host.open(1, 0), host.open(4, 0)), (Status::SUCCESS, Status::SUCCESS));
    let stranger = host.write(0, 1, in_stream(3, 0, Closing::None));
    assert_eq!(host.answer(stranger), Some(Status::COMMAND_SEQUENCE_ERROR));
}

#[test]
fn a_later_epoch_waits_until_the_count_is_there() {
    let mut host = Host::new(&config(OrderKind::Streams));
    host.open(1, u16::MAX);
    let recorder = Recorder::bounded(1000);
    host.ssd.set_recorder(recorder.clone());
    let later = host.write(0, 1, in_stream(1, 0, Closing::None));
    let barrier = host.write(8, 1, in_stream(1, u16::MAX, counted(3, 0)));
    assert_eq!((host.answer(barrier), host.answer(later)), (Some(Status::SUCCESS), None));
    // Nothing else waits for it.
    let flush = host.submit(2, Command::Flush { nsid: NamespaceId::FIRST }, None);
    let unordered = host.write(100, 1, WriteOrder::NONE);
    assert_eq!((host.answer(flush), host.answer(unordered)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
    let rest = host.write(16, 2, in_stream(1, u16::MAX, Closing::None));
    assert_eq!((host.answer(rest), host.answer(later)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
    assert_eq!((host.counter("order_waits"), host.counter("order_late_bytes")), (1, 0));
    assert!(host.counter("order_table_bytes_max") > 0);
    let waits: Vec<_> = recorder.take().0.into_iter().filter(|span| span.step == Step::OrderWait).collect();
    assert!(matches!(waits[..], [wait] if wait.end - wait.start > Nanos::from_millis(60)), "{waits:?}");
}

#[test]
fn fields_that_make_no_sense_are_refused() {
    for (order, status) in [
        (WriteOrder { second: at(1, 0), ..WriteOrder::NONE }, Status::INVALID_FIELD),
        (WriteOrder { second: at(1, 0), ..in_stream(1, 0, Closing::None) }, Status::INVALID_FIELD),
        (WriteOrder { closing: Closing::ByArrival, ..WriteOrder::NONE }, Status::INVALID_FIELD),
        (in_stream(1, 1 << 15, Closing::None), Status::INVALID_FIELD),
        (in_stream(1, u16::MAX, Closing::None), Status::COMMAND_SEQUENCE_ERROR),
        (in_stream(1, 0, counted(1, 0)), Status::COMMAND_SEQUENCE_ERROR),
        (in_stream(2, 0, Closing::None), Status::COMMAND_SEQUENCE_ERROR),
    ] {
        let mut host = Host::new(&config(OrderKind::Streams));
        host.open(1, 0);
        let write = host.write(0, 2, order);
        assert_eq!(host.answer(write), Some(status), "{order:?}");
    }
}

/// What fails never completes its epoch: who waits for that is told.
#[test]
fn a_failed_write_breaks_its_streams() {
    let mut host = Host::new(&config(OrderKind::Streams));
    assert_eq!((host.open(1, 0), host.open(2, 0)), (Status::SUCCESS, Status::SUCCESS));
    let accepted = host.write(64, 1, in_stream(1, 0, Closing::None));
    let waiting = host.write(0, 1, WriteOrder { second: at(2, 0), ..in_stream(1, 1, counted(0, 1)) });
    let behind = host.write(8, 1, in_stream(2, 1, Closing::None));
    assert_eq!((host.answer(waiting), host.answer(behind)), (None, None));
    let beyond = host.write(1 << 40, 1, in_stream(1, 0, Closing::None));
    assert_eq!(host.answer(beyond), Some(Status::LBA_OUT_OF_RANGE));
    let broken = Some(Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(
        (host.answer(waiting), host.answer(behind), host.answer(accepted)),
        (broken, broken, Some(Status::SUCCESS))
    );
    let after = host.write(8, 1, in_stream(2, 0, Closing::None));
    assert_eq!(host.answer(after), broken);
    // Opened again it is another stream.
    assert_eq!((host.manage(2, StreamAction::Close), host.open(2, 0)), (Status::SUCCESS, Status::SUCCESS));
    let again = host.write(8, 1, in_stream(2, 0, Closing::None));
    assert_eq!(host.answer(again), Some(Status::SUCCESS));
    // So does closing abort what waits.
    let waiting = host.write(8, 1, in_stream(2, 1, Closing::None));
    assert_eq!(host.answer(waiting), None);
    assert_eq!(host.manage(2, StreamAction::Close), Status::SUCCESS);
    assert_eq!(host.answer(waiting), Some(Status::ABORT_REQUESTED));
}

/// A fault that keeps a write from the device leaves nobody waiting for it.
#[test]
fn an_injected_fault_breaks_the_streams_too() {
    let plan = FaultPlan::default();
    let ssd = Box::new(Ssd::new(&config(OrderKind::Streams)).unwrap());
    let mut ssd = FaultyDevice::new(ssd, plan.clone());
    let mut done = Vec::new();
    let mut send = |now: u64, cid: u16, command: Command| {
        let (queue, cid, request) = (QueueId(1), CommandId(cid), RequestId(0));
        ssd.submit(Nanos::from_millis(now), Submission { queue, cid, command, data: None, request });
        ssd.advance(Nanos::from_millis(now + 30), &mut done);
        done.drain(..).map(|completion| (completion.cid.0, completion.status)).collect::<Vec<_>>()
    };
    let write = |start, epoch, closing| {
        let range = LbaRange { start: Lba(start), count: 1 };
        Command::ordered_write(NamespaceId::FIRST, range, false, in_stream(1, epoch, closing))
    };
    let action = StreamAction::Open { first: Epoch(0) };
    let open = Command::StreamManagement { nsid: NamespaceId::ALL, stream: Stream(1), action };
    assert_eq!(send(0, 1, open), [(1, Status::SUCCESS)]);
    // A fault of another stream is none of its business.
    plan.inject(Fault { stream: Some(2), ..Fault::new(Effect::Timeout) }).unwrap();
    assert_eq!(send(100, 2, write(8, 1, Closing::None)), []);
    plan.inject(Fault { stream: Some(1), ..Fault::new(Effect::error(Status::WRITE_FAULT)) }).unwrap();
    let answers = send(200, 3, write(16, 0, Closing::ByArrival));
    assert!(answers.contains(&(2, Status::COMMAND_SEQUENCE_ERROR)) && answers.contains(&(3, Status::WRITE_FAULT)));
}

/// Through two queues that are fetched from by lot a barrier overtakes what it closes: by arrival that is late, counted it is not.
#[test]
fn arbitration_shows_what_arrival_misses() {
    let late_blocks = |is_counted: bool| {
        let mut config = config(OrderKind::Streams);
        config.arbitration = Some(Arbitration { window: Nanos::from_micros(50), seed: 3 });
        let mut host = Host::new(&config);
        host.open(1, 0);
        for epoch in 0..100 {
            let plain = Command::ordered_write(
                NamespaceId::FIRST,
                LbaRange { start: Lba(u64::from(epoch) * 16), count: 1 },
                false,
                in_stream(1, epoch, Closing::None),
            );
            let first = host.submit(2, plain, Some(4096));
            let closing = if is_counted { counted(2, 0) } else { Closing::ByArrival };
            let barrier = host.write(u64::from(epoch) * 16 + 8, 1, in_stream(1, epoch, closing));
            host.advance(Nanos::from_millis(1));
            assert_eq!([first, barrier].map(|cid| host.answers.get(&cid)), [Some(&Status::SUCCESS); 2]);
        }
        host.counter("order_late_bytes") / 4096
    };
    assert_eq!(late_blocks(true), 0);
    assert!((20..80).contains(&late_blocks(false)), "{}", late_blocks(false));
}

/// A buffer behind capacitors keeps what it accepted, and that is in order.
#[test]
fn capacitors_need_no_delay() {
    let mut config = config(OrderKind::Streams);
    config.buffer.power_loss_protected = true;
    let mut host = Host::new(&config);
    host.open(1, 0);
    let later = host.write(0, 1, in_stream(1, 1, Closing::None));
    assert_eq!(host.answer(later), None);
    let first = host.write(8, 1, in_stream(1, 0, counted(1, 0)));
    assert_eq!((host.answer(first), host.answer(later)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
    assert!(host.ssd.power_cut(host.now).undecided.is_empty());
    assert_eq!(host.counter("order_delayed_bytes"), 0);
}
