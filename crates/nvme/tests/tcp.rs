//! NVMe/TCP PDUs: there and back, cut anywhere, and whatever bytes arrive.
#![allow(clippy::unwrap_used)]

use nvme::tcp::{
    Alignment, C2hData, Digests, Direction, FatalErrorStatus, Field, Format, H2cData, InitializeRequest,
    InitializeResponse, Layout, MAX_OFFENDING_BYTES, Pdu, PduError, PduType, ReadyToTransfer, TerminateRequest, decode,
    digest, encode, header_bytes,
};
use nvme::{CommandId, CompletionEntry, SubmissionEntry};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use zerocopy::FromBytes;

fn format() -> impl Strategy<Value = Format> {
    (0..4u8, 0..=Alignment::MAX).prop_map(|(digests, alignment)| Format {
        digests: Digests::from_bits_truncate(digests),
        alignment: Alignment::from_field(alignment).unwrap(),
    })
}

/// Offset and length of a transfer: whole dwords.
fn extent() -> impl Strategy<Value = (u32, u32)> {
    (0..1u32 << 20, 1..600u32).prop_map(|(offset, length)| (offset * 4, length * 4))
}

/// A PDU and the size of data that goes with it.
fn pdu() -> impl Strategy<Value = (Pdu, u32)> {
    let alignment = || (0..=Alignment::MAX).prop_map(|field| Alignment::from_field(field).unwrap());
    let digests = || (0..4u8).prop_map(Digests::from_bits_truncate);
    let terminate = || {
        (any::<u16>(), any::<u32>(), 0..=MAX_OFFENDING_BYTES as u32)
            .prop_map(|(status, information, bytes)| (TerminateRequest { status, information }, bytes))
    };
    prop_oneof![
        (alignment(), digests(), 1..=u32::MAX).prop_map(|(alignment, digests, max_r2t)| {
            (Pdu::InitializeRequest(InitializeRequest { format_version: 0, alignment, digests, max_r2t }), 0)
        }),
        (alignment(), digests(), 1024..=u32::MAX / 4).prop_map(|(alignment, digests, dwords)| {
            let max_h2c_data_bytes = dwords * 4;
            let response = InitializeResponse { format_version: 0, alignment, digests, max_h2c_data_bytes };
            (Pdu::InitializeResponse(response), 0)
        }),
        terminate().prop_map(|(request, bytes)| (Pdu::H2cTerminate(request), bytes)),
        terminate().prop_map(|(request, bytes)| (Pdu::C2hTerminate(request), bytes)),
        (any::<[u8; 64]>(), 0..9000u32)
            .prop_map(|(sqe, bytes)| (Pdu::CapsuleCommand(SubmissionEntry::read_from_bytes(&sqe).unwrap()), bytes)),
        any::<[u8; 16]>().prop_map(|cqe| (Pdu::CapsuleResponse(CompletionEntry::read_from_bytes(&cqe).unwrap()), 0)),
        (any::<u16>(), any::<u16>(), extent(), any::<bool>()).prop_map(
            |(cid, transfer_tag, (offset, length), last)| {
                (Pdu::H2cData(H2cData { command: CommandId(cid), transfer_tag, offset, length, last }), length)
            }
        ),
        (any::<u16>(), extent(), any::<bool>(), any::<bool>()).prop_map(|(cid, (offset, length), last, success)| {
            let success = success && last;
            (Pdu::C2hData(C2hData { command: CommandId(cid), offset, length, last, success }), length)
        }),
        (any::<u16>(), any::<u16>(), extent()).prop_map(|(cid, transfer_tag, (offset, length))| {
            (Pdu::ReadyToTransfer(ReadyToTransfer { command: CommandId(cid), transfer_tag, offset, length }), 0)
        }),
    ]
}

/// The whole PDU on the wire.
fn wire(pdu: &Pdu, data_bytes: u32, format: &Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    let follows = encode(pdu, data_bytes, format, &mut bytes);
    let data: Vec<u8> = (0..follows.bytes).map(|at| at as u8 ^ 0x5a).collect();
    bytes.extend_from_slice(&data);
    if follows.digest {
        bytes.extend_from_slice(&digest(&data).to_le_bytes());
    }
    bytes
}

fn plen(bytes: &[u8]) -> u64 {
    u64::from(u32::from_le_bytes(bytes[4..8].try_into().unwrap()))
}

proptest! {
    #[test]
    fn there_and_back((pdu, data_bytes) in pdu(), format in format()) {
        let bytes = wire(&pdu, data_bytes, &format);
        let direction = pdu.pdu_type().direction();
        prop_assert_eq!(plen(&bytes), bytes.len() as u64);
        let header = header_bytes(&bytes, direction, &format).unwrap().unwrap();
        let (decoded, layout) = decode(&bytes[..header], direction, &format).unwrap().unwrap();
        prop_assert_eq!(decoded, pdu);
        prop_assert_eq!(layout.header_bytes, header);
        prop_assert_eq!(layout.pdu_bytes(), bytes.len() as u64);
        prop_assert_eq!(layout.data_bytes, data_bytes);
        if layout.data_bytes > 0 && layout.pdu_type.has_data() {
            prop_assert_eq!(layout.data_offset % format.alignment.bytes(), 0);
            prop_assert!(bytes[header..layout.data_offset].iter().all(|padding| *padding == 0));
        }
    }

    /// A receiver is told to wait until the header is there, and never earlier
    /// or later.
    #[test]
    fn cut_anywhere((pdu, data_bytes) in pdu(), format in format()) {
        let bytes = wire(&pdu, data_bytes, &format);
        let direction = pdu.pdu_type().direction();
        let needed = header_bytes(&bytes, direction, &format).unwrap().unwrap();
        for cut in 0..bytes.len() {
            let announced = header_bytes(&bytes[..cut], direction, &format).unwrap();
            prop_assert_eq!(announced, (cut >= 8).then_some(needed));
            let decoded = decode(&bytes[..cut], direction, &format).unwrap();
            prop_assert_eq!(decoded.is_some(), cut >= needed);
        }
    }

    /// Arbitrary headers are decoded or refused with a status and a field that
    /// lies in the header; what is decoded is encoded alike.
    #[test]
    fn arbitrary_bytes(mut bytes in vec(any::<u8>(), 0..140), fix in any::<bool>(), pdu in select(PduType::ALL), format in format()) {
        if fix && bytes.len() > 8 {
            bytes[0] = pdu as u8;
            bytes[2] = pdu.header_length();
            bytes[6] = 0;
            bytes[7] = 0;
        }
        for direction in [Direction::HostToController, Direction::ControllerToHost] {
            match decode(&bytes, direction, &format) {
                Ok(Some((decoded, layout))) => {
                    prop_assert_eq!(decoded.pdu_type(), layout.pdu_type);
                    prop_assert!(layout.data_offset >= layout.header_bytes);
                    prop_assert_eq!(layout.pdu_bytes(), plen(&bytes));
                    let again = wire(&decoded, layout.data_bytes.min(1 << 16), &format);
                    let (same, _) = decode(&again, direction, &format).unwrap().unwrap();
                    prop_assert_eq!(same, decoded);
                }
                Ok(None) => prop_assert!(bytes.len() < 132),
                Err(error) => {
                    prop_assert!(bytes.len() >= 8);
                    if error.status() != FatalErrorStatus::HeaderDigestError {
                        prop_assert!(error.information() < 20, "{}", error);
                    }
                    prop_assert!(!error.to_string().is_empty());
                }
            }
        }
    }

    /// Whatever bit of a header flips on the way, a header digest finds it, or
    /// the header can no longer be one.
    #[test]
    fn flipped_bits(
        (pdu, data_bytes) in pdu().prop_filter("it has no digests", |(pdu, _)| pdu.pdu_type().has_digests()),
        at in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let format = Format { digests: Digests::all(), ..Format::default() };
        let mut bytes = wire(&pdu, data_bytes, &format);
        let header = format.header_bytes(pdu.pdu_type());
        bytes[at.index(header)] ^= 1 << bit;
        match decode(&bytes, pdu.pdu_type().direction(), &format) {
            Err(_) => {}
            Ok(None) => prop_assert!(false, "more bytes are waited for"),
            // What has become a request to end the connection, which has no digests, ends it.
            Ok(Some((read, _))) => prop_assert!(!read.pdu_type().has_digests()),
        }
    }
}

/// Refuses `bytes` with this status and information.
fn refused(bytes: &[u8], format: &Format) -> (FatalErrorStatus, u32) {
    let error = decode(bytes, Direction::HostToController, format).unwrap_err();
    (error.status(), error.information())
}

#[test]
fn each_wrong_field_is_named() {
    let format = Format::default();
    let capsule = wire(&Pdu::CapsuleCommand(SubmissionEntry::default()), 512, &format);
    let data = H2cData { command: CommandId(1), transfer_tag: 2, offset: 8, length: 16, last: true };
    let transfer = wire(&Pdu::H2cData(data), 0, &format);
    let request =
        InitializeRequest { format_version: 0, alignment: Alignment::default(), digests: Digests::empty(), max_r2t: 1 };
    let initialize = wire(&Pdu::InitializeRequest(request), 0, &format);
    let invalid = |field: Field| (FatalErrorStatus::InvalidHeaderField, field.offset());
    type Case<'a> = (&'a [u8], usize, u8, (FatalErrorStatus, u32));
    let cases: &[Case] = &[
        (&capsule, 0, 0x08, invalid(Field::Type)),
        (&capsule, 0, 0x0a, invalid(Field::Type)),
        // An ICResp is the controller's to send.
        (&capsule, 0, 0x01, invalid(Field::Type)),
        (&capsule, 1, 0x01, invalid(Field::Flags)),
        (&capsule, 1, 0x02, invalid(Field::Flags)),
        (&capsule, 2, 71, invalid(Field::HeaderLength)),
        (&capsule, 3, 68, invalid(Field::DataOffset)),
        (&capsule, 3, 73, invalid(Field::DataOffset)),
        (&transfer, 4, 24, invalid(Field::Length)),
        (&transfer, 4, 23, invalid(Field::Length)),
        (&transfer, 4, 36, invalid(Field::TransferLength)),
        (&transfer, 12, 9, invalid(Field::TransferOffset)),
        (&transfer, 16, 12, invalid(Field::TransferLength)),
        (&initialize, 4, 129, invalid(Field::Length)),
        (&initialize, 10, 32, invalid(Field::Alignment)),
        (&initialize, 8, 1, (FatalErrorStatus::UnsupportedParameter, 8)),
    ];
    for (bytes, at, value, expected) in cases {
        let mut bytes = bytes.to_vec();
        bytes[*at] = *value;
        assert_eq!(refused(&bytes, &format), *expected, "byte {at} is {value:#x}");
    }
    // PLEN of just header and data offset: no data behind the padding.
    let mut bytes = capsule.clone();
    bytes[3] = 84;
    bytes[4..8].copy_from_slice(&84u32.to_le_bytes());
    assert_eq!(refused(&bytes, &format), invalid(Field::Length));
    bytes[4..8].copy_from_slice(&71u32.to_le_bytes());
    assert_eq!(refused(&bytes, &format), invalid(Field::Length));
}

#[test]
fn digests_that_were_not_agreed_on() {
    let with = Format { digests: Digests::all(), ..Format::default() };
    let capsule = Pdu::CapsuleCommand(SubmissionEntry::default());
    let invalid = (FatalErrorStatus::InvalidHeaderField, Field::Flags.offset());
    assert_eq!(refused(&wire(&capsule, 512, &with), &Format::default()), invalid);
    // Without its digest, the header is digested with what follows it.
    let (status, _) = refused(&wire(&capsule, 512, &Format::default()), &with);
    assert_eq!(status, FatalErrorStatus::HeaderDigestError);
    let mut bytes = wire(&capsule, 512, &with);
    bytes[72] ^= 1;
    let received = u32::from_le_bytes(bytes[72..76].try_into().unwrap());
    assert_eq!(refused(&bytes, &with), (FatalErrorStatus::HeaderDigestError, received));
}

/// ICReq as the Linux kernel 6.12 sends it with both digests
/// (drivers/nvme/host/tcp.c, nvme_tcp_init_connection), byte by byte.
#[test]
fn linux_initialize_request() {
    let mut bytes = [0; 128];
    bytes[..8].copy_from_slice(&[0, 0, 128, 0, 128, 0, 0, 0]);
    bytes[11] = 3;
    let (pdu, layout) = decode(&bytes, Direction::HostToController, &Format::default()).unwrap().unwrap();
    let expected =
        InitializeRequest { format_version: 0, alignment: Alignment::default(), digests: Digests::all(), max_r2t: 1 };
    assert_eq!(pdu, Pdu::InitializeRequest(expected));
    assert_eq!((layout.header_bytes, layout.data_bytes), (128, 0));
    let Layout { pdu_type, .. } = layout;
    assert_eq!(pdu_type, PduType::InitializeRequest);
}

#[test]
fn terminate_requests_say_what_was_wrong() {
    let error = PduError::OutOfRange { offset: 8, length: 16, end: 12 };
    let request = TerminateRequest::from(&error);
    assert_eq!(request.fatal_error(), Some(FatalErrorStatus::DataTransferOutOfRange));
    let error = PduError::Field { field: Field::TransferTag, value: 9 };
    assert_eq!(TerminateRequest::from(&error), TerminateRequest { status: 1, information: 10 });
    let bytes = wire(&Pdu::C2hTerminate(request), 128, &Format::default());
    assert_eq!(bytes.len(), 152);
    let mut long = bytes.clone();
    long[4] = 153;
    assert!(decode(&long, Direction::ControllerToHost, &Format::default()).is_err());
}
