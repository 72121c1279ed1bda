//! Images that others wrote to: blocks that are lost, swapped, put in another place or half old, and bytes that were changed;
//! and, as if the checksums were right, anything at all.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::{Rng, RngExt};
use storage::{Image, Memory};

use super::damage::{End, at_rest, is_noticed};
use super::workload::{content, keys, random, tiny};
use crate::mutant::{Mutant, set};
use crate::{Database, Durability, Error, Options};

const BLOCK: usize = 4096;

fn block(image: &Image, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    image.read(number * BLOCK as u64, &mut bytes);
    bytes
}

/// Makes a block's bytes others, bit by bit.
fn overwrite(image: &mut Image, number: u64, bytes: &[u8]) {
    let before = block(image, number);
    for (at, (old, new)) in before.iter().zip(bytes).enumerate() {
        for bit in (0..8).filter(|bit| (old ^ new) >> bit & 1 == 1) {
            image.flip(number * BLOCK as u64 + at as u64, bit);
        }
    }
}

/// Blocks that are not all zeroes.
fn used(image: &Image) -> Vec<u64> {
    let blocks = image.capacity_bytes() / BLOCK as u64;
    (0..blocks).filter(|number| block(image, *number).iter().any(|byte| *byte != 0)).collect()
}

/// One of the things that happen to a storage; what it was.
fn happen(image: &mut Image, used: &[u64], random: &mut impl Rng) -> String {
    let mut some = || used[random.random_range(0..used.len())];
    let (one, other) = (some(), some());
    let (first, second) = (block(image, one), block(image, other));
    let kind = random.random_range(0..5);
    let at = random.random_range(0..BLOCK);
    match kind {
        0 => overwrite(image, one, &[0; BLOCK]),
        1 => overwrite(image, one, &second),
        2 => {
            overwrite(image, one, &second);
            overwrite(image, other, &first);
        }
        3 => overwrite(image, one, &[&second[..at], &first[at..]].concat()),
        _ => {
            let mut changed = first;
            for _ in 0..random.random_range(1..9) {
                let at = random.random_range(0..BLOCK);
                changed[at] = random.random();
            }
            overwrite(image, one, &changed);
        }
    }
    format!("{} of block {one} with {other} at {at}", ["loss", "copy", "swap", "tear", "change"][kind])
}

/// Lets things happen to a storage, each by itself, and looks at what came of it; how often that was worth counting.
fn each_change(
    image: &Image,
    seed: u64,
    count: usize,
    mut look: impl FnMut(Image) -> Result<bool, String>,
) -> Result<usize, String> {
    let (mut random, used) = (random(seed), used(image));
    let mut counted = 0;
    for _ in 0..count {
        let mut changed = image.clone();
        let what = happen(&mut changed, &used, &mut random);
        counted += usize::from(look(changed).map_err(|error| format!("{what}: {error}"))?);
    }
    Ok(counted)
}

/// Whatever happened: the store is not opened, or reads are right or fail, and where one fails `verify` finds why.
fn images(seed: u64, count: usize) -> Result<usize, String> {
    let (image, map) = at_rest(seed, &tiny(seed), 6, End::Closed)?;
    each_change(&image, seed, count, |damaged| is_noticed(damaged, &tiny(seed), &map))
}

#[test]
fn whatever_happens_to_blocks_is_noticed() {
    let count = if std::env::var_os("PLUMB_LONG").is_some() { 20_000 } else { 400 };
    for seed in 0..4 {
        let noticed = images(seed, count).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        assert!(noticed > count / 20, "{noticed} of {count} were noticed");
    }
}

/// Everything that only reads.
fn look(image: Image, options: &Options) -> Result<(), Error> {
    let _ = crate::verify(Memory::from_image(image.clone()));
    let _ = crate::dump(Memory::from_image(image.clone()), true, |_| {});
    let _ = crate::repair(Memory::from_image(image.clone()), Memory::new(1 << 20), options.clone(), 6, |_| {});
    let database = Database::open_read_only(Memory::from_image(image), options.clone())?;
    let tree = database.open_tree("t")?;
    let _ = content(&tree);
    let _ = tree.iter().rev().count();
    let asked: Vec<Vec<u8>> = keys().collect();
    let _ = tree.get_many(&asked);
    for key in &asked {
        let _ = tree.get(key);
        let _ = tree.contains(key);
    }
    database.verify().map(drop)
}

/// Bytes that no checksum kept out: reading ends, with an error or with anything, and never in a panic.
fn parsed(seed: u64, count: usize) -> Result<usize, String> {
    // In blocks of one page and of several.
    let options = match seed % 2 {
        0 => tiny(seed),
        _ => Options {
            leaf_bytes: 64 << 10,
            basement_bytes: 16 << 10,
            compression: crate::Compression::None,
            ..tiny(seed)
        },
    };
    let (image, _) = at_rest(seed, &options, 6, End::Killed)?;
    let mut ignored = [Mutant::BlockChecksumIgnored, Mutant::FrameChecksumIgnored, Mutant::SuperblockChecksumIgnored]
        .into_iter()
        .cycle();
    each_change(&image, seed, count, |damaged| {
        let ignored = ignored.next();
        set(ignored);
        let looked = catch_unwind(AssertUnwindSafe(|| look(damaged, &options)));
        set(None);
        looked.map(|looked| looked.is_err()).map_err(|_| format!("{ignored:?}: a panic"))
    })
}

#[test]
fn no_bytes_make_a_reader_panic() {
    let count = if std::env::var_os("PLUMB_LONG").is_some() { 20_000 } else { 150 };
    for seed in 0..4 {
        let different = parsed(seed, count).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        assert!(different > 0, "nothing was met");
    }
}

/// Writes to a tree of its own, and reads that from the store opened anew; whether it could be opened at first.
fn beside(memory: Memory, options: &Options, round: u32) -> Result<bool, Error> {
    let Ok(database) = Database::open(memory.clone(), options.clone()) else { return Ok(false) };
    let tree = database.tree("beside")?;
    for number in 0..40u32 {
        tree.insert(number.to_be_bytes(), round.to_le_bytes(), Durability::Sync)?;
    }
    database.checkpoint()?;
    drop((tree, database));
    let tree = Database::open(memory, options.clone())?.open_tree("beside")?;
    let values = tree.iter().map(|entry| Ok(entry?.1)).collect::<Result<Vec<_>, Error>>()?;
    assert_eq!(values, vec![round.to_le_bytes().to_vec(); 40]);
    Ok(true)
}

/// A store that goes on after damage does no harm: what it writes then is what is read.
#[test]
fn writes_beside_what_happened_are_kept() {
    for seed in 0..4 {
        let (image, _) = at_rest(seed, &tiny(seed), 6, End::Closed).unwrap();
        let mut round = 0u32;
        let opened = each_change(&image, seed, 60, |damaged| {
            round += 1;
            beside(Memory::from_image(damaged), &tiny(seed), round).map_err(|error| error.to_string())
        });
        let opened = opened.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        assert!(opened > 10, "{opened} stores were opened");
    }
}
