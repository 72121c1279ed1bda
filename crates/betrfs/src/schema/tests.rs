//! Keys and values come back.

use std::ops::RangeBounds;

use super::*;
use proptest::prelude::*;

fn inode() -> impl Strategy<Value = Inode> {
    let time =
        || (any::<i64>(), 0u32..1_000_000_000).prop_map(|(seconds, nanoseconds)| Timestamp { seconds, nanoseconds });
    let kind = (0usize..3).prop_map(|n| [Kind::File, Kind::Directory, Kind::Socket][n]);
    let numbers = (any::<u64>(), 0..=crate::rules::FILE_BYTES_MAX, any::<u64>(), 0u64..1 << 56);
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
        let schema = Schema::Path;
        let _ = (Entry::decode(schema, &bytes, &bytes), Located::decode(schema, InodeNumber(1), &bytes));
        let _ = (parse_beside_key(schema, &bytes), parse_entry_key(schema, &bytes).is_ok(), parse_debt_key(&bytes));
        let _ = (path::is_place(&bytes), parse_data_key(schema, &bytes));
    }

    #[test]
    fn keys_come_back_in_order(
        a in (any::<u64>(), 0u64..1 << 47, any::<u8>()),
        b in (any::<u64>(), 0u64..1 << 47, any::<u8>()),
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

    #[test]
    fn keys_of_paths_come_back(names in prop::collection::vec((1u64.., prop::collection::vec(1u8.., 1..9)), 1..9), granule in 0u64..1 << 47) {
        let schema = Schema::Path;
        let (mut directory, mut parent) = (Locality::unnamed(schema, InodeNumber::ROOT), InodeNumber::ROOT);
        let mut before: Option<Vec<u8>> = None;
        for (number, name) in &names {
            let (number, key) = (InodeNumber(*number), directory.entry_key(5, name));
            prop_assert_eq!(parse_entry_key(schema, &key).unwrap(), (parent, cookie(5, name), &name[..]));
            prop_assert!(directory.has_entry(&key, cookie(5, name), name));
            prop_assert_eq!(&Locality::of_entry(schema, &key, parent).unwrap(), &directory);
            // What is deeper comes later, and behind all that is in a directory itself.
            prop_assert!(before.is_none_or(|before| before < key));
            prop_assert!(directory.entries_after(Cookie::START)[0].contains(&key));
            let spot = directory.spot(5, name);
            prop_assert_eq!(parse_beside_key(schema, &beside_key(&spot, number)).unwrap(), (spot.clone(), number));
            prop_assert!(is_beside(schema, &beside_key(&spot, number)) && !is_beside(schema, &key));
            let file = Locality::named(schema, &key, name.len(), Kind::File, number);
            let data = file.data_key(granule, 3);
            prop_assert_eq!(parse_data_key(schema, &data).unwrap(), (number, granule, 3));
            prop_assert_eq!(&Locality::of_data(schema, &data, number).unwrap(), &file);
            directory = Locality::named(schema, &key, name.len(), Kind::Directory, number);
            prop_assert!(data < directory.entry_key(5, b"n"));
            prop_assert!([&file, &directory].iter().all(|locality| path::is_place(locality.place().unwrap().0)));
            (parent, before) = (number, Some(key));
        }
    }

    #[test]
    fn places_come_back(inode in inode(), name in prop::collection::vec(1u8.., 1..9), below: u64, moves: bool, is_side: bool) {
        let (schema, number, kind) = (Schema::Path, inode.attributes.inode, inode.attributes.kind);
        let entry = |directory| Locality::unnamed(schema, InodeNumber(directory)).entry_key(5, &name);
        let place = |directory| path::below(&entry(directory), name.len(), kind);
        let moving = moves.then(|| Moving { to: place(8), below });
        let locality = Locality::by_path(number, place(9), moving);
        let key = entry(7);
        let inode = match is_side {
            true => Inode { place: Place::Side, beside: None, ..inode },
            false => {
                let beside = inode.beside.map(|_| Locality::unnamed(schema, InodeNumber(7)).spot(5, &name));
                Inode { place: Place::Entry { parent: InodeNumber(7), name: name.clone().into() }, beside, ..inode }
            }
        };
        let inode = Inode { owes: inode.attributes.links > 0, locality, ..inode };
        if is_side {
            let found = Located::decode(schema, number, &here(schema, &inode)).unwrap();
            prop_assert_eq!(found, Located::Here(inode));
        } else {
            let by_default = Locality::named(schema, &key, name.len(), kind, number);
            let found = Entry::decode(schema, &key, &embedded(&inode, &by_default)).unwrap();
            prop_assert_eq!(found, Entry::Embedded(inode.clone()));
            let usual = Inode { locality: by_default.clone(), owes: false, ..inode };
            let found = Entry::decode(schema, &key, &embedded(&usual, &by_default)).unwrap();
            prop_assert_eq!(found, Entry::Embedded(usual));
        }
    }

    #[test]
    fn what_moves_lies_in_two_pieces(below in 1u64..50, first in 0u64..60, count in 0u64..60, granule in 0u64..60) {
        let at = |directory| {
            let key = Locality::unnamed(Schema::Path, InodeNumber(directory)).entry_key(5, b"name");
            path::below(&key, 4, Kind::File)
        };
        let moving = Locality::by_path(InodeNumber(9), at(3), Some(Moving { to: at(2), below }));
        let holds = |spans: Vec<DataSpan>, key: &Vec<u8>| spans.iter().filter(|span| span.contains(key)).count();
        let key = moving.data_key(granule, 0);
        let is_in = (first..=first + count).contains(&granule);
        prop_assert_eq!(holds(moving.data_between((first, 0), (first + count, u8::MAX)), &key), usize::from(is_in));
        prop_assert_eq!(holds(moving.data_from(first), &key), usize::from(granule >= first));
        let side = Locality::by_path(InodeNumber(9), if granule < below { at(2) } else { at(3) }, None);
        prop_assert_eq!(side.data_key(granule, 0), key);
    }
}
