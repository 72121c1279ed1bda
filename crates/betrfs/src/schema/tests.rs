//! Keys and values come back.

use super::*;
use proptest::prelude::*;

fn inode() -> impl Strategy<Value = Inode> {
    let time =
        || (any::<i64>(), 0u32..1_000_000_000).prop_map(|(seconds, nanoseconds)| Timestamp { seconds, nanoseconds });
    let kind = (0usize..3).prop_map(|n| [Kind::File, Kind::Directory, Kind::Socket][n]);
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    let small = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>(), 0u32..0o10000);
    let beside = prop::option::of((any::<u64>(), any::<u64>()));
    (kind, numbers, small, (time(), time(), time(), time()), (any::<(bool, bool, bool)>(), beside)).prop_map(
        |(kind, (number, size_bytes, blocks, entries), (links, uid, gid, device, mode), times, (flags, beside))| {
            let (accessed, modified, changed, created) = times;
            let attributes = Attributes {
                inode: InodeNumber(number),
                kind,
                permissions: Permissions::of_mode(mode),
                links,
                uid,
                gid,
                device,
                size_bytes,
                blocks,
                accessed,
                modified,
                changed,
                created,
            };
            let (is_patched, is_sparse, has_xattrs) = flags;
            let beside = beside.map(|(directory, cookie)| Spot::of(InodeNumber(directory), Cookie(cookie)));
            let locality = Locality::unnamed(Schema::Inode, InodeNumber(number));
            Inode {
                attributes,
                entries,
                is_patched,
                is_sparse,
                has_xattrs,
                beside,
                place: Place::Side,
                locality,
                owes: false,
            }
        },
    )
}

proptest! {
    #[test]
    fn values_come_back(inode in inode(), name in prop::collection::vec(1u8.., 1..9)) {
        let number = inode.attributes.inode;
        prop_assert_eq!(Located::decode(Schema::Inode, number, &here(Schema::Inode, &inode)).unwrap(), Located::Here(inode.clone()));
        let placed = Inode { place: Place::Entry { parent: InodeNumber(7), name: name.clone().into() }, ..inode.clone() };
        let key = Locality::unnamed(Schema::Inode, InodeNumber(7)).entry_key(5, &name);
        let entry = Entry::decode(Schema::Inode, &key, &embedded(&placed, &placed.locality)).unwrap();
        prop_assert_eq!(entry, Entry::Embedded(placed));
        let linked = Entry::decode(Schema::Inode, &key, &link(number, inode.attributes.kind)).unwrap();
        prop_assert_eq!(linked, Entry::Link { inode: number, kind: inode.attributes.kind });
        let located = Located::decode(Schema::Inode, number, &in_entry(InodeNumber(7), &name)).unwrap();
        prop_assert_eq!(located, Located::In { parent: InodeNumber(7), name: name.into() });
    }

    #[test]
    fn any_bytes_are_a_value_or_an_error(bytes: Vec<u8>) {
        let schema = Schema::Inode;
        let _ = (Entry::decode(schema, &bytes, &bytes), Located::decode(schema, InodeNumber(1), &bytes));
        let _ = (Format::decode(&bytes), decode_next(&bytes), parse_data_key(schema, &bytes), part_of(&bytes));
        let _ = (parse_beside_key(schema, &bytes), parse_entry_key(schema, &bytes).is_ok());
    }

    #[test]
    fn keys_come_back_in_order(
        a in any::<(u64, u64, u8)>(),
        b in any::<(u64, u64, u8)>(),
        name in prop::collection::vec(1u8.., 1..9),
    ) {
        let schema = Schema::Inode;
        let key = |(inode, granule, part): (u64, u64, u8)| Locality::unnamed(Schema::Inode, InodeNumber(inode)).data_key(granule, part);
        prop_assert_eq!(a.cmp(&b), key(a).cmp(&key(b)));
        prop_assert_eq!(parse_data_key(schema, &key(a)).unwrap(), (InodeNumber(a.0), a.1, a.2));
        prop_assert_eq!(part_of(&key(a)).unwrap(), (a.1, a.2));
        let directory = Locality::unnamed(Schema::Inode, InodeNumber(a.0));
        let entry = directory.entry_key(b.0, &name);
        let (parent, found, back) = parse_entry_key(schema, &entry).unwrap();
        prop_assert_eq!((parent, found, back), (InodeNumber(a.0), cookie(b.0, &name), &name[..]));
        prop_assert!(found > Cookie::PARENT && found.0 < 1 << 63);
        let spot = directory.spot(b.0, &name);
        let beside = beside_key(&spot, InodeNumber(a.1));
        prop_assert_eq!(parse_beside_key(schema, &beside).unwrap(), (spot, InodeNumber(a.1)));
        prop_assert!(is_beside(schema, &beside) && !is_beside(schema, &entry) && beside[..] < entry[..]);
    }
}
