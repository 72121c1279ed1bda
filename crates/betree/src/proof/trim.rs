//! Telling the storage what is free: all of that, and nothing else.

use storage::Memory;

use super::workload::tiny;
use crate::{Batch, Database, Durability, Options};

/// A memory forgets what it is told is free, so what is lost is noticed.
#[test]
fn everything_free_is_told_and_nothing_else() {
    let options = || Options { discard_bytes: None, ..tiny(0) };
    let memory = Memory::new(32 << 20);
    let database = Database::create(memory.clone(), options(), 1).unwrap();
    let tree = database.tree("t").unwrap();
    for round in 0..40u32 {
        let mut batch = Batch::new();
        for number in 0..60u32 {
            batch.insert(&tree, (number * 7 + round).to_be_bytes(), vec![round as u8; 900]);
        }
        batch.remove_range(&tree, (round * 3).to_be_bytes()..(round * 3 + 40).to_be_bytes());
        database.commit(&batch, Durability::None).unwrap();
        if round % 9 == 5 {
            // In the middle of whatever is under way.
            database.work(8192).unwrap();
            database.trim().unwrap();
        }
    }
    let all = |database: &Database| {
        let tree = database.open_tree("t").unwrap();
        tree.iter().map(|entry| entry.unwrap()).map(|(key, value)| (key, value.to_vec())).collect::<Vec<_>>()
    };
    let before = all(&database);
    let stats = database.stats();
    let told = database.trim().unwrap();
    assert!(told > 0 && told <= stats.capacity_bytes, "{told} of {stats:?}");
    // But for what is lent to values that are about to be written.
    let free = database.stats().free_bytes;
    assert!(told <= free && told >= free / 100 * 95, "{told} of {free}");
    assert_eq!(database.verify().unwrap(), Vec::<String>::new());
    database.sync().unwrap();
    drop((tree, database));
    let database = Database::open(memory, options()).unwrap();
    assert_eq!(all(&database), before);
    assert_eq!(database.verify().unwrap(), Vec::<String>::new());
}
