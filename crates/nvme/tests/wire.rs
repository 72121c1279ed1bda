//! Wire forms: there and back, and whatever bytes arrive.
#![allow(clippy::unwrap_used)]

use plumb_nvme::{
    Cns, Command, CommandId, CompletionEntry, CompletionStatus, ControllerFacts, EncodeError, FactsError,
    IdentifyController, IdentifyNamespace, Lba, LbaRange, NamespaceFacts, NamespaceId, NamespaceList, Oncs, QueueId,
    SglDescriptor, SglDescriptorType, Status, SubmissionEntry,
};
use proptest::collection::vec;
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

fn range() -> impl Strategy<Value = LbaRange> {
    (any::<u64>(), 1..=65_536u32).prop_map(|(start, count)| LbaRange { start: Lba(start), count })
}

fn command() -> impl Strategy<Value = Command> {
    let nsid = || any::<u32>().prop_map(NamespaceId);
    let any_range = (any::<u64>(), any::<u32>()).prop_map(|(start, count)| LbaRange { start: Lba(start), count });
    prop_oneof![
        nsid().prop_map(|nsid| Command::Flush { nsid }),
        (nsid(), range(), any::<bool>()).prop_map(|(nsid, range, fua)| Command::Read { nsid, range, fua }),
        (nsid(), range(), any::<bool>()).prop_map(|(nsid, range, fua)| Command::Write { nsid, range, fua }),
        (nsid(), range(), any::<bool>(), any::<bool>())
            .prop_map(|(nsid, range, fua, deallocate)| Command::WriteZeroes { nsid, range, fua, deallocate }),
        (nsid(), vec(any_range, 1..=256))
            .prop_map(|(nsid, ranges)| Command::Deallocate { nsid, ranges: ranges.into() }),
    ]
}

proptest! {
    #[test]
    fn commands_there_and_back(command in command(), cid in any::<u16>()) {
        let (entry, data) = command.encode(CommandId(cid)).unwrap();
        let bytes: [u8; 64] = entry.as_bytes().try_into().unwrap();
        let read = SubmissionEntry::read_from_bytes(&bytes).unwrap();
        prop_assert_eq!(read.command_id(), CommandId(cid));
        prop_assert_eq!(Command::decode(&read, &data), Ok(command));
    }

    #[test]
    fn statuses_there_and_back(bits in any::<u16>(), code_type in 0..8u8, code in any::<u8>()) {
        prop_assert_eq!(u16::from(CompletionStatus::from(bits)), bits);
        let status = CompletionStatus::from(Status { code_type, code });
        prop_assert_eq!(CompletionStatus::from(u16::from(status)), status);
        let entry = CompletionEntry::new(QueueId(3), CommandId(4), 5, status);
        let entry = CompletionEntry::read_from_bytes(entry.as_bytes()).unwrap();
        prop_assert_eq!(entry.completion_status().status, Status { code_type, code });
    }

    /// No bytes make decoding panic, and what decodes encodes to the same.
    #[test]
    fn any_submission_entry(bytes in prop::array::uniform32(any::<u8>()), opcode in 0..0x20u8, data in vec(any::<u8>(), 0..5000)) {
        let mut entry = SubmissionEntry::default();
        entry.as_mut_bytes()[32..].copy_from_slice(&bytes);
        entry.as_mut_bytes()[..32].copy_from_slice(&bytes);
        for candidate in [entry, SubmissionEntry { opc: opcode, flags: 0, ..entry }] {
            let _ = (candidate.prps(), candidate.dptr.descriptor_type());
            if let Ok(command) = Command::decode(&candidate, &data) {
                match command.encode(candidate.command_id()) {
                    Ok((again, data)) => prop_assert_eq!(Command::decode(&again, &data), Ok(command)),
                    // Dataset Management without the attribute: no ranges.
                    Err(error) => prop_assert_eq!(error, EncodeError::Ranges { count: 0 }),
                }
            }
        }
    }

    #[test]
    fn any_identify_page(bytes in vec(any::<u8>(), 4096)) {
        let controller = IdentifyController::read_from_bytes(&bytes).unwrap();
        let _ = (controller.max_transfer_bytes(), controller.capacity_bytes());
        let namespace = IdentifyNamespace::read_from_bytes(&bytes).unwrap();
        let _ = (namespace.format(), namespace.lba_bytes());
        let _ = NamespaceList::read_from_bytes(&bytes).unwrap().iter().count();
        prop_assert_eq!(controller.as_bytes(), &bytes[..]);
        prop_assert_eq!(namespace.as_bytes(), &bytes[..]);
    }

    #[test]
    fn namespaces_say_what_they_are(blocks in any::<u64>(), shift in 9..17u32, preferred in any::<u16>()) {
        let facts = NamespaceFacts {
            blocks,
            used_blocks: blocks / 2,
            lba_bytes: 1 << shift,
            preferred_write_blocks: preferred,
            deallocated_reads_zeroes: true,
        };
        let id = IdentifyNamespace::of(&facts).unwrap();
        prop_assert_eq!(id.lba_bytes(), Some(1 << shift));
        prop_assert_eq!((id.nsze.get(), id.ncap.get(), id.nuse.get()), (blocks, blocks, blocks / 2));
        prop_assert_eq!(id.nsfeat & 1 << 4 != 0, preferred > 0);
        if preferred > 0 {
            prop_assert_eq!(id.npwg.get(), preferred - 1);
        }
    }
}

/// A 4 KiB FUA write of LBA 0x1_0000_0002, 512-byte blocks, by hand.
#[test]
fn a_write_byte_by_byte() {
    let range = LbaRange { start: Lba(0x1_0000_0002), count: 8 };
    let write = Command::Write { nsid: NamespaceId(1), range, fua: true };
    let (mut entry, data) = write.encode(CommandId(0x1234)).unwrap();
    entry.dptr = SglDescriptor::new(SglDescriptorType::TransportDataBlock, 0xa, 0, 4096);
    let mut expected = [0; 64];
    expected[..8].copy_from_slice(&[0x01, 0, 0x34, 0x12, 1, 0, 0, 0]);
    expected[32..40].copy_from_slice(&[0, 0x10, 0, 0, 0, 0, 0, 0x5a]);
    expected[40..52].copy_from_slice(&[2, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0x40]);
    assert_eq!(entry.as_bytes(), expected);
    assert!(data.is_empty());
    assert_eq!(entry.dptr.descriptor_type(), Some(SglDescriptorType::TransportDataBlock));
    assert_eq!(entry.dptr.subtype(), 0xa);
}

#[test]
fn dataset_management_byte_by_byte() {
    let ranges =
        [LbaRange { start: Lba(8), count: 16 }, LbaRange { start: Lba(0x0102_0304_0506_0708), count: u32::MAX }];
    let trim = Command::Deallocate { nsid: NamespaceId(2), ranges: ranges.into() };
    let (entry, data) = trim.encode(CommandId(0)).unwrap();
    assert_eq!((entry.opc, entry.cdw10.get(), entry.cdw11.get()), (0x09, 1, 4));
    assert_eq!(data[..16], [0, 0, 0, 0, 16, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(data[16..], [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(Command::decode(&entry, &data[..31]), Err(Status::DATA_TRANSFER_ERROR));
}

#[test]
fn refused_by_a_controller_or_by_the_encoder() {
    let flush = SubmissionEntry::default();
    assert_eq!(Command::decode(&flush, &[]), Ok(Command::Flush { nsid: NamespaceId(0) }));
    for (entry, status) in [
        (SubmissionEntry { flags: 0b01, ..flush }, Status::INVALID_FIELD),
        (SubmissionEntry { flags: 0b1100_0000, ..flush }, Status::INVALID_FIELD),
        (SubmissionEntry { opc: 0x7f, ..flush }, Status::INVALID_OPCODE),
        // Compare: an opcode of the set that no modelled device takes.
        (SubmissionEntry { opc: 0x05, ..flush }, Status::INVALID_OPCODE),
    ] {
        assert_eq!(Command::decode(&entry, &[]), Err(status));
    }
    for count in [0, 65_537] {
        let range = LbaRange { start: Lba(0), count };
        let read = Command::Read { nsid: NamespaceId(1), range, fua: false };
        assert_eq!(read.encode(CommandId(0)).unwrap_err(), EncodeError::Blocks { count });
    }
    let range = LbaRange { start: Lba(0), count: 1 };
    let trim = Command::Deallocate { nsid: NamespaceId(1), ranges: vec![range; 257].into() };
    assert_eq!(trim.encode(CommandId(0)).unwrap_err(), EncodeError::Ranges { count: 257 });
}

fn facts() -> ControllerFacts {
    ControllerFacts {
        serial: "PLUMB0001".to_owned(),
        model: "Plumb modelled SSD".to_owned(),
        firmware: "0.1.0".to_owned(),
        subnqn: "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001".to_owned(),
        capacity_bytes: 1_000_204_886_016,
        namespaces: 1,
        max_transfer_bytes: Some(2 << 20),
        queue_depth: 1024,
        oncs: Oncs::DATASET_MANAGEMENT | Oncs::WRITE_ZEROES,
        volatile_write_cache: true,
    }
}

/// By the byte numbers of Base figure 275, not by our fields.
#[test]
fn controllers_say_what_they_are() {
    let id = IdentifyController::of(&facts()).unwrap();
    let bytes = id.as_bytes();
    assert_eq!(&bytes[4..24], b"PLUMB0001           ");
    assert_eq!(&bytes[24..64], format!("{:40}", "Plumb modelled SSD").as_bytes());
    assert_eq!(&bytes[64..72], b"0.1.0   ");
    assert_eq!(bytes[77], 9, "2 MiB are 2^9 pages");
    assert_eq!(bytes[80..84], [0, 0, 2, 0]);
    assert_eq!(bytes[111], 1, "I/O controller");
    assert_eq!(bytes[280..288], 1_000_204_886_016u64.to_le_bytes());
    assert_eq!(bytes[512..514], [0x66, 0x44]);
    assert_eq!(bytes[516..522], [1, 0, 0, 0, 0x0c, 0]);
    assert_eq!(bytes[525], 0b111);
    assert_eq!(bytes[768..768 + 16], *b"nqn.2014-08.org.");
    assert_eq!(bytes[768 + facts().subnqn.len()..1024], vec![0; 256 - facts().subnqn.len()]);
    assert_eq!((id.max_transfer_bytes(), id.capacity_bytes()), (Some(2 << 20), 1_000_204_886_016));

    let protected = ControllerFacts { volatile_write_cache: false, max_transfer_bytes: None, ..facts() };
    let id = IdentifyController::of(&protected).unwrap();
    assert_eq!((id.as_bytes()[525] & 1, id.max_transfer_bytes()), (0, None));
}

#[test]
fn facts_without_a_form() {
    for max_transfer_bytes in [0, 512, 4096, 12_288] {
        let facts = ControllerFacts { max_transfer_bytes: Some(max_transfer_bytes), ..facts() };
        assert_eq!(IdentifyController::of(&facts), Err(FactsError::MaxTransfer { max_transfer_bytes }));
    }
    for serial in ["longer than twenty characters", "tab\t", "\u{e9}"] {
        let facts = ControllerFacts { serial: serial.to_owned(), ..facts() };
        let error = IdentifyController::of(&facts).unwrap_err();
        assert!(matches!(error, FactsError::Text { field: "SN", limit: 20, .. }), "{error}");
    }
    let namespace = NamespaceFacts {
        blocks: 1,
        used_blocks: 0,
        lba_bytes: 520,
        preferred_write_blocks: 0,
        deallocated_reads_zeroes: false,
    };
    assert_eq!(IdentifyNamespace::of(&namespace), Err(FactsError::LbaBytes { lba_bytes: 520 }));
    assert_eq!(Cns::from_cdw10(1), Some(Cns::Controller));
}
