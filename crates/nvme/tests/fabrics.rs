//! Fabrics commands, log pages and authentication messages: there and back, and
//! whatever bytes arrive.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;

use nvme::authentication::{
    AuthenticationFailure, AuthenticationHash, AuthenticationReply, ControllerMessage, DhGroup, HostMessage,
    Negotiation,
};
use nvme::{
    AdminOpcode, AsynchronousEvent, CommandEffects, CommandEffectsLog, CommandId, ConnectData, ConnectResult,
    DiscoveryFacts, DiscoveryLogEntry, EventConfiguration, FabricsCommand, FactsError, GetFeatures, GetLogPage,
    HealthFacts, HealthLog, IoOpcode, LogPage, NamespaceId, QueueId, SecurityFields, SetFeatures, SubmissionEntry,
    SubsystemType, SupportedLogPages, nqn_of,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use zerocopy::{FromBytes, IntoBytes};

fn fabrics_command() -> impl Strategy<Value = FabricsCommand> {
    let security = || {
        (any::<u8>(), any::<u16>(), any::<u32>()).prop_map(|(protocol, specific, bytes)| SecurityFields {
            protocol,
            specific,
            bytes,
        })
    };
    prop_oneof![
        (any::<u32>(), any::<bool>(), any::<u64>()).prop_map(|(offset, wide, value)| FabricsCommand::PropertySet {
            offset,
            wide,
            value
        }),
        (any::<u16>(), any::<u16>(), any::<u16>(), any::<bool>(), any::<u32>()).prop_map(
            |(format, queue, size_zero_based, disable_flow_control, keep_alive_ms)| FabricsCommand::Connect {
                format,
                queue: QueueId(queue),
                size_zero_based,
                disable_flow_control,
                keep_alive_ms
            }
        ),
        (any::<u32>(), any::<bool>()).prop_map(|(offset, wide)| FabricsCommand::PropertyGet { offset, wide }),
        security().prop_map(FabricsCommand::AuthenticationSend),
        security().prop_map(FabricsCommand::AuthenticationReceive),
        any::<u16>().prop_map(|format| FabricsCommand::Disconnect { format }),
    ]
}

const HASHES: [AuthenticationHash; 3] =
    [AuthenticationHash::Sha256, AuthenticationHash::Sha384, AuthenticationHash::Sha512];
const GROUPS: [DhGroup; 6] =
    [DhGroup::Null, DhGroup::Ffdhe2048, DhGroup::Ffdhe3072, DhGroup::Ffdhe4096, DhGroup::Ffdhe6144, DhGroup::Ffdhe8192];

fn host_message() -> impl Strategy<Value = HostMessage> {
    let negotiation = (
        any::<u16>(),
        any::<u8>(),
        subsequence(HASHES.to_vec(), 0..=3).prop_shuffle(),
        subsequence(GROUPS.to_vec(), 0..=6).prop_shuffle(),
    )
        .prop_map(|(transaction, secure_channel, hashes, groups)| {
            HostMessage::Negotiate(Negotiation { transaction, secure_channel, hashes, groups })
        });
    let reply = (any::<u16>(), any::<u32>(), select(HASHES.to_vec()), any::<bool>(), any::<u8>(), 0..600_usize)
        .prop_map(|(transaction, sequence, hash, challenged, byte, exponential)| {
            HostMessage::Reply(AuthenticationReply {
                transaction,
                response: vec![byte; hash.bytes()],
                challenge: challenged.then(|| vec![!byte; hash.bytes()]),
                sequence,
                exponential: vec![byte; exponential],
            })
        });
    prop_oneof![
        negotiation,
        reply,
        any::<u16>().prop_map(|transaction| HostMessage::Success2 { transaction }),
        any::<(u16, u8)>().prop_map(|(transaction, explanation)| HostMessage::Failure2 { transaction, explanation }),
    ]
}

fn controller_message() -> impl Strategy<Value = ControllerMessage> {
    let hash = || select(HASHES.to_vec());
    prop_oneof![
        (any::<u16>(), hash(), select(GROUPS.to_vec()), any::<u32>(), any::<u8>()).prop_map(
            |(transaction, hash, group, sequence, byte)| ControllerMessage::Challenge {
                transaction,
                hash,
                group,
                sequence,
                challenge: vec![byte; hash.bytes()],
                exponential: vec![!byte; group.bytes()],
            }
        ),
        (any::<u16>(), hash(), any::<Option<u8>>()).prop_map(|(transaction, hash, byte)| ControllerMessage::Success1 {
            transaction,
            hash,
            response: byte.map(|byte| vec![byte; hash.bytes()])
        }),
        any::<u16>().prop_map(|transaction| ControllerMessage::Failure1 {
            transaction,
            failure: AuthenticationFailure::HashNotUsable
        }),
    ]
}

proptest! {
    #[test]
    fn fabrics_commands_there_and_back(command in fabrics_command(), cid in any::<u16>()) {
        let entry = command.encode(CommandId(cid));
        prop_assert_eq!(entry.opc, AdminOpcode::Fabrics as u8);
        let read = SubmissionEntry::read_from_bytes(entry.as_bytes()).unwrap();
        prop_assert_eq!(read.command_id(), CommandId(cid));
        prop_assert_eq!(FabricsCommand::decode(&read), Ok(command));
    }

    #[test]
    fn authentication_messages_there_and_back(host in host_message(), controller in controller_message()) {
        prop_assert_eq!(HostMessage::parse(&host.to_bytes()), Ok(host));
        prop_assert_eq!(ControllerMessage::parse(&controller.to_bytes()), Some(controller));
    }

    /// A message that ends early is refused, whatever it was.
    #[test]
    fn cut_messages_are_refused(
        host in host_message().prop_filter("its reserved end is not looked at", |host| !matches!(host, HostMessage::Success2 { .. })),
        keep in 0.0..1.0_f64,
    ) {
        let bytes = host.to_bytes();
        let kept = (bytes.len() as f64 * keep) as usize;
        prop_assert_eq!(HostMessage::parse(&bytes[..kept]), Err(AuthenticationFailure::IncorrectPayload));
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..2048), type_and_id in (0..2_u8, select(vec![0, 1, 2, 3, 4, 0xf0, 0xf1]))) {
        let mut bytes = bytes;
        let _ = (HostMessage::parse(&bytes), ControllerMessage::parse(&bytes));
        if let [kind, message, ..] = &mut *bytes {
            (*kind, *message) = type_and_id;
        }
        let _ = (HostMessage::parse(&bytes), ControllerMessage::parse(&bytes));
        bytes.resize(2048, 0);
        let entry = SubmissionEntry::read_from_bytes(&bytes[..64]).unwrap();
        let _ = (FabricsCommand::decode(&entry), GetFeatures::decode(&entry), SetFeatures::decode(&entry));
        let log = GetLogPage::decode(&entry);
        prop_assert!(log.bytes >= 4 && log.bytes <= 1 << 34);
        let data = ConnectData::read_from_bytes(&bytes[1024..]).unwrap();
        let _ = (nqn_of(&data.subnqn), nqn_of(&data.hostnqn));
    }

    #[test]
    fn log_page_commands_there_and_back(
        (identifier, specific, retain_event, dwords) in (any::<u8>(), 0..128_u8, any::<bool>(), 1..=1_u64 << 32),
        (offset, index_offset, command_set, nsid) in (any::<u64>(), any::<bool>(), any::<u8>(), any::<u32>()),
    ) {
        let nsid = NamespaceId(nsid);
        let bytes = dwords * 4;
        let command =
            GetLogPage { identifier, specific, retain_event, bytes, offset, index_offset, command_set, nsid };
        let mut entry = SubmissionEntry::default();
        command.encode(&mut entry);
        prop_assert_eq!(GetLogPage::decode(&entry), command);
    }

    /// Data units are thousands of 512 bytes, rounded up (Base figure 207).
    #[test]
    fn data_units(read_bytes in any::<u64>(), written_bytes in 0..10_000_000_u64) {
        let log = HealthLog::of(&HealthFacts { read_bytes, written_bytes, ..HealthFacts::default() });
        let units = u128::from_le_bytes(log.data_units_read);
        prop_assert!(units * 512_000 >= u128::from(read_bytes));
        prop_assert!(units == 0 || (units - 1) * 512_000 < u128::from(read_bytes));
        let blocks = written_bytes.div_ceil(512);
        prop_assert_eq!(u128::from_le_bytes(log.data_units_written), u128::from(blocks.div_ceil(1000)));
    }
}

/// Linux's Connect for an admin queue of 32 entries, by hand (Base figure 380).
#[test]
fn a_connect_byte_by_byte() {
    let entry = FabricsCommand::Connect {
        format: 0,
        queue: QueueId(3),
        size_zero_based: 31,
        disable_flow_control: true,
        keep_alive_ms: 5000,
    }
    .encode(CommandId(0x0102));
    let bytes = entry.as_bytes();
    assert_eq!(bytes[..8], [0x7f, 0, 2, 1, 1, 0, 0, 0]);
    assert_eq!(bytes[40..52], [0, 0, 3, 0, 31, 0, 4, 0, 0x88, 0x13, 0, 0]);
    let connected = ConnectResult::Connected { cntlid: 7, authentication_required: true };
    assert_eq!(connected.dword(), 0x0002_0007);
    assert_eq!(ConnectResult::InvalidParameter { offset: 256, in_data: true }.dword(), 0x0001_0100);
    let send = FabricsCommand::AuthenticationSend(SecurityFields { protocol: 0xe9, specific: 0x0101, bytes: 8 });
    assert_eq!(send.encode(CommandId(0)).as_bytes()[40..48], [0, 1, 1, 0xe9, 8, 0, 0, 0]);
}

/// Linux's AUTH_Negotiate, by hand (Base 8.13.5.2).
#[test]
fn a_negotiation_byte_by_byte() {
    let mut bytes = vec![0, 0, 0, 0, 0x34, 0x12, 0, 1, 1, 0, 3, 6];
    bytes.extend([1, 2, 3]);
    bytes.resize(8 + 34, 0);
    bytes.extend([0, 1, 2, 3, 4, 5]);
    bytes.resize(8 + 64, 0);
    let HostMessage::Negotiate(offer) = HostMessage::parse(&bytes).unwrap() else { panic!("another message") };
    assert_eq!((offer.transaction, offer.secure_channel), (0x1234, 0));
    assert_eq!((offer.hashes, offer.groups), (HASHES.to_vec(), GROUPS.to_vec()));
    // More identifiers than the list has room for.
    bytes[10] = 31;
    assert_eq!(HostMessage::parse(&bytes), Err(AuthenticationFailure::IncorrectPayload));
    bytes[8] = 2;
    assert_eq!(HostMessage::parse(&bytes), Err(AuthenticationFailure::ProtocolNotUsable));
}

#[test]
fn events() {
    assert_eq!(AsynchronousEvent::NAMESPACE_CHANGED.dword(), 0x0004_0002);
    assert_eq!(AsynchronousEvent::ZONE_CHANGED.dword(), 0x00bf_ef02);
    assert_eq!(AsynchronousEvent::DISCOVERY_CHANGED.dword(), 0x0070_f002);
    for event in AsynchronousEvent::ALL {
        let masked = event.enabled_by();
        assert_eq!(masked.is_none(), event.kind == 0, "{event:?}");
        assert!(masked.is_none_or(|bits| EventConfiguration::all().contains(bits)));
    }
}

#[test]
fn pages_say_what_is_supported() {
    let log = SupportedLogPages::of([LogPage::Health, LogPage::ChangedZoneList]);
    for (identifier, support) in (0..=255_u8).zip(log.lid_support) {
        assert_eq!(support.get(), u32::from([0x02, 0xbf].contains(&identifier)), "{identifier:#x}");
    }
    let none = CommandEffects::empty();
    let effects = CommandEffectsLog::of(
        [(AdminOpcode::Identify, none)],
        [(IoOpcode::Read, none), (IoOpcode::Write, CommandEffects::CONTENT_CHANGE)],
    );
    assert_eq!((effects.acs[6].get(), effects.acs[7].get()), (1, 0));
    assert_eq!((effects.iocs[1].get(), effects.iocs[2].get()), (3, 1));
}

#[test]
fn discovery_entries() {
    let facts = |address: &str| DiscoveryFacts {
        kind: SubsystemType::Nvm,
        nqn: "nqn.2014-08.org.example:ssd",
        address: address.parse::<SocketAddr>().unwrap(),
        port_id: 1,
        admin_queue_entries: 32,
    };
    let entry = DiscoveryLogEntry::of(&facts("127.0.0.1:4420")).unwrap();
    assert_eq!((entry.trtype, entry.adrfam, entry.subtype, entry.cntlid.get()), (3, 1, 2, 0xffff));
    assert_eq!(entry.trsvcid[..6], *b"4420  ");
    assert_eq!(entry.traddr[..11], *b"127.0.0.1  ");
    assert_eq!(nqn_of(&entry.subnqn), Some("nqn.2014-08.org.example:ssd"));
    let entry = DiscoveryLogEntry::of(&facts("[fe80::1%3]:9")).unwrap();
    assert_eq!((entry.adrfam, &entry.traddr[..10]), (2, &b"fe80::1%3 "[..]));
    let long = "n".repeat(224);
    let error = DiscoveryLogEntry::of(&DiscoveryFacts { nqn: &long, ..facts("[::1]:9") }).unwrap_err();
    assert!(matches!(error, FactsError::Text { field: "SUBNQN", limit: 223, .. }));
}
