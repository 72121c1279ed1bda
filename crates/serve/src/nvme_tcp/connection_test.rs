//! Connections whose host breaks rules: each violation is answered as the
//! specification says, and memory stays bounded.

use nvme::tcp::{
    Alignment, Digests, Direction, FatalErrorStatus, Field, Format, H2cData, InitializeRequest, Pdu, PduError,
    ReadyToTransfer, TerminateRequest, decode, digest, encode,
};
use nvme::{CommandId, QueueId, SglDescriptor, SglDescriptorType, Status, SubmissionEntry};
use proptest::collection::vec;
use proptest::prelude::*;

use super::connection::{Connection, Controller, Fatal, Step};
use super::limits::Limits;
use crate::subsystem::{Answer, Transfer};

pub(super) const DEPTH: u32 = 16;
pub(super) const WRITE: u8 = 1;
pub(super) const READ: u8 = 2;

/// Bytes to transfer are what CDW12 says.
pub(super) struct Fake;

impl Controller for Fake {
    fn transfer(&self, entry: &SubmissionEntry) -> Transfer {
        let bytes = entry.cdw12.get();
        match entry.opc {
            WRITE => Transfer::HostToController { bytes },
            READ => Transfer::ControllerToHost { bytes },
            _ => Transfer::None,
        }
    }

    fn queue_depth(&self) -> u32 {
        DEPTH
    }

    fn is_ordered(&self, entry: &SubmissionEntry) -> bool {
        entry.cdw2.get() != 0
    }
}

pub(super) fn command(opc: u8, cid: u16, bytes: u32, in_capsule: bool) -> SubmissionEntry {
    let dptr = if in_capsule {
        SglDescriptor::new(SglDescriptorType::DataBlock, 1, 0, bytes)
    } else {
        SglDescriptor::new(SglDescriptorType::TransportDataBlock, 0xa, 0, bytes)
    };
    SubmissionEntry { opc, flags: 0x40, cid: cid.into(), cdw12: bytes.into(), dptr, ..SubmissionEntry::default() }
}

/// The data of a command.
pub(super) fn contents(cid: u16, bytes: u32) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(31) ^ u32::from(cid).wrapping_mul(97) ^ at >> 8) as u8).collect()
}

pub(super) fn answer_to(entry: &SubmissionEntry, data: Vec<u8>, sqhd: Option<u16>) -> Answer {
    let (queue, cid) = (QueueId(1), entry.command_id());
    Answer { queue, cid, dw0: 0, dw1: 0, sqhd, status: Status::SUCCESS.into(), data: data.into(), close: false }
}

/// Whole PDUs on their way to the controller.
pub(super) fn wire(pdu: &Pdu, data: &[u8], format: &Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    let follows = encode(pdu, data.len() as u32, format, &mut bytes);
    bytes.extend_from_slice(data);
    if follows.digest {
        bytes.extend_from_slice(&digest(data).to_le_bytes());
    }
    bytes
}

/// Feeds bytes in pieces no larger than `piece` and collects what comes of them.
fn feed(connection: &mut Connection, limits: &Limits, mut bytes: &[u8], piece: usize) -> Result<Vec<Step>, Fatal> {
    let mut steps = Vec::new();
    loop {
        if connection.wants_input(limits) && !bytes.is_empty() {
            let space = connection.space();
            let count = space.len().min(bytes.len()).min(piece);
            assert!(count > 0, "a connection that wants input has room for it");
            space[..count].copy_from_slice(&bytes[..count]);
            connection.received(count);
            bytes = &bytes[count..];
        }
        match connection.step(&Fake, limits)? {
            Step::Idle if bytes.is_empty() || !connection.wants_input(limits) => return Ok(steps),
            Step::Idle => {}
            step => steps.push(step),
        }
    }
}

pub(super) fn sent(connection: &mut Connection) -> Vec<u8> {
    let mut bytes = Vec::new();
    connection.output().send(&mut bytes).unwrap();
    bytes
}

/// The PDUs in `bytes` and the data of each; what is left is cut off.
pub(super) fn pdus(bytes: &mut Vec<u8>, format: &Format) -> Vec<(Pdu, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some((pdu, layout)) = decode(bytes, Direction::ControllerToHost, format).unwrap() {
        let whole = layout.pdu_bytes() as usize;
        if bytes.len() < whole {
            break;
        }
        let data = bytes[layout.data_offset..][..layout.data_bytes as usize].to_vec();
        if layout.data_digest {
            assert_eq!(bytes[whole - 4..whole], digest(&data).to_le_bytes());
        }
        found.push((pdu, data));
        bytes.drain(..whole);
    }
    found
}

pub(super) fn initialize(digests: Digests, alignment: Alignment, max_r2t: u32) -> Pdu {
    Pdu::InitializeRequest(InitializeRequest { format_version: 0, alignment, digests, max_r2t })
}

/// A connection that is ready for commands.
fn ready(limits: &Limits, digests: Digests) -> (Connection, Format) {
    let mut connection = Connection::new();
    let request = wire(&initialize(digests, Alignment::default(), 1), &[], &Format::default());
    assert!(feed(&mut connection, limits, &request, 1000).unwrap().is_empty());
    let mut bytes = sent(&mut connection);
    let answers = pdus(&mut bytes, &Format::default());
    assert!(matches!(answers[..], [(Pdu::InitializeResponse(_), _)]) && bytes.is_empty());
    (connection, Format { digests: digests & limits.digests, alignment: limits.alignment })
}

fn r2t_of(connection: &mut Connection, format: &Format) -> ReadyToTransfer {
    let mut bytes = sent(connection);
    match pdus(&mut bytes, format)[..] {
        [(Pdu::ReadyToTransfer(r2t), _)] => r2t,
        ref other => panic!("one R2T was expected: {other:?}"),
    }
}

fn small() -> Limits {
    Limits { held_bytes: 32 << 10, h2c_data_bytes: 4096, r2t_bytes: 8192, r2ts: 2, ..Limits::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Nearly right streams, cut into pieces: each is taken or ended with a
    /// terminate request, and nothing is held beyond the limits.
    #[test]
    fn broken_streams(
        digests in 0..4u8,
        entries in vec((0..4u8, 0..20u16, 0..9000u32, any::<bool>()), 0..12),
        transfers in vec((0..20u16, 0..6u16, 0..4u32, 0..4000u32, any::<bool>()), 0..6),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        piece in 1..5000usize,
    ) {
        let limits = small();
        let digests = Digests::from_bits_truncate(digests);
        let format = Format { digests, ..Format::default() };
        let (mut connection, _) = ready(&limits, digests);
        let mut bytes = Vec::new();
        for (opc, cid, length, in_capsule) in entries {
            let entry = command(opc, cid, length, in_capsule);
            let data = if in_capsule { contents(cid, length) } else { Vec::new() };
            bytes.extend_from_slice(&wire(&Pdu::CapsuleCommand(entry), &data, &format));
        }
        for (cid, transfer_tag, offset, dwords, last) in transfers {
            let (offset, length) = (offset * 4096, dwords * 4);
            let pdu = Pdu::H2cData(H2cData { command: CommandId(cid), transfer_tag, offset, length, last });
            bytes.extend_from_slice(&wire(&pdu, &contents(cid, length), &format));
        }
        for (at, value) in flips {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] ^= value;
            }
        }
        let result = feed(&mut connection, &limits, &bytes, piece);
        prop_assert!(connection.held_bytes() <= limits.held_bytes + DEPTH as usize * (8192 + 64) + 9000 + 152);
        let mut bytes = sent(&mut connection);
        let answers = pdus(&mut bytes, &format);
        prop_assert!(bytes.is_empty());
        match result {
            Ok(steps) => prop_assert!(steps.len() <= 12),
            Err(Fatal::Violation(error)) => {
                let expected = TerminateRequest::from(&error);
                let last = answers.last().map(|(pdu, _)| *pdu);
                prop_assert_eq!(last, Some(Pdu::C2hTerminate(expected)));
                prop_assert!(matches!(connection.step(&Fake, &limits), Ok(Step::Idle)));
            }
            Err(Fatal::Terminated { .. }) => {}
        }
    }

    #[test]
    fn arbitrary_streams(bytes in vec(any::<u8>(), 0..3000), begun in any::<bool>(), piece in 1..500usize) {
        let limits = small();
        let mut connection = if begun { ready(&limits, Digests::empty()).0 } else { Connection::new() };
        let result = feed(&mut connection, &limits, &bytes, piece);
        prop_assert!(connection.held_bytes() <= limits.held_bytes + DEPTH as usize * (8192 + 64) + 152);
        if bytes.len() >= 8 && (bytes[0] != 4 || !begun) && bytes[2] < 72 {
            prop_assert!(result.is_err());
        }
    }
}

/// What the connection says to `bytes`, which break a rule.
fn violation(connection: &mut Connection, limits: &Limits, bytes: &[u8]) -> PduError {
    match feed(connection, limits, bytes, 100) {
        Err(Fatal::Violation(error)) => {
            let mut answer = sent(connection);
            // The header in error is repeated.
            let offending = bytes.len().min(24);
            assert!(answer.windows(offending).any(|window| window == &bytes[..offending]), "{error}");
            let answers = pdus(&mut answer, &Format::default());
            assert_eq!(answers.last().unwrap().0, Pdu::C2hTerminate(TerminateRequest::from(&error)));
            error
        }
        other => panic!("not refused: {other:?}"),
    }
}

/// A connection whose host was asked for 8192 bytes of command 5's 12288.
fn asked(limits: &Limits) -> (Connection, Format, H2cData) {
    let (mut connection, format) = ready(limits, Digests::empty());
    let capsule = wire(&Pdu::CapsuleCommand(command(WRITE, 5, 12288, false)), &[], &format);
    assert!(feed(&mut connection, limits, &capsule, 7).unwrap().is_empty());
    let r2t = r2t_of(&mut connection, &format);
    assert_eq!((r2t.command, r2t.offset, r2t.length), (CommandId(5), 0, 8192));
    let first = H2cData { command: CommandId(5), transfer_tag: r2t.transfer_tag, offset: 0, length: 4096, last: false };
    (connection, format, first)
}

#[test]
fn transfers_nobody_asked_for() {
    let limits = small();
    let invalid = FatalErrorStatus::InvalidHeaderField;
    type Case = (fn(&mut H2cData), FatalErrorStatus, u32);
    let cases: [Case; 8] = [
        (|data| data.transfer_tag += 1, invalid, Field::TransferTag.offset()),
        (|data| data.command.0 += 1, invalid, Field::CommandId.offset()),
        (|data| data.offset = 4096 + 8, invalid, Field::TransferOffset.offset()),
        (|data| data.offset = 4, invalid, Field::TransferOffset.offset()),
        (|data| data.offset = 8192, FatalErrorStatus::DataTransferOutOfRange, 0),
        (|data| data.offset = 4096 + 4, FatalErrorStatus::DataTransferOutOfRange, 0),
        (|data| data.length = 4100, FatalErrorStatus::LimitExceeded, 0),
        (|data| data.last = true, invalid, Field::Flags.offset()),
    ];
    for (at, (change, status, information)) in cases.into_iter().enumerate() {
        let (mut connection, format, mut data) = asked(&limits);
        // 4096 + 8 with a whole PDU lies beyond the R2T, so it is shortened.
        change(&mut data);
        if data.offset == 4096 + 8 {
            data.length = 8;
        }
        let bytes = wire(&Pdu::H2cData(data), &contents(5, data.length), &format);
        let error = violation(&mut connection, &limits, &bytes);
        assert_eq!((error.status(), error.information()), (status, information), "case {at}: {error}");
    }
    // The same PDU twice, and one that lacks LAST_PDU at the end.
    let (mut connection, format, data) = asked(&limits);
    let bytes = wire(&Pdu::H2cData(data), &contents(5, 4096), &format);
    assert!(feed(&mut connection, &limits, &bytes, 999).unwrap().is_empty());
    assert_eq!(violation(&mut connection, &limits, &bytes).information(), Field::TransferOffset.offset());
    let (mut connection, format, data) = asked(&limits);
    assert!(feed(&mut connection, &limits, &bytes, 999).unwrap().is_empty());
    let open_end = H2cData { offset: 4096, ..data };
    let bytes = wire(&Pdu::H2cData(open_end), &contents(5, 4096), &format);
    assert_eq!(violation(&mut connection, &limits, &bytes).information(), Field::Flags.offset());
}

#[test]
fn a_tag_is_good_for_one_transfer() {
    let limits = small();
    let (mut connection, format, data) = asked(&limits);
    for (offset, last) in [(0, false), (4096, true)] {
        let bytes = wire(&Pdu::H2cData(H2cData { offset, last, ..data }), &contents(5, 4096), &format);
        assert!(feed(&mut connection, &limits, &bytes, 4096).unwrap().is_empty());
    }
    let rest = r2t_of(&mut connection, &format);
    assert_eq!((rest.offset, rest.length), (8192, 4096));
    assert_ne!(rest.transfer_tag, data.transfer_tag);
    let stale = wire(&Pdu::H2cData(H2cData { offset: 8192, last: true, ..data }), &contents(5, 4096), &format);
    assert_eq!(violation(&mut connection, &limits, &stale).information(), Field::TransferTag.offset());
}

#[test]
fn sequence_rules() {
    let limits = small();
    let format = Format::default();
    let sequence = FatalErrorStatus::SequenceError;
    let capsule = wire(&Pdu::CapsuleCommand(command(0, 1, 0, false)), &[], &format);
    assert_eq!(violation(&mut Connection::new(), &limits, &capsule).status(), sequence);
    let request = wire(&initialize(Digests::empty(), Alignment::default(), 1), &[], &format);
    let (mut connection, _) = ready(&limits, Digests::empty());
    assert_eq!(violation(&mut connection, &limits, &request).status(), sequence);
    // One command more than the queue has entries.
    let (mut connection, _) = ready(&limits, Digests::empty());
    for cid in 0..DEPTH as u16 {
        let capsule = wire(&Pdu::CapsuleCommand(command(0, cid, 0, false)), &[], &format);
        assert_eq!(feed(&mut connection, &limits, &capsule, 99).unwrap().len(), 1);
    }
    let capsule = wire(&Pdu::CapsuleCommand(command(0, 99, 0, false)), &[], &format);
    assert_eq!(violation(&mut connection, &limits, &capsule).status(), sequence);
    // More data in a capsule than is taken.
    let (mut connection, _) = ready(&limits, Digests::empty());
    let capsule = wire(&Pdu::CapsuleCommand(command(WRITE, 1, 8196, true)), &contents(1, 8196), &format);
    assert_eq!(violation(&mut connection, &limits, &capsule).information(), Field::Length.offset());
    // The host's own complaint ends the connection without an answer.
    let (mut connection, _) = ready(&limits, Digests::empty());
    let complaint = wire(&Pdu::H2cTerminate(TerminateRequest { status: 2, information: 3 }), &[], &format);
    let ended = feed(&mut connection, &limits, &complaint, 99).unwrap_err();
    assert_eq!(ended, Fatal::Terminated { status: 2, information: 3 });
    assert!(sent(&mut connection).is_empty());
}

#[test]
fn identifiers_in_use_are_refused() {
    let limits = small();
    let (mut connection, format) = ready(&limits, Digests::empty());
    let capsule = wire(&Pdu::CapsuleCommand(command(0, 3, 0, false)), &[], &format);
    assert!(matches!(feed(&mut connection, &limits, &capsule, 99).unwrap()[..], [Step::Command(..)]));
    let entry = match feed(&mut connection, &limits, &capsule, 99).unwrap()[..] {
        [Step::Conflict(entry)] => entry,
        ref other => panic!("{other:?}"),
    };
    let refusal = Answer { status: Status::COMMAND_ID_CONFLICT.into(), ..answer_to(&entry, Vec::new(), Some(1)) };
    connection.answer_conflict(refusal);
    connection.answer(answer_to(&entry, Vec::new(), Some(1)));
    // The identifier is free again, and a second answer goes nowhere.
    connection.answer(answer_to(&entry, Vec::new(), Some(1)));
    let mut bytes = sent(&mut connection);
    assert_eq!(pdus(&mut bytes, &format).len(), 2);
    assert!(matches!(feed(&mut connection, &limits, &capsule, 99).unwrap()[..], [Step::Command(..)]));
}

#[test]
fn wrong_data_digests_end_one_command() {
    let limits = small();
    let (mut connection, format) = ready(&limits, Digests::all());
    let mut capsule = wire(&Pdu::CapsuleCommand(command(WRITE, 1, 4096, true)), &contents(1, 4096), &format);
    *capsule.last_mut().unwrap() ^= 1;
    let steps = feed(&mut connection, &limits, &capsule, 500).unwrap();
    let [Step::Failed(failed, Status::TRANSIENT_TRANSPORT_ERROR)] = steps[..] else { panic!("{steps:?}") };
    // The host may try again: Do Not Retry is clear.
    let status = Status::TRANSIENT_TRANSPORT_ERROR.into();
    connection.answer(Answer { status, ..answer_to(&failed, Vec::new(), Some(0)) });
    let mut bytes = sent(&mut connection);
    let answers = pdus(&mut bytes, &format);
    let [(Pdu::CapsuleResponse(entry), _)] = answers[..] else { panic!("{answers:?}") };
    assert!(!entry.completion_status().do_not_retry);
    // The next is served as if nothing had been: a transfer of two PDUs, the first damaged.
    let capsule = wire(&Pdu::CapsuleCommand(command(WRITE, 2, 8192, false)), &[], &format);
    assert!(feed(&mut connection, &limits, &capsule, 500).unwrap().is_empty());
    let r2t = r2t_of(&mut connection, &format);
    let mut steps = Vec::new();
    for offset in [0, 4096] {
        let (command, transfer_tag) = (r2t.command, r2t.transfer_tag);
        let pdu = Pdu::H2cData(H2cData { command, transfer_tag, offset, length: 4096, last: offset > 0 });
        let mut bytes = wire(&pdu, &contents(2, 4096), &format);
        if offset == 0 {
            bytes[100] ^= 0x80;
        }
        steps.extend(feed(&mut connection, &limits, &bytes, 500).unwrap());
    }
    assert!(matches!(steps[..], [Step::Failed(_, Status::TRANSIENT_TRANSPORT_ERROR)]), "{steps:?}");
    // A wrong header digest ends the connection.
    let mut capsule = wire(&Pdu::CapsuleCommand(command(0, 9, 0, false)), &[], &format);
    capsule[20] ^= 1;
    let error = violation(&mut connection, &limits, &capsule);
    assert_eq!(error.status(), FatalErrorStatus::HeaderDigestError);
}

/// A host that reads no answers is not listened to, and what it has open stays
/// within the limit.
#[test]
fn a_host_that_does_not_read() {
    let limits = small();
    let (mut connection, format) = ready(&limits, Digests::empty());
    let mut taken = 0;
    for round in 0..10_000_u32 {
        let capsule = wire(&Pdu::CapsuleCommand(command(READ, round as u16, 8192, false)), &[], &format);
        if !connection.wants_input(&limits) {
            break;
        }
        for step in feed(&mut connection, &limits, &capsule, 100).unwrap() {
            let Step::Command(entry, _) = step else { panic!("{step:?}") };
            taken += 1;
            connection.answer(answer_to(&entry, contents(entry.cid.get(), 8192), Some(0)));
        }
        if round >= DEPTH {
            break;
        }
        assert!(connection.held_bytes() <= limits.held_bytes + 8192 + 64, "{}", connection.held_bytes());
    }
    assert!((3..=4).contains(&taken), "{taken} reads of 8 KiB fit into 32 KiB");
    // When it reads, the others go on.
    let before = connection.is_runnable(&limits);
    sent(&mut connection);
    assert!(!before && connection.is_runnable(&limits));
}
