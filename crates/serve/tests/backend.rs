//! The backend against a device with narrow limits that records what it is given.

use std::cell::RefCell;
use std::rc::Rc;

use nvme::{Command, NamespaceId, QueueId, Status, WriteCommand};
use proptest::collection::vec;
use proptest::prelude::*;
use serve::backend::{Backend, Reply, Request};
use ssd::{Completion, Device, Identity, NullDevice, Submission, Wrapper};
use units::Nanos;

const LBA_BYTES: usize = 512;
const BLOCKS: u64 = 64;
const LATENCY: Nanos = Nanos(1000);

/// Passes commands on to a [`NullDevice`], and checks that its limits are kept.
struct Narrow {
    inner: NullDevice,
    identity: Identity,
    given: Rc<RefCell<Vec<Command>>>,
    outstanding: Vec<u16>,
    fail_writes: bool,
}

impl Narrow {
    fn new(adjust: impl FnOnce(&mut Identity)) -> (Box<Self>, Rc<RefCell<Vec<Command>>>) {
        let inner = NullDevice::new(BLOCKS, LBA_BYTES as u32, LATENCY);
        let mut identity = inner.identity().clone();
        identity.queues = 2;
        identity.queue_depth = 3;
        identity.max_transfer_bytes = 4 * LBA_BYTES as u32;
        identity.volatile_write_cache = true;
        identity.supports_fua = false;
        adjust(&mut identity);
        let given = Rc::new(RefCell::new(Vec::new()));
        let outstanding = vec![0; usize::from(identity.queues) + 1];
        (Box::new(Self { inner, identity, given: Rc::clone(&given), outstanding, fail_writes: false }), given)
    }
}

impl Wrapper for Narrow {
    fn inner(&self) -> &dyn Device {
        &self.inner
    }
    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut self.inner
    }
    fn identity(&self) -> &Identity {
        &self.identity
    }
    fn submit(&mut self, now: Nanos, submission: Submission) {
        let QueueId(queue) = submission.queue;
        self.outstanding[usize::from(queue)] += 1;
        assert!(queue > 0 && self.outstanding[usize::from(queue)] <= self.identity.queue_depth);
        if let Command::Read { range, .. } | Command::Write(WriteCommand { range, .. }) = submission.command {
            assert!(range.count * LBA_BYTES as u32 <= self.identity.max_transfer_bytes);
            let expected = matches!(submission.command, Command::Write(_));
            let bytes = submission.data.as_ref().map(|data| data.len());
            assert_eq!(bytes, expected.then_some(range.count as usize * LBA_BYTES));
        }
        self.given.borrow_mut().push(submission.command.clone());
        self.inner.submit(now, submission);
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        let first = completions.len();
        self.inner.advance(now, completions);
        for completion in &mut completions[first..] {
            self.outstanding[usize::from(completion.queue.0)] -= 1;
            if self.fail_writes {
                completion.status = Status::WRITE_FAULT;
            }
        }
    }
}

/// Submits one request and runs the device until it is answered.
fn call(backend: &mut Backend<()>, request: Request) -> Reply<()> {
    let mut replies = Vec::new();
    backend.submit(Nanos::ZERO, 0, NamespaceId::FIRST, request, (), &mut replies);
    while replies.is_empty() {
        let next = backend.next_event().expect("an outstanding request has an event");
        backend.advance(next, &mut replies);
    }
    assert_eq!((replies.len(), backend.outstanding()), (1, 0));
    replies.remove(0)
}

fn counts(given: &RefCell<Vec<Command>>) -> Vec<u32> {
    let count = |command: &Command| match command {
        Command::Read { range, .. }
        | Command::Write(WriteCommand { range, .. })
        | Command::WriteZeroes { range, .. } => range.count,
        Command::Deallocate { ranges, .. } => ranges.iter().map(|range| range.count).sum(),
        _ => 0,
    };
    given.borrow().iter().map(count).collect()
}

#[test]
fn large_requests_are_split_and_joined() {
    let (device, given) = Narrow::new(|_| {});
    let mut backend = Backend::new(device);
    let data: Box<[u8]> = (0..19 * LBA_BYTES).map(|byte| (byte / 3) as u8).collect();
    let write = Request::Write { offset: 512, data: data.clone(), fua: false };
    let reply = call(&mut backend, write);
    assert!(reply.result.is_ok());
    assert_eq!(counts(&given), [4, 4, 4, 4, 3]);
    // Three at a time: two waves.
    assert_eq!(reply.modelled_latency(), LATENCY * 2);
    let reply = call(&mut backend, Request::Read { offset: 512, length: data.len() as u32 });
    assert_eq!(reply.result, Ok(data));
}

#[test]
fn fua_is_emulated_by_a_flush_only_where_needed() {
    let block = || vec![1; LBA_BYTES].into_boxed_slice();
    let write = || Request::Write { offset: 0, data: block(), fua: true };
    let flushes = |given: &RefCell<Vec<Command>>| {
        given.borrow().iter().filter(|command| matches!(command, Command::Flush { .. })).count()
    };

    let (device, given) = Narrow::new(|_| {});
    let reply = call(&mut Backend::new(device), write());
    assert_eq!((flushes(&given), reply.modelled_latency()), (1, LATENCY * 2));
    assert!(matches!(given.borrow()[0], Command::Write(WriteCommand { fua: false, .. })));

    let (device, given) = Narrow::new(|identity| identity.supports_fua = true);
    let mut backend = Backend::new(device);
    call(&mut backend, write());
    assert_eq!(flushes(&given), 0);
    assert!(matches!(given.borrow()[0], Command::Write(WriteCommand { fua: true, .. })));
    // Dataset Management has no FUA bit.
    call(&mut backend, Request::Trim { offset: 0, length: 512, fua: true });
    assert_eq!(flushes(&given), 1);

    let (device, given) = Narrow::new(|identity| identity.volatile_write_cache = false);
    call(&mut Backend::new(device), write());
    assert_eq!(flushes(&given), 0, "without a volatile cache a completed write is on the media");

    let (mut device, given) = Narrow::new(|_| {});
    device.fail_writes = true;
    assert_eq!(call(&mut Backend::new(device), write()).result, Err(Status::WRITE_FAULT));
    assert_eq!(flushes(&given), 0, "no flush for data that was not written");
}

#[test]
fn refusals_never_reach_the_device() {
    let (device, given) = Narrow::new(|identity| identity.supports_deallocate = false);
    let mut backend = Backend::new(device);
    let mut refused = |nsid, request| {
        let mut replies = Vec::new();
        backend.submit(Nanos(5), 0, nsid, request, (), &mut replies);
        replies.remove(0).result.unwrap_err()
    };
    let end = BLOCKS * LBA_BYTES as u64;
    for (request, status) in [
        (Request::Read { offset: 1, length: 512 }, Status::INVALID_FIELD),
        (Request::Read { offset: 0, length: 0 }, Status::INVALID_FIELD),
        (Request::Read { offset: end, length: 512 }, Status::LBA_OUT_OF_RANGE),
        (Request::Read { offset: u64::MAX - 511, length: 512 }, Status::LBA_OUT_OF_RANGE),
        (Request::WriteZeroes { offset: 0, length: end + 512, fua: false, deallocate: true }, Status::LBA_OUT_OF_RANGE),
        (Request::Trim { offset: 0, length: 512, fua: false }, Status::INVALID_OPCODE),
    ] {
        assert_eq!(refused(NamespaceId::FIRST, request), status);
    }
    assert_eq!(refused(NamespaceId(2), Request::Read { offset: 0, length: 512 }), Status::LBA_OUT_OF_RANGE);
    assert!(given.borrow().is_empty());
}

#[test]
fn shutting_down_answers_and_flushes() {
    let (device, given) = Narrow::new(|_| {});
    let mut backend = Backend::new(device);
    let mut replies = Vec::new();
    for block in 0..8 {
        let data = vec![2; 512].into_boxed_slice();
        let write = Request::Write { offset: block * 512, data, fua: false };
        backend.submit(Nanos::ZERO, 1, NamespaceId::FIRST, write, block, &mut replies);
    }
    assert!(replies.is_empty());
    assert_eq!(backend.shut_down(&mut replies), Ok(()));
    let mut answered: Vec<u64> = replies.iter().map(|reply| reply.context).collect();
    answered.sort_unstable();
    assert_eq!(answered, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(given.borrow().last(), Some(&Command::Flush { nsid: NamespaceId::ALL }));
}

#[derive(Debug, Clone)]
enum Step {
    Read(u64, u64),
    Write(u64, u64, u8, bool),
    Zero(u64, u64, bool),
    Trim(u64, u64, bool),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let extent = || (0..BLOCKS, 1..20u64).prop_map(|(start, count)| (start, count.min(BLOCKS - start)));
    prop_oneof![
        extent().prop_map(|(start, count)| Step::Read(start, count)),
        (extent(), any::<u8>(), any::<bool>())
            .prop_map(|((start, count), byte, fua)| Step::Write(start, count, byte, fua)),
        (extent(), any::<bool>()).prop_map(|((start, count), fua)| Step::Zero(start, count, fua)),
        (extent(), any::<bool>()).prop_map(|((start, count), fua)| Step::Trim(start, count, fua)),
        Just(Step::Flush),
    ]
}

proptest! {
    /// Answered one after another, requests act on an array of blocks.
    #[test]
    fn acts_as_an_array(steps in vec(step(), 1..40), depth in 1..5u16, transfer_blocks in 1..9u32) {
        let (device, _) = Narrow::new(|identity| {
            identity.queue_depth = depth;
            identity.max_transfer_bytes = transfer_blocks * LBA_BYTES as u32;
        });
        let mut backend = Backend::new(device);
        let mut blocks = [0u8; BLOCKS as usize];
        for step in steps {
            let bytes = |start: u64, count: u64| (start * LBA_BYTES as u64, count * LBA_BYTES as u64);
            let mut fill = |start: u64, count: u64, byte: u8| {
                blocks[start as usize..(start + count) as usize].fill(byte);
            };
            let request = match step {
                Step::Read(start, count) => {
                    let (offset, length) = bytes(start, count);
                    Request::Read { offset, length: length as u32 }
                }
                Step::Write(start, count, byte, fua) => {
                    fill(start, count, byte);
                    let (offset, length) = bytes(start, count);
                    Request::Write { offset, data: vec![byte; length as usize].into(), fua }
                }
                Step::Zero(start, count, fua) => {
                    fill(start, count, 0);
                    let (offset, length) = bytes(start, count);
                    Request::WriteZeroes { offset, length, fua, deallocate: true }
                }
                Step::Trim(start, count, fua) => {
                    fill(start, count, 0);
                    let (offset, length) = bytes(start, count);
                    Request::Trim { offset, length, fua }
                }
                Step::Flush => Request::Flush,
            };
            let reply = call(&mut backend, request);
            let data = reply.result.unwrap();
            if let Step::Read(start, count) = step {
                let expected = blocks[start as usize..(start + count) as usize].iter();
                let expected: Vec<u8> = expected.flat_map(|&byte| [byte; LBA_BYTES]).collect();
                prop_assert_eq!(&*data, &expected[..]);
            }
        }
    }

    /// Whatever is outstanding together, each request is answered once, and
    /// never before its model time.
    #[test]
    fn answers_each_once(steps in vec((step(), 0..2usize, 0..3000u64), 1..60)) {
        let (device, _) = Narrow::new(|_| {});
        let mut backend = Backend::new(device);
        let (mut now, mut replies) = (Nanos::ZERO, Vec::new());
        let total = steps.len();
        for (id, (step, queue, wait)) in steps.into_iter().enumerate() {
            now += Nanos(wait);
            let request = match step {
                Step::Read(start, count) => Request::Read { offset: start * 512, length: count as u32 * 512 },
                Step::Write(start, count, byte, fua) => {
                    Request::Write { offset: start * 512, data: vec![byte; count as usize * 512].into(), fua }
                }
                Step::Zero(start, count, fua) => {
                    Request::WriteZeroes { offset: start * 512, length: count * 512, fua, deallocate: false }
                }
                Step::Trim(start, count, fua) => Request::Trim { offset: start * 512, length: count * 512, fua },
                Step::Flush => Request::Flush,
            };
            backend.submit(now, queue, NamespaceId::FIRST, request, id, &mut replies);
        }
        while backend.outstanding() > 0 {
            let next = backend.next_event().expect("outstanding requests have an event");
            backend.advance(next, &mut replies);
        }
        let mut answered: Vec<usize> = replies.iter().map(|reply| reply.context).collect();
        answered.sort_unstable();
        prop_assert_eq!(answered, (0..total).collect::<Vec<_>>());
        for reply in &replies {
            prop_assert!(reply.result.is_ok());
            prop_assert!(reply.modelled_latency() >= LATENCY);
        }
    }
}

/// The lead moves answers forward and keeps the device's clock in order.
#[test]
fn a_lead_gives_answers_early() {
    let mut backend = Backend::new(Box::new(NullDevice::new(BLOCKS, LBA_BYTES as u32, LATENCY)));
    let mut replies = Vec::new();
    let lead = Nanos(400);
    let read = || Request::Read { offset: 0, length: 512 };
    backend.submit(Nanos(100), 0, NamespaceId::FIRST, read(), (), &mut replies);
    assert!(!backend.advance(Nanos(699) + lead, &mut replies) && replies.is_empty());
    backend.advance(Nanos(700) + lead, &mut replies);
    assert_eq!(replies.remove(0).completed_at, Nanos(1100));
    // The next request comes before the device's clock: it starts there.
    backend.submit(Nanos(800), 0, NamespaceId::FIRST, read(), (), &mut replies);
    assert_eq!(backend.next_event(), Some(Nanos(2100)));
}
