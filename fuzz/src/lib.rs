//! What the targets share: a small store, and everything that reads one.

use betree::{Add, Append, Batch, Compression, Database, Durability, Error, FlushPolicy, Options};
use storage::{Image, Memory};

/// The names of the store's trees.
pub const TREES: [&str; 2] = ["t", "u"];

/// Bytes of the store's storage.
pub const CAPACITY_BYTES: u64 = 1 << 20;
/// Bytes of its log.
pub const LOG_BYTES: u64 = 20 * 4096;
/// Where the log begins: superblocks are before it.
pub const LOG_START_BYTES: u64 = 16 * 4096;

/// Nodes so small that a few batches make a tree of several levels, and a log that goes round.
pub fn options(kind: u8) -> Options {
    Options {
        leaf_bytes: 600,
        basement_bytes: 256,
        fanout: 4,
        buffer_bytes: 500,
        memtable_bytes: 2000,
        fresh_bytes: 3000,
        cache_bytes: 1 << 18,
        log_bytes: LOG_BYTES,
        large_value_bytes: if kind & 1 == 0 { 90 } else { usize::MAX },
        discard_bytes: (kind & 2 == 0).then_some(4 * 4096),
        compression: if kind & 4 == 0 { Compression::Lz4 } else { Compression::None },
        flush_policy: if kind & 8 == 0 { FlushPolicy::Largest } else { FlushPolicy::CostBenefit },
        ..Options::default()
    }
    .operator(1, Add)
    .operator(2, Append)
}

/// A store with batches in its trees and in its log, as a process that is killed leaves it.
///
/// # Errors
///
/// None is expected.
pub fn store(kind: u8) -> Result<Image, Error> {
    let memory = Memory::new(CAPACITY_BYTES);
    let database = Database::create(memory.clone(), options(kind), 1)?;
    let trees = TREES.map(|name| database.tree(name));
    let [Ok(one), Ok(other)] = trees else { return Err(Error::NotAStore) };
    for number in 0..40u8 {
        let mut batch = Batch::new();
        batch.insert(&one, [number.wrapping_mul(37), 1], vec![number; usize::from(number) * 5]);
        batch.upsert(&other, [number % 7], 2, [number; 9]);
        if number % 9 == 8 {
            batch.remove_range(&one, &[number][..]..&[number + 9][..]);
        }
        database.commit(&batch, Durability::Batch)?;
        match number {
            20 => database.save_snapshot("s")?,
            30 => database.checkpoint()?,
            _ => {}
        }
    }
    Ok(memory.image())
}

/// The image with other bytes in a part of it: each change is where (three bytes), how many (one) and what.
pub fn changed(image: &Image, start_bytes: u64, len_bytes: u64, mut changes: &[u8]) -> Image {
    let mut image = image.clone();
    while let [a, b, c, count, rest @ ..] = changes {
        let at = u64::from(u32::from_le_bytes([*a, *b, *c, 0])) % len_bytes;
        let count = usize::from(*count % 32 + 1).min(rest.len());
        let (new, after) = rest.split_at(count);
        for (place, byte) in (start_bytes + at..start_bytes + len_bytes).zip(new) {
            let mut old = [0];
            image.read(place, &mut old);
            for bit in (0..8).filter(|bit| (old[0] ^ byte) >> bit & 1 == 1) {
                image.flip(place, bit);
            }
        }
        changes = after;
    }
    image
}

/// Everything that reads a store, and then what writes to it. Whatever the image has, it ends, with an error or without.
pub fn use_store(image: Image, kind: u8) {
    let _ = betree::verify(Memory::from_image(image.clone()));
    let _ = betree::dump(Memory::from_image(image.clone()), true, |_| {});
    let _ = betree::repair(Memory::from_image(image.clone()), Memory::new(CAPACITY_BYTES), options(kind), 6, |_| {});
    let Ok(database) = Database::open(Memory::from_image(image), options(kind)) else { return };
    for name in TREES {
        let Ok(tree) = database.open_tree(name) else { continue };
        let _ = tree.iter().take(10_000).count();
        let _ = tree.iter().rev().take(10_000).count();
        for number in 0..40u8 {
            let _ = tree.get([number.wrapping_mul(37), 1]);
            let _ = tree.insert([number], vec![number; 50], Durability::None);
        }
        let _ = tree.remove_range(&[3][..]..&[90][..], Durability::None);
    }
    let _ = database.open_snapshot("s").map(|view| database.open_tree("t").map(|tree| view.get(&tree, [1, 1])));
    let _ = database.verify();
    let _ = database.checkpoint();
    let _ = database.compact();
    let _ = database.checkpoint();
}
