//! Parts of large values: no more is read than they take, and each is checked.

use std::ops::Range;

use rand::Rng;
use storage::{BLOCK_BYTES, Memory};

use super::workload::{random, unsound};
use crate::bytes::parts::are_worthwhile;
use crate::{Append, Batch, Compression, Database, Durability, Error, Options, Tree, VALUE_BYTES_MAX};

fn failed(error: Error) -> String {
    error.to_string()
}

const LENGTHS: [usize; 8] = [100, 5000, 16 << 10, 20_000, 64 << 10, 100_001, 128 << 10, VALUE_BYTES_MAX];

fn options(cache_bytes: usize) -> Options {
    let (memtable_bytes, fresh_bytes, log_bytes) = (1 << 20, 2 << 20, 8 << 20);
    Options { cache_bytes, memtable_bytes, fresh_bytes, log_bytes, compression: Compression::Lz4, ..Options::default() }
        .operator(1, Append)
}

/// Bytes that do not compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    random(bytes as u64).fill_bytes(&mut value);
    value
}

/// A store that was just opened, with a value of each length.
fn store(cache_bytes: usize) -> Result<(Memory, Database, Tree), String> {
    let memory = Memory::new(64 << 20);
    let database = Database::create(memory.clone(), options(cache_bytes), 1).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    for bytes in LENGTHS {
        tree.insert(bytes.to_be_bytes(), noise(bytes), Durability::None).map_err(failed)?;
    }
    database.checkpoint().map_err(failed)?;
    let large: usize = LENGTHS.into_iter().filter(|bytes| *bytes >= 16 << 10).sum();
    if database.stats().value_bytes < large as u64 {
        return Err("large values do not lie apart".to_owned());
    }
    drop((tree, database));
    let database = Database::open(memory.clone(), options(cache_bytes)).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    Ok((memory, database, tree))
}

/// Ranges at the ends of a value and of its blocks.
fn ranges(bytes: usize) -> Vec<Range<usize>> {
    let places = [0, 1, 4095, 4096, 4097, 20_000, 65_536, bytes / 2, bytes - 1, bytes];
    let starts = places.into_iter().filter(|start| *start <= bytes);
    starts.flat_map(|start| [1, 10, 4096, 9000].map(|len| start..start + len)).collect()
}

/// Of a value that has checksums of its parts, a part takes its own blocks and those of the checksums, and nothing once it is in the cache.
pub(super) fn read_little() -> Result<(), String> {
    for cache_bytes in [0, 32 << 20] {
        let (_, database, tree) = store(cache_bytes)?;
        let read = |work: &dyn Fn() -> Result<(), Error>| {
            let before = database.stats().read_bytes;
            work().map(|()| (database.stats().read_bytes - before) as usize).map_err(failed)
        };
        for bytes in LENGTHS {
            let (key, value) = (bytes.to_be_bytes(), noise(bytes));
            // The way to the value.
            let way = read(&|| tree.contains(key).map(drop))?;
            let again = if cache_bytes > 0 { 0 } else { way };
            for range in ranges(bytes) {
                let part = || tree.get_part(key, range.clone());
                let expected = &value[range.start.min(bytes)..range.end.min(bytes)];
                let taken = read(&|| part().map(drop))?.saturating_sub(again);
                if part().map_err(failed)?.as_deref() != Some(expected) {
                    return Err(format!("{range:?} of {bytes} bytes is another"));
                }
                let blocks = match expected {
                    [] => 0,
                    _ => range.end.min(bytes).div_ceil(BLOCK_BYTES) - range.start / BLOCK_BYTES,
                };
                let most = match are_worthwhile(bytes) {
                    _ if expected.is_empty() => 0,
                    true => (blocks + 2) * BLOCK_BYTES,
                    false => bytes.next_multiple_of(BLOCK_BYTES),
                };
                let least = if cache_bytes == 0 && bytes >= 16 << 10 && are_worthwhile(bytes) {
                    blocks * BLOCK_BYTES
                } else {
                    0
                };
                if taken > most || taken < least {
                    return Err(format!("{range:?} of {bytes} bytes took {taken} bytes"));
                }
                let cached = read(&|| part().map(drop))?;
                if cache_bytes > 0 && cached > 0 {
                    return Err(format!("{cached} bytes were read for what is in the cache"));
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_part_of_a_value_takes_its_own_blocks() {
    read_little().unwrap_or_else(|what| panic!("{what}"));
}

/// Whatever waits for a value, and however it lies: a part of it is a part of what it is as a whole.
#[test]
fn a_part_is_one_of_the_whole() {
    let (_, database, tree) = store(0).unwrap();
    let all = |tree: &Tree| {
        for bytes in LENGTHS {
            let key = bytes.to_be_bytes();
            let value = tree.get(key).unwrap().unwrap();
            assert_eq!(tree.get_part(key, ..).unwrap().as_ref(), Some(&value));
            assert_eq!(tree.get_part(key, 7..).unwrap().as_deref(), Some(&value[7..]));
            assert_eq!(tree.get_part(key, ..=60).unwrap().as_deref(), Some(&value[..=60]));
            assert_eq!(tree.get_part(key, value.len() + 5..).unwrap().as_deref(), Some(&[][..]));
        }
        assert_eq!(tree.get_part("none", ..).unwrap(), None);
    };
    all(&tree);
    let view = database.snapshot();
    let mut batch = Batch::new();
    for bytes in LENGTHS.into_iter().filter(|bytes| *bytes < VALUE_BYTES_MAX) {
        batch.upsert(&tree, bytes.to_be_bytes(), 1, "more");
    }
    // One that compresses.
    batch.insert(&tree, "zeroes", vec![0; 200_000]);
    database.commit(&batch, Durability::None).unwrap();
    all(&tree);
    let old = view.get_part(&tree, 100_001usize.to_be_bytes(), 99_990..).unwrap();
    assert_eq!(old.as_deref(), Some(&noise(100_001)[99_990..]));
    database.compact().unwrap();
    all(&tree);
    assert_eq!(tree.get_part("zeroes", 100_000..100_005).unwrap(), Some(vec![0; 5]));
    assert_eq!(unsound(&database), None);
}

/// Parts that lie in a damaged block fail, others are read; where the checksums are damaged all fail.
pub(super) fn checked() -> Result<(), String> {
    let (memory, database, _) = store(0)?;
    let bytes = 100_001;
    let blocks = bytes / BLOCK_BYTES + 1;
    let stored = (bytes + 16 * blocks).div_ceil(BLOCK_BYTES);
    let found =
        database.engine.reachable_blocks().into_iter().find(|(_, found)| *found as usize == bytes + 16 * blocks);
    let (start, _) = found.ok_or("there is no value with checksums of its parts")?;
    drop(database);
    for flipped in 0..stored {
        for place in [0, 3000] {
            let mut image = memory.image();
            image.flip((start + flipped as u64) * BLOCK_BYTES as u64 + place, 2);
            let at = flipped * BLOCK_BYTES + place as usize;
            let database = Database::open(Memory::from_image(image), options(0)).map_err(failed)?;
            let tree = database.tree("t").map_err(failed)?;
            let key = bytes.to_be_bytes();
            let is_padding = at >= bytes + 16 * blocks;
            if tree.get(key).is_ok() != is_padding {
                return Err(format!("byte {at} of {bytes} is another, and that goes by unnoticed"));
            }
            for block in 0..blocks {
                let range = block * BLOCK_BYTES..(block * BLOCK_BYTES + 9).min(bytes);
                let is_lost = !is_padding && (at >= bytes || at / BLOCK_BYTES == block);
                match tree.get_part(key, range.clone()) {
                    Err(Error::Corrupt { .. }) if is_lost => {}
                    Ok(Some(part)) if !is_lost && part == noise(bytes)[range.clone()] => {}
                    other => return Err(format!("byte {at} is another, {range:?} reads as {other:?}")),
                }
            }
        }
    }
    Ok(())
}

#[test]
fn each_part_is_checked() {
    checked().unwrap_or_else(|what| panic!("{what}"));
}
