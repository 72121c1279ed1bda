//! Whatever bytes a host sends: no panic, no more data than was said, and the next
//! command is answered as ever.

use nvme::{AdminOpcode, CommandId, IoOpcode, Status, SubmissionEntry};
use proptest::collection::vec;
use proptest::prelude::*;
use serve::backend::Request;
use serve::subsystem::{Reaction, Transfer};
use zerocopy::{FromBytes, IntoBytes};

use super::host::{admin_entry, rig, zoned_rig};

/// Any entry, often with an opcode and fields that mean something.
fn entry() -> impl Strategy<Value = SubmissionEntry> {
    let opcode = prop_oneof![
        any::<u8>(),
        prop::sample::select(AdminOpcode::ALL.to_vec()).prop_map(|opcode| opcode as u8),
        prop::sample::select(IoOpcode::ALL.to_vec()).prop_map(|opcode| opcode as u8),
    ];
    let small = || prop_oneof![any::<u32>(), 0..0x100_u32, Just(0)];
    (vec(any::<u8>(), 64), opcode, prop_oneof![0..3_u32, any::<u32>()], [small(), small(), small(), small(), small()])
        .prop_map(|(bytes, opc, nsid, [cdw10, cdw11, cdw12, cdw13, cdw14])| SubmissionEntry {
            opc,
            flags: bytes[1] & bytes[2] & bytes[3],
            nsid: nsid.into(),
            cdw10: cdw10.into(),
            cdw11: cdw11.into(),
            cdw12: cdw12.into(),
            cdw13: cdw13.into(),
            cdw14: cdw14.into(),
            ..SubmissionEntry::read_from_bytes(&bytes).unwrap()
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_command(zoned in any::<bool>(), commands in vec((entry(), 0..3_u8, 0.0..1.2_f64), 1..40)) {
        let mut rig = if zoned { zoned_rig() } else { rig() };
        let (admin, io) = rig.ready();
        let fresh = rig.open();
        let limit = rig.subsystem.max_transfer_bytes();
        for (mut entry, to, share) in commands {
            let id = [admin, io, fresh][usize::from(to)];
            entry.cid = 0xff00.into();
            let (sent, most) = match rig.subsystem.transfer(id, &entry) {
                Transfer::None => (0, 0),
                Transfer::HostToController { bytes } => (bytes, 0),
                Transfer::ControllerToHost { bytes } => (0, bytes),
            };
            prop_assert!(sent <= limit && most <= limit);
            // The transport may bring less than the command needs, or more.
            let data = vec![entry.opc; (f64::from(sent) * share) as usize];
            match rig.subsystem.capsule(rig.now, id, &entry, data.into()) {
                Reaction::Complete(answer) => {
                    prop_assert!(answer.data.len() <= most as usize, "{entry:?}");
                    prop_assert!(answer.status.status.is_success() || answer.data.is_empty());
                    if answer.close {
                        rig.subsystem.closed(rig.now, id);
                    }
                }
                Reaction::Held => prop_assert_eq!(id, admin),
                Reaction::Submit(request) => {
                    prop_assert_eq!(id, io);
                    #[allow(irrefutable_let_patterns)]
                    let Request::Command { command, .. } = &request.request else { panic!("{request:?}") };
                    prop_assert_eq!(command.nsid(), request.nsid);
                    let done = rig.subsystem.device_done(rig.now, request.token, Ok(Box::default()), 7);
                    let Some((connection, Reaction::Complete(answer))) = done else { panic!("{done:?}") };
                    prop_assert_eq!((connection, answer.cid), (io, CommandId(0xff00)));
                    prop_assert!(answer.data.len() <= most as usize);
                }
            }
            rig.poll();
        }
        // Whatever it was, another host is served.
        let (admin, _) = rig.enabled();
        prop_assert_eq!(rig.status(admin, admin_entry(AdminOpcode::KeepAlive), &[]), Status::SUCCESS);
    }

    /// Connect's data, byte by byte anything.
    #[test]
    fn any_connect(bytes in vec(any::<u8>(), 0..1200), places in vec((0..1024_usize, any::<u8>()), 0..6), low in any::<u32>()) {
        let mut rig = rig();
        let id = rig.open();
        let entry = SubmissionEntry { nsid: 1.into(), cdw10: (low & 0xffff_0000).into(), cdw11: 31.into(), ..admin_entry(AdminOpcode::Fabrics) };
        let _ = rig.run(id, entry, &bytes);
        let mut data = nvme::ConnectData::new([1; 16], 0xffff, super::host::NQN, super::host::HOST);
        for (place, byte) in places {
            data.as_mut_bytes()[place] = byte;
        }
        let id = rig.open();
        let answer = rig.run(id, entry, data.as_bytes());
        prop_assert!(answer.status.status.is_success() || answer.status.status == Status::CONNECT_INVALID_PARAMETERS);
        prop_assert_eq!(rig.subsystem.queue_depth(id) > 1, answer.status.status.is_success());
    }
}
