//! Values that are looked at where the cache has them.

use storage::Memory;

use super::workload::unsound;
use crate::{Append, Batch, Database, Durability, Options};

#[test]
fn a_large_value_is_shared_and_stays_as_it_is() {
    let (memtable_bytes, fresh_bytes, log_bytes) = (1 << 20, 2 << 20, 4 << 20);
    let options = Options { memtable_bytes, fresh_bytes, log_bytes, ..Options::default() }.operator(1, Append);
    let memory = Memory::new(64 << 20);
    let database = Database::create(memory.clone(), options, 1).unwrap();
    let tree = database.tree("t").unwrap();
    tree.insert("large", vec![1; 40 << 10], Durability::None).unwrap();
    tree.insert("small", "value", Durability::None).unwrap();
    database.checkpoint().unwrap();
    let view = database.snapshot();
    let (one, other) = (tree.get_shared("large").unwrap().unwrap(), view.get_shared(&tree, "large").unwrap().unwrap());
    assert_eq!(*one, vec![1; 40 << 10]);
    // The bytes are there once.
    assert_eq!(one.as_ptr(), other.as_ptr());
    assert_eq!(one.clone().as_ptr(), other.as_ptr());
    assert_eq!(&*tree.get_shared("small").unwrap().unwrap(), b"value");
    assert!(tree.get_shared("none").unwrap().is_none());
    // What becomes of the key is nothing to who holds its value.
    let mut batch = Batch::new();
    batch.upsert(&tree, "large", 1, "more");
    database.commit(&batch, Durability::None).unwrap();
    assert_eq!(tree.get_shared("large").unwrap().unwrap().len(), (40 << 10) + 4);
    tree.remove("large", Durability::Sync).unwrap();
    drop(view);
    database.compact().unwrap();
    for number in 0..200u8 {
        tree.insert([number], vec![number; 40 << 10], Durability::None).unwrap();
    }
    database.compact().unwrap();
    assert!(tree.get_shared("large").unwrap().is_none());
    assert!(one.iter().all(|byte| *byte == 1));
    assert_eq!(unsound(&database), None);
}
