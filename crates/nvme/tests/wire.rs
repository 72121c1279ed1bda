//! Wire forms: there and back, and whatever bytes arrive.
#![allow(clippy::unwrap_used)]

use nvme::{
    ChangedZoneList, Closing, Cns, Command, CommandId, CommandSet, CompletionEntry, CompletionStatus, ControllerFacts,
    EncodeError, Epoch, FactsError, IdentifyCommandSet, IdentifyController, IdentifyNamespace, IdentifyZonedController,
    IdentifyZonedNamespace, Lba, LbaRange, NamespaceDescriptors, NamespaceFacts, NamespaceId, NamespaceList, Oncs,
    QueueId, SglDescriptor, SglDescriptorType, Status, Stream, StreamAction, StreamEpoch, SubmissionEntry, WriteOrder,
    ZoneAttributes, ZoneDescriptor, ZoneReceiveAction, ZoneReportFilter, ZoneReportHeader, ZoneSendAction, ZoneState,
    ZonedFacts, ZrwaFacts,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use zerocopy::{FromBytes, IntoBytes};

fn range() -> impl Strategy<Value = LbaRange> {
    (any::<u64>(), 1..=65_536u32).prop_map(|(start, count)| LbaRange { start: Lba(start), count })
}

fn order() -> impl Strategy<Value = WriteOrder> {
    let place =
        || any::<(u16, u16)>().prop_map(|(stream, epoch)| StreamEpoch { stream: Stream(stream), epoch: Epoch(epoch) });
    let closing = prop_oneof![
        Just(Closing::None),
        Just(Closing::ByArrival),
        (1..u32::MAX, any::<u32>())
            .prop_map(|(first_blocks, second_blocks)| Closing::Counted { first_blocks, second_blocks }),
    ];
    (place(), place(), closing).prop_map(|(first, second, closing)| WriteOrder { first, second, closing })
}

fn command() -> impl Strategy<Value = Command> {
    let nsid = || any::<u32>().prop_map(NamespaceId);
    let any_range = (any::<u64>(), any::<u32>()).prop_map(|(start, count)| LbaRange { start: Lba(start), count });
    prop_oneof![
        nsid().prop_map(|nsid| Command::Flush { nsid }),
        (nsid(), range(), any::<bool>()).prop_map(|(nsid, range, fua)| Command::Read { nsid, range, fua }),
        (nsid(), range(), any::<bool>(), order())
            .prop_map(|(nsid, range, fua, order)| Command::ordered_write(nsid, range, fua, order)),
        (nsid(), any::<u16>(), any::<Option<u16>>()).prop_map(|(nsid, stream, first)| {
            let action = first.map_or(StreamAction::Close, |first| StreamAction::Open { first: Epoch(first) });
            Command::StreamManagement { nsid, stream: Stream(stream), action }
        }),
        (nsid(), range(), any::<bool>(), any::<bool>())
            .prop_map(|(nsid, range, fua, deallocate)| Command::WriteZeroes { nsid, range, fua, deallocate }),
        (nsid(), vec(any_range, 1..=256))
            .prop_map(|(nsid, ranges)| Command::Deallocate { nsid, ranges: ranges.into() }),
        (nsid(), range(), any::<bool>()).prop_map(|(nsid, range, fua)| Command::ZoneAppend {
            nsid,
            zone: range.start,
            blocks: range.count,
            fua
        }),
        (nsid(), any::<u64>(), select(ZoneSendAction::ALL), any::<bool>(), any::<bool>()).prop_map(
            |(nsid, start, action, all, zrwa)| Command::ZoneManagementSend {
                nsid,
                start: Lba(start),
                action,
                all,
                zrwa
            }
        ),
        (
            nsid(),
            any::<u64>(),
            select(ZoneReceiveAction::ALL),
            select(ZoneReportFilter::ALL),
            any::<bool>(),
            1..1_u32 << 30
        )
            .prop_map(|(nsid, start, action, filter, partial, dwords)| Command::ZoneManagementReceive {
                nsid,
                start: Lba(start),
                action,
                filter,
                partial,
                bytes: dwords * 4,
            }),
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
    fn any_submission_entry(bytes in prop::array::uniform32(any::<u8>()), opcode in prop_oneof![0..0x20u8, 0x78..0x84u8], data in vec(any::<u8>(), 0..5000)) {
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
        let zoned = IdentifyZonedNamespace::read_from_bytes(&bytes).unwrap();
        let _ = (zoned.max_open(), zoned.max_active(), zoned.reads_across_zones(), zoned.zrwa());
        let _ = IdentifyZonedController::read_from_bytes(&bytes).unwrap().append_limit_bytes();
        let _ = ChangedZoneList::read_from_bytes(&bytes).unwrap().zones().map(Iterator::count);
        let descriptor = ZoneDescriptor::read_from_bytes(&bytes[..64]).unwrap();
        let _ = (descriptor.state(), descriptor.attributes());
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
    let write = Command::write(NamespaceId(1), range, true);
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

/// ZNS figures 25 to 28, 32 to 34, 38 and 39, by hand.
#[test]
fn zoned_commands_byte_by_byte() {
    let nsid = NamespaceId(3);
    let encoded = |command: Command| {
        let (entry, data) = command.encode(CommandId(1)).unwrap();
        assert!(data.is_empty());
        (entry.opc, [entry.cdw10, entry.cdw11, entry.cdw12, entry.cdw13].map(|dword| dword.get()))
    };
    let append = Command::ZoneAppend { nsid, zone: Lba(0x2_0008_0000), blocks: 2, fua: true };
    assert_eq!(encoded(append), (0x7d, [0x0008_0000, 2, 0x4000_0001, 0]));
    let send = |action, all, zrwa| Command::ZoneManagementSend { nsid, start: Lba(0x80000), action, all, zrwa };
    assert_eq!(encoded(send(ZoneSendAction::Reset, true, false)), (0x79, [0x80000, 0, 0, 0x104]));
    assert_eq!(encoded(send(ZoneSendAction::Open, false, true)), (0x79, [0x80000, 0, 0, 0x203]));
    let receive = Command::ZoneManagementReceive {
        nsid,
        start: Lba(0x80000),
        action: ZoneReceiveAction::ExtendedReport,
        filter: ZoneReportFilter::Full,
        partial: true,
        bytes: 4096,
    };
    assert_eq!(encoded(receive), (0x7a, [0x80000, 0, 1023, 0x1_0501]));

    let decoded = |opc, cdw13: u32| {
        Command::decode(&SubmissionEntry { opc, cdw13: cdw13.into(), ..SubmissionEntry::default() }, &[])
    };
    for reserved in [0x00, 0x06, 0x0f, 0x12, 0xff] {
        assert_eq!(decoded(0x79, reserved), Err(Status::INVALID_FIELD));
    }
    for reserved in [0x02, 0x0800, 0x0a00, 0xff00] {
        assert_eq!(decoded(0x7a, reserved), Err(Status::INVALID_FIELD));
    }
    for bytes in [0, 2, 4095] {
        let report = Command::ZoneManagementReceive {
            nsid,
            start: Lba(0),
            action: ZoneReceiveAction::Report,
            filter: ZoneReportFilter::All,
            partial: false,
            bytes,
        };
        assert_eq!(report.encode(CommandId(0)).unwrap_err(), EncodeError::ReportBytes { bytes });
    }
}

/// Of a WD ZN540, and by the byte numbers of ZNS figures 48 to 50.
#[test]
fn zoned_namespaces_say_what_they_are() {
    let facts = ZonedFacts {
        zone_blocks: 524_288,
        max_open: Some(14),
        max_active: Some(14),
        reads_across_zones: true,
        descriptor_extension_bytes: 128,
        zrwa: Some(ZrwaFacts { size_blocks: 256, commit_granularity_blocks: 4, zones_max: 12 }),
    };
    let id = IdentifyZonedNamespace::of(&facts).unwrap();
    let bytes = id.as_bytes();
    assert_eq!(bytes[..12], [0, 0, 3, 0, 13, 0, 0, 0, 13, 0, 0, 0]);
    assert_eq!(bytes[44..53], [11, 0, 0, 0, 4, 0, 0, 1, 1]);
    assert_eq!(bytes[2816..2825], [0, 0, 8, 0, 0, 0, 0, 0, 2]);
    assert_eq!((id.max_open(), id.max_active(), id.reads_across_zones()), (Some(14), Some(14), true));
    assert_eq!(id.zrwa(), facts.zrwa);

    let free = ZonedFacts { max_open: None, max_active: None, reads_across_zones: false, zrwa: None, ..facts };
    let id = IdentifyZonedNamespace::of(&free).unwrap();
    assert_eq!(id.as_bytes()[2..12], [0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!((id.max_open(), id.max_active(), id.zrwa()), (None, None, None));

    for (max_open, max_active) in [(Some(0), None), (Some(3), Some(2)), (None, Some(2)), (Some(1), Some(0))] {
        let error = IdentifyZonedNamespace::of(&ZonedFacts { max_open, max_active, ..facts }).unwrap_err();
        assert_eq!(error, FactsError::ZoneLimits { max_open, max_active });
    }
    for bytes in [1, 65, 16_384] {
        let error = IdentifyZonedNamespace::of(&ZonedFacts { descriptor_extension_bytes: bytes, ..facts });
        assert_eq!(error, Err(FactsError::DescriptorExtension { bytes }));
    }
    let id = IdentifyZonedController::of(Some(128 << 10)).unwrap();
    assert_eq!((id.zasl, id.append_limit_bytes()), (5, Some(128 << 10)));
    assert_eq!(IdentifyZonedController::of(None).unwrap().append_limit_bytes(), None);
    for append_limit_bytes in [0, 4096, 12_288] {
        let error = IdentifyZonedController::of(Some(append_limit_bytes)).unwrap_err();
        assert_eq!(error, FactsError::AppendLimit { append_limit_bytes });
    }
    assert_eq!(IdentifyCommandSet::of(&[CommandSet::Nvm, CommandSet::Zoned]).as_bytes()[..2], [0b101, 0]);
    assert_eq!(NamespaceDescriptors::of(CommandSet::Zoned).as_bytes()[..6], [4, 1, 0, 0, 2, 0]);
}

/// ZNS figures 35, 37 and 46.
#[test]
fn reports_byte_by_byte() {
    assert_eq!(ZoneReportHeader::new(0x0102).to_bytes()[..9], [2, 1, 0, 0, 0, 0, 0, 0, 0]);
    let attributes = ZoneAttributes::EXTENSION_VALID | ZoneAttributes::RESET_RECOMMENDED;
    let descriptor = ZoneDescriptor::new(ZoneState::Closed, attributes, 7, Lba(16), Some(Lba(18)));
    let mut expected = [0; 64];
    expected[..4].copy_from_slice(&[2, 0x40, 0x84, 0]);
    (expected[8], expected[16], expected[24]) = (7, 16, 18);
    assert_eq!(descriptor.to_bytes(), expected);
    assert_eq!((descriptor.state(), descriptor.attributes()), (Some(ZoneState::Closed), attributes));
    let full = ZoneDescriptor::new(ZoneState::Full, ZoneAttributes::empty(), 7, Lba(16), None);
    assert_eq!(full.to_bytes()[24..32], [0xff; 8]);

    let list = ChangedZoneList::of([Lba(16), Lba(48)]);
    assert_eq!(list.as_bytes()[..24], [2, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 48, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(list.zones().unwrap().collect::<Vec<_>>(), [Lba(16), Lba(48)]);
    assert_eq!(ChangedZoneList::of((0..511).map(Lba)).zones().unwrap().count(), 511);
    let overflown = ChangedZoneList::of((0..512).map(Lba));
    assert_eq!(overflown.as_bytes()[..10], [0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert!(overflown.zones().is_none());
}
