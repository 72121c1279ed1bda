//! Every request as the kernel writes it, and arbitrary bytes.

use proptest::prelude::*;
use zerocopy::{Immutable, IntoBytes};

use super::*;
use crate::abi::input::ForgetOne;

const LONG: Shape = Shape { setxattr_is_long: true };

fn request(opcode: u32, body: &[u8]) -> Vec<u8> {
    let len = (size_of::<InHeader>() + body.len()) as u32;
    let header = InHeader { len, opcode, unique: 7, nodeid: 2, uid: 3, gid: 4, pid: 5, ..InHeader::default() };
    [header.as_bytes(), body].concat()
}

fn operation(bytes: &[u8]) -> Result<Operation<'_>, ParseError> {
    Parts::of(bytes, LONG)?.operation()
}

/// A request that begins with `own`.
fn with(opcode: u32, own: &(impl IntoBytes + Immutable), rest: &[u8]) -> Vec<u8> {
    request(opcode, &[own.as_bytes(), rest].concat())
}

#[test]
fn an_offer_may_have_more_flags() {
    let offer = [7_u32, 45, 131_072, 1 | 1 << 30, 1 << 9, 3];
    let offered = |words: usize| {
        let bytes = request(opcode::INIT, offer[..words].as_bytes());
        Parts::of(&bytes, LONG).unwrap().init()
    };
    let flags = InitFlags::ASYNC_READ | InitFlags::EXTENDED;
    let init = Init { major: 7, minor: 45, max_readahead: 131_072, flags };
    assert_eq!(offered(4), Ok(Some(init)));
    assert_eq!(offered(6), Ok(Some(Init { flags: flags | InitFlags::OVER_IO_URING, ..init })));
    assert!(offered(3).is_err());
    assert_eq!(Parts::of(&request(opcode::OPEN, &[]), LONG).unwrap().init(), Ok(None));
}

#[test]
fn a_write_carries_its_data() {
    let body = TransferIn { fh: 1, offset: 8192, size: 5, transfer_flags: 4, flags: 1, ..TransferIn::default() };
    let bytes = with(opcode::WRITE, &body, b"hello");
    let parts = Parts::of(&bytes, LONG).unwrap();
    assert_eq!((parts.header.unique, parts.header.nodeid), (7, 2));
    assert_eq!(parts.caller(), Caller { uid: 3, gid: 4, pid: 5 });
    let write = Operation::Write { handle: 1, offset: 8192, data: b"hello", flags: 1, kill_privileges: true };
    assert_eq!(parts.operation().unwrap(), write);
    // One byte less than announced.
    let bytes = with(opcode::WRITE, &body, b"hell");
    assert_eq!(operation(&bytes), Err(ParseError::Cut { opcode: opcode::WRITE, bytes: 84 }));
}

#[test]
fn a_name_ends_at_its_zero() {
    assert_eq!(operation(&request(opcode::LOOKUP, b"disk\0")).unwrap(), Operation::Lookup { name: b"disk" });
    assert!(operation(&request(opcode::LOOKUP, b"disk")).is_err());
    let names = request(opcode::SYMLINK, b"name\0to/there\0");
    assert_eq!(operation(&names).unwrap(), Operation::Symlink { name: b"name", target: b"to/there" });
    assert!(operation(&request(opcode::SYMLINK, b"name\0to/there")).is_err());
    let names = with(opcode::RENAME2, &Rename2In { newdir: 9, flags: 1, padding: 0 }, b"old\0new\0");
    let renamed = Operation::Rename { name: b"old", new_parent: 9, new_name: b"new", flags: 1 };
    assert_eq!(operation(&names).unwrap(), renamed);
    let names = with(opcode::RENAME, &RenameIn { newdir: 9 }, b"old\0new\0");
    assert!(matches!(operation(&names), Ok(Operation::Rename { flags: 0, new_parent: 9, .. })));
}

#[test]
fn forgets_come_singly_and_in_bulk() {
    let forgets = |bytes: &[u8]| match operation(bytes) {
        Ok(Operation::Forget(forgets)) => forgets.collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(forgets(&with(opcode::FORGET, &ForgetIn { nlookup: 3 }, &[])), [(2, 3)]);
    let many = [ForgetOne { nodeid: 5, nlookup: 1 }, ForgetOne { nodeid: 6, nlookup: 2 }];
    let bytes = |count| with(opcode::BATCH_FORGET, &BatchForgetIn { count, dummy: 0 }, many.as_bytes());
    assert_eq!(forgets(&bytes(2)), [(5, 1), (6, 2)]);
    assert_eq!(forgets(&bytes(1)), [(5, 1)]);
    assert!(operation(&bytes(3)).is_err() && operation(&bytes(u32::MAX)).is_err());
}

#[test]
fn an_xattr_has_two_shapes() {
    let own = SetxattrIn { size: 3, flags: 1, setxattr_flags: 1, padding: 0 };
    let bytes = with(opcode::SETXATTR, &own, b"user.a\0xyz");
    let set = |kill_set_group_id| Operation::SetXattr { name: b"user.a", value: b"xyz", flags: 1, kill_set_group_id };
    assert_eq!(operation(&bytes).unwrap(), set(true));
    let bytes = request(opcode::SETXATTR, &[&own.as_bytes()[..SETXATTR_SHORT_BYTES], b"user.a\0xyz"].concat());
    assert_eq!(Parts::of(&bytes, Shape::default()).unwrap().operation().unwrap(), set(false));
    assert!(operation(&with(opcode::SETXATTR, &own, b"user.a\0xy")).is_err());
    let get = with(opcode::GETXATTR, &GetxattrIn { size: 64, padding: 0 }, b"user.a\0");
    assert_eq!(operation(&get).unwrap(), Operation::GetXattr { name: b"user.a", room_bytes: 64 });
}

#[test]
fn an_ioctl_carries_what_it_says() {
    let own = IoctlIn { fh: 1, cmd: 2, arg: 3, in_size: 2, out_size: 9, ..IoctlIn::default() };
    let ioctl = Operation::Ioctl { handle: 1, command: 2, argument: 3, data: b"ab", room_bytes: 9 };
    assert_eq!(operation(&with(opcode::IOCTL, &own, b"ab")).unwrap(), ioctl);
    assert!(operation(&with(opcode::IOCTL, &own, b"a")).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(2048), ..ProptestConfig::default() })]

    /// Whatever the bytes, parsing ends, and the parts it names are in them.
    #[test]
    fn arbitrary_bytes(
        mut bytes in prop::collection::vec(prop_oneof![Just(0), any::<u8>()], 0..200),
        opcode in 0_u32..60,
        honest in any::<bool>(),
        setxattr_is_long in any::<bool>(),
    ) {
        if honest && bytes.len() >= 8 {
            let len = bytes.len() as u32;
            bytes[..4].copy_from_slice(&len.to_ne_bytes());
            bytes[4..8].copy_from_slice(&opcode.to_ne_bytes());
        }
        let parsed = Parts::of(&bytes, Shape { setxattr_is_long }).and_then(|parts| parts.operation());
        match parsed {
            Ok(Operation::Write { data, .. }) => {
                prop_assert_eq!(data.len() + HEADER_ROOM_BYTES, bytes.len());
            }
            Ok(Operation::Lookup { name } | Operation::Unlink { name } | Operation::Create { name, .. }) => {
                prop_assert!(!name.contains(&0) && name.len() < bytes.len());
            }
            Ok(Operation::Forget(forgets)) => prop_assert!(forgets.count() * 8 <= bytes.len()),
            Ok(Operation::SetXattr { name, value, .. }) => prop_assert!(name.len() + value.len() < bytes.len()),
            Ok(_) => prop_assert!(bytes.len() >= size_of::<InHeader>()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
        let _ = Parts::of(&bytes, LONG).map(|parts| parts.init());
    }
}
