//! How much a range of keys is said to take, and what is read to say it; how much the longest keys take.

use storage::Memory;

use crate::{Compression, Database, Durability, Error, KEY_BYTES_MAX, Options};

fn key(number: u32) -> [u8; 4] {
    number.wrapping_mul(0x9e37_79b1).to_be_bytes()
}

/// Where it waits or lies: within a quarter of what it is, and without reading blocks; with few children or many.
pub(super) fn of_ranges(fanout: usize) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let options = Options {
        leaf_bytes: 64 << 10,
        basement_bytes: 4 << 10,
        fanout,
        buffer_bytes: 256 << 10,
        memtable_bytes: 64 << 10,
        fresh_bytes: 1 << 20,
        log_bytes: 1 << 20,
        cache_bytes: 0,
        compression: Compression::None,
        ..Options::default()
    };
    let database = Database::create(Memory::new(64 << 20), options, 1).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    for number in 0..40_000 {
        tree.insert(key(number), [number as u8; 96], Durability::None).map_err(failed)?;
    }
    for flushed in [false, true] {
        if flushed {
            database.compact().map_err(failed)?;
        }
        for (start, end) in [(0u32, u32::MAX), (1 << 30, 3 << 30), (1 << 28, 1 << 29)] {
            let (start, end) = (start.to_be_bytes(), end.to_be_bytes());
            let own = tree.keys(&start[..]..&end[..]).count() as u64 * 100;
            let before = database.stats().read_bytes;
            let said = tree.approximate_bytes(&start[..]..&end[..]).map_err(failed)?;
            if said * 4 <= own * 3 || said * 3 >= own * 4 {
                return Err(format!("{fanout} children, flushed {flushed}: {said} bytes are said, {own} are there"));
            }
            let read = database.stats().read_bytes - before;
            if read >= own / 4 + (64 << 10) {
                return Err(format!("{fanout} children, flushed {flushed}: {read} bytes were read for {own}"));
            }
        }
    }
    let none = tree.approximate_bytes(&[5][..]..&[5][..]).map_err(failed)?;
    tree.remove_range::<&[u8]>(.., Durability::None).map_err(failed)?;
    database.quiesce().map_err(failed)?;
    let removed = tree.approximate_bytes::<&[u8]>(..).map_err(failed)?;
    if (none, removed) == (0, 0) {
        Ok(())
    } else {
        Err(format!("{none} bytes in no range, {removed} in an empty tree"))
    }
}

#[test]
fn a_range_is_as_large_as_it_is() {
    [8, 64].into_iter().try_for_each(of_ranges).unwrap();
}

/// Paths of 4 KiB with one beginning and 16 bytes behind it: the beginning is on the storage once for each block, not for each key.
#[test]
fn what_the_longest_keys_share_is_stored_once_a_block() {
    let options =
        Options { memtable_bytes: 1 << 20, log_bytes: 4 << 20, basement_bytes: 64 << 10, ..Options::default() };
    let database = Database::create(Memory::new(64 << 20), options.clone(), 1).unwrap();
    let tree = database.tree("t").unwrap();
    let key = |number: u32| {
        // A beginning that nothing shortens by itself.
        let mut key: Vec<u8> = (0..1024u32).flat_map(|at| at.wrapping_mul(0x9e37_79b1).to_be_bytes()).collect();
        key.extend(u128::from(number.wrapping_mul(0x85eb_ca6b)).to_be_bytes());
        key
    };
    assert_eq!(key(0).len(), KEY_BYTES_MAX);
    const ENTRIES: u32 = 3000;
    for number in 0..ENTRIES {
        tree.insert(key(number), number.to_be_bytes(), Durability::None).unwrap();
    }
    database.compact().unwrap();
    for number in 0..ENTRIES {
        assert_eq!(tree.get(key(number)).unwrap().unwrap(), number.to_be_bytes());
    }
    assert!(tree.iter().map(|entry| entry.unwrap().0).is_sorted());
    let stats = database.stats();
    let used = stats.capacity_bytes - options.log_bytes - stats.free_bytes;
    let keys = u64::from(ENTRIES) * KEY_BYTES_MAX as u64;
    println!("{used} bytes for keys of {keys}");
    assert!(used * 5 < keys, "{used} bytes for keys of {keys}");
    // One byte more is refused, and changes nothing.
    let mut longer = key(1);
    longer.push(0);
    let refused = tree.insert(longer, "v", Durability::None);
    assert!(matches!(refused, Err(Error::TooLarge { what: "a key", .. })), "{refused:?}");
    assert_eq!(tree.iter().count(), ENTRIES as usize);
}
