//! Whole sessions with a host that is played here: every byte arrives, this end
//! breaks no rule of the protocol, memory stays bounded.

use std::collections::{BTreeMap, VecDeque};

use nvme::tcp::{Alignment, Digests, Format, H2cData, Pdu};
use nvme::{CommandId, SubmissionEntry};
use proptest::collection::vec;
use proptest::prelude::*;

use super::connection::{Connection, Controller, Step};
use super::connection_test::{DEPTH, Fake, READ, WRITE, answer_to, command, contents, initialize, pdus, sent, wire};
use super::limits::Limits;

#[derive(Clone, Debug)]
enum Operation {
    Write { dwords: u32, in_capsule: bool, ordered: bool },
    Read { dwords: u32 },
    Other,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        (1..2049u32, any::<bool>(), any::<bool>()).prop_map(|(dwords, in_capsule, ordered)| Operation::Write {
            dwords,
            in_capsule,
            ordered
        }),
        (1..12_000u32, any::<bool>()).prop_map(|(dwords, ordered)| Operation::Write {
            dwords,
            in_capsule: false,
            ordered
        }),
        (1..12_000u32).prop_map(|dwords| Operation::Read { dwords }),
        Just(Operation::Other),
    ]
}

#[derive(Clone, Debug)]
struct Session {
    operations: Vec<Operation>,
    limits: Limits,
    digests: Digests,
    alignment: Alignment,
    max_r2t: u32,
    flow_control: bool,
    /// Sizes of pieces on the wire, orders of completion, splits of data.
    choices: Vec<usize>,
}

fn session() -> impl Strategy<Value = Session> {
    let limits = (1..16usize, 1..4u32, 1..8u32, 1..5u32, 0..4u8, 0..=Alignment::MAX).prop_map(
        |(held, h2c, r2t, r2ts, digests, alignment)| Limits {
            held_bytes: held * 8192,
            h2c_data_bytes: h2c * 4096,
            r2t_bytes: r2t * 3000 / 4 * 4,
            r2ts,
            digests: Digests::from_bits_truncate(digests),
            alignment: Alignment::from_field(alignment).unwrap(),
            ..Limits::default()
        },
    );
    let host = (0..4u8, 0..=Alignment::MAX, 1..6u32, any::<bool>());
    (vec(operation(), 1..40), limits, host, vec(1..10_000usize, 1..50)).prop_map(
        |(operations, limits, (digests, alignment, max_r2t, flow_control), choices)| Session {
            operations,
            limits,
            digests: Digests::from_bits_truncate(digests),
            alignment: Alignment::from_field(alignment).unwrap(),
            max_r2t,
            flow_control,
            choices,
        },
    )
}

/// A host that does what it is asked, and notes what it gets.
struct Host {
    sends: Format,
    receives: Format,
    h2c_data_bytes: u32,
    max_r2t: u32,
    /// What it has sent as commands and not seen completed.
    open: BTreeMap<u16, Operation>,
    /// Bytes read so far, by command.
    read: BTreeMap<u16, Vec<u8>>,
    r2ts: BTreeMap<u16, u32>,
    buffer: Vec<u8>,
}

impl Host {
    fn take(&mut self, bytes: &[u8], flow_control: bool, mut choice: impl FnMut() -> usize) -> Vec<u8> {
        self.buffer.extend_from_slice(bytes);
        let mut reply = Vec::new();
        for (pdu, data) in pdus(&mut self.buffer, &self.receives) {
            match pdu {
                Pdu::ReadyToTransfer(r2t) => {
                    let cid = r2t.command.0;
                    let Some(Operation::Write { dwords, .. }) = self.open.get(&cid) else { panic!("R2T for {cid}") };
                    let contents = contents(cid, dwords * 4);
                    let count = self.r2ts.entry(cid).or_default();
                    *count += 1;
                    assert!(*count <= self.max_r2t, "more R2Ts than the host takes");
                    let (mut offset, end) = (r2t.offset, r2t.offset + r2t.length);
                    while offset < end {
                        let length = (choice() as u32 * 4).min(self.h2c_data_bytes).min(end - offset);
                        let last = offset + length == end;
                        let transfer_tag = r2t.transfer_tag;
                        let pdu = Pdu::H2cData(H2cData { command: CommandId(cid), transfer_tag, offset, length, last });
                        let data = &contents[offset as usize..][..length as usize];
                        reply.extend_from_slice(&wire(&pdu, data, &self.sends));
                        offset += length;
                    }
                    *self.r2ts.get_mut(&cid).unwrap() -= 1;
                }
                Pdu::C2hData(transfer) => {
                    let cid = transfer.command.0;
                    let read = self.read.entry(cid).or_default();
                    assert_eq!(read.len(), transfer.offset as usize);
                    read.extend_from_slice(&data);
                    if transfer.success {
                        assert!(!flow_control, "SUCCESS without the SQ head that the host needs");
                        self.complete(cid);
                    }
                }
                Pdu::CapsuleResponse(entry) => {
                    assert!(entry.completion_status().status.is_success(), "{entry:?}");
                    self.complete(entry.cid.get());
                }
                other => panic!("{other:?}"),
            }
        }
        reply
    }

    /// Ordered writes that are not complete.
    fn ordered(&self) -> impl Iterator<Item = u16> {
        let ordered = |operation: &Operation| matches!(operation, Operation::Write { ordered: true, .. });
        self.open.iter().filter(move |(_, operation)| ordered(operation)).map(|(cid, _)| *cid)
    }

    fn complete(&mut self, cid: u16) {
        match self.open.remove(&cid) {
            Some(Operation::Read { dwords }) => {
                assert!(self.read.remove(&cid).unwrap() == contents(cid, dwords * 4));
            }
            Some(_) => {}
            None => panic!("command {cid} is complete twice"),
        }
    }
}

fn is_ordered(entry: &SubmissionEntry) -> bool {
    Fake.is_ordered(entry)
}

fn run(session: Session) {
    let Session { operations, limits, digests, alignment, max_r2t, flow_control, choices } = session;
    let mut turn = 0;
    let mut choice = || {
        turn += 1;
        choices[turn % choices.len()]
    };
    let mut connection = Connection::new();
    let request = wire(&initialize(digests, alignment, max_r2t), &[], &Format::default());
    let mut to_controller: VecDeque<u8> = request.into();
    let agreed = digests & limits.digests;
    let sends = Format { digests: agreed, alignment: limits.alignment };
    let mut host = Host {
        sends,
        receives: Format::default(),
        h2c_data_bytes: limits.h2c_data_bytes,
        max_r2t,
        open: BTreeMap::new(),
        read: BTreeMap::new(),
        r2ts: BTreeMap::new(),
        buffer: Vec::new(),
    };
    let largest = operations.iter().map(|operation| match operation {
        Operation::Write { dwords, .. } | Operation::Read { dwords } => *dwords as usize * 4,
        Operation::Other => 0,
    });
    // Beyond the limit: one command alone, capsules, completions.
    let most = limits.held_bytes.max(largest.max().unwrap_or(0)) + DEPTH as usize * (8192 + 64);
    let mut operations: VecDeque<(u16, Operation)> =
        operations.into_iter().enumerate().map(|(at, operation)| (at as u16 * 7, operation)).collect();
    let mut in_device: Vec<SubmissionEntry> = Vec::new();
    let mut last_ordered = None;
    let mut initialized = false;
    for round in 0..200_000 {
        while initialized && host.open.len() < DEPTH as usize {
            let Some((cid, operation)) = operations.pop_front() else { break };
            let (entry, data) = match operation {
                Operation::Write { dwords, in_capsule, ordered } => {
                    let entry = command(WRITE, cid, dwords * 4, in_capsule);
                    let data = if in_capsule { contents(cid, dwords * 4) } else { Vec::new() };
                    (SubmissionEntry { cdw2: u32::from(ordered).into(), ..entry }, data)
                }
                Operation::Read { dwords } => (command(READ, cid, dwords * 4, false), Vec::new()),
                Operation::Other => (command(0, cid, 0, false), Vec::new()),
            };
            to_controller.extend(wire(&Pdu::CapsuleCommand(entry), &data, &sends));
            host.open.insert(cid, operation);
        }
        let count = choice().min(to_controller.len());
        let piece: Vec<u8> = to_controller.iter().take(count).copied().collect();
        let mut rest = &piece[..];
        while connection.wants_input(&limits) && !rest.is_empty() {
            let space = connection.space();
            let count = space.len().min(rest.len());
            space[..count].copy_from_slice(&rest[..count]);
            connection.received(count);
            rest = &rest[count..];
        }
        to_controller.drain(..piece.len() - rest.len());
        match connection.step(&Fake, &limits).unwrap() {
            Step::Idle => {}
            Step::Command(entry, data) => {
                if entry.opc == WRITE {
                    assert!(*data == contents(entry.cid.get(), entry.cdw12.get())[..], "data of a write");
                }
                if is_ordered(&entry) {
                    assert!(last_ordered < Some(entry.cid.get()), "ordered writes in their turn");
                    last_ordered = Some(entry.cid.get());
                }
                in_device.push(entry);
            }
            other => panic!("{other:?}"),
        }
        assert!(connection.held_bytes() <= most, "{} bytes held", connection.held_bytes());
        // Commands complete in any order, and not at once; ordered ones as if each waited for the last of them.
        if (choice() % 3 == 0 || round % 7 == 0) && !in_device.is_empty() {
            let at = choice() % in_device.len();
            let waits = is_ordered(&in_device[at]) && host.ordered().any(|cid| Some(cid) > last_ordered);
            if !waits {
                let entry = in_device.swap_remove(at);
                let data = if entry.opc == READ { contents(entry.cid.get(), entry.cdw12.get()) } else { Vec::new() };
                connection.answer(answer_to(&entry, data, flow_control.then_some(0)));
            }
        }
        let mut bytes = sent(&mut connection);
        if !initialized && !bytes.is_empty() {
            let answers = pdus(&mut bytes, &Format::default());
            let [(Pdu::InitializeResponse(response), _)] = answers[..] else { panic!("{answers:?}") };
            assert_eq!((response.digests, response.alignment), (agreed, limits.alignment));
            host.receives = Format { digests: agreed, alignment };
            initialized = true;
        }
        to_controller.extend(host.take(&bytes, flow_control, &mut choice));
        if initialized && operations.is_empty() && host.open.is_empty() {
            assert_eq!(connection.held_bytes(), 0);
            return;
        }
    }
    panic!("commands never complete: {:?}", host.open);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_command_completes_with_its_data(session in session()) {
        run(session);
    }
}
