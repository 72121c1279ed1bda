//! A batch that cannot be takes no memory beside its own, in a process of its own.
#![allow(clippy::unwrap_used)]

use betree::{Batch, Database, Durability, Error, Options};
use storage::Memory;

/// The most that this process had resident.
fn most_resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Nothing of it is copied before it is refused.
#[test]
fn a_batch_that_is_too_large_is_not_copied() {
    const VALUES: u64 = 96;
    let options = Options { log_bytes: 16 << 20, ..Options::default() };
    let database = Database::create(Memory::new(1 << 30), options, 1).unwrap();
    let tree = database.tree("t").unwrap();
    // More values than recovery would read, and more entries than the log may have at once.
    let (mut values, mut entries) = (Batch::new(), Batch::new());
    for number in 0..VALUES {
        values.insert(&tree, number.to_be_bytes(), vec![number as u8 | 1; 1 << 20]);
    }
    for number in 0..VALUES << 10 {
        entries.insert(&tree, number.to_be_bytes(), vec![1; 1 << 9]);
    }
    let (before, written) = (most_resident_bytes(), database.stats().written_bytes());
    assert!(before > VALUES << 20, "{before} bytes are resident, and the batches have more");
    for batch in [&values, &entries] {
        assert!(matches!(database.commit(batch, Durability::Sync), Err(Error::TooLarge { .. })));
    }
    let grown = most_resident_bytes() - before;
    println!("{grown} bytes more were resident");
    assert!(grown < VALUES << 17, "{grown} bytes more were resident when a batch was refused");
    assert_eq!(database.stats().written_bytes(), written);
    assert_eq!(tree.iter().count(), 0);
}
