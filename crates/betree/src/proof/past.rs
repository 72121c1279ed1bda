//! Iterators that go past damage: with any block of a tree damaged they find all that lookups find, in order, and tell of the rest.

use std::collections::BTreeSet;

use rand::RngExt;
use storage::Memory;

use super::workload::{Map, batch, keys, random, tiny};
use crate::{Compression, Database, Durability, Entry, Error, Options, Tree};

fn failed(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

type Keys = BTreeSet<Vec<u8>>;

/// Blocks of one page, with values that lie apart among them; or of several pages, of which entries go across the ends.
fn options(seed: u64, paged: bool) -> Options {
    let options = Options { cache_bytes: [0, 1 << 18][(seed % 2) as usize], ..tiny(seed) };
    match paged {
        false => options,
        true => Options {
            leaf_bytes: 64 << 10,
            basement_bytes: 16 << 10,
            buffer_bytes: 12 << 10,
            compression: Compression::None,
            large_value_bytes: usize::MAX,
            ..options
        },
    }
}

/// What iterators gave: what they found, and how often they told of damage.
fn split<T>(items: impl Iterator<Item = Result<T, Error>>) -> Result<(Vec<T>, usize), String> {
    let (mut found, mut told) = (Vec::new(), 0);
    for item in items {
        match item {
            Ok(item) => found.push(item),
            Err(Error::Corrupt { .. }) => told += 1,
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok((found, told))
}

/// From both ends in turn, put in order.
fn from_both_ends(tree: &Tree) -> Result<(Vec<Entry>, usize), String> {
    let mut iter = tree.iter().past_damage();
    let (mut front, mut back, mut told) = (Vec::new(), Vec::new(), 0);
    for number in 0.. {
        let item = if number % 3 == 0 { iter.next_back() } else { iter.next() };
        match (item, number % 3) {
            (None, _) => break,
            (Some(Ok(entry)), 0) => back.push(entry),
            (Some(Ok(entry)), _) => front.push(entry),
            (Some(Err(Error::Corrupt { .. })), _) => told += 1,
            (Some(Err(error)), _) => return Err(error.to_string()),
        }
    }
    front.extend(back.into_iter().rev());
    Ok((front, told))
}

/// Looks at a tree in all ways; how many entries cannot be read.
fn look(tree: &Tree, map: &Map) -> Result<usize, String> {
    let (mut lost, mut unknown) = (Keys::new(), Keys::new());
    for (key, value) in map {
        match tree.get(key) {
            Ok(found) if found.as_ref() == Some(value) => {}
            Err(Error::Corrupt { .. }) => drop(lost.insert(key.clone())),
            other => return Err(format!("{key:?} reads as {other:?}")),
        }
        if tree.contains(key).is_err() {
            unknown.insert(key.clone());
        }
    }
    let there: Vec<Entry> =
        map.iter().filter(|(key, _)| !lost.contains(*key)).map(|(key, value)| (key.clone(), value.clone())).collect();
    let same = |way: &str, (found, told): (Vec<Entry>, usize)| {
        let missing: Vec<_> = there.iter().filter(|entry| !found.contains(entry)).map(|(key, _)| key).collect();
        match found == there && (told > 0 || lost.is_empty()) {
            true => Ok(told),
            false => Err(format!("{way}: {missing:?} missing, {} of {} found, told {told}", found.len(), there.len())),
        }
    };
    let told = same("forward", split(tree.iter().past_damage())?)?;
    let (mut backward, told_backward) = split(tree.iter().past_damage().rev())?;
    backward.reverse();
    same("backward", (backward, told_backward))?;
    same("from both ends", from_both_ends(tree)?)?;
    let known: Vec<Vec<u8>> = map.keys().filter(|key| !unknown.contains(*key)).cloned().collect();
    let (keys, _) = split(tree.keys::<&[u8]>(..).past_damage())?;
    let (mut reversed, _) = split(tree.keys::<&[u8]>(..).past_damage().rev())?;
    reversed.reverse();
    if keys != known || reversed != known {
        return Err(format!("{} and {} keys of {}", keys.len(), reversed.len(), known.len()));
    }
    let (start, end) = (&[0, 20][..], &[1, 0, 90][..]);
    let own = there.iter().filter(|(key, _)| (start..end).contains(&&key[..]));
    if !own.eq(&split(tree.range(start..end).past_damage())?.0) {
        return Err("a part of the tree differs".to_owned());
    }
    // Who does not ask for it is told once, and that is the end.
    let (plain, told_plain) = split(tree.iter())?;
    if told_plain != usize::from(told > 0) || !there.starts_with(&plain) && told == 0 {
        return Err(format!("{told_plain} times told without being asked to go on, {told} times with"));
    }
    Ok(lost.len())
}

/// Damages blocks one by one, each in one page, one of `stride`; how many entries were lost, and of how many.
pub(super) fn blocks(seed: u64, paged: bool, stride: usize) -> Result<(usize, usize), String> {
    let (memory, options) = (Memory::new(4 << 20), options(seed, paged));
    let (mut random, mut map) = (random(seed), Map::new());
    let blocks = {
        let database = Database::create(memory.clone(), options.clone(), 5).map_err(failed("create"))?;
        let tree = database.tree("t").map_err(failed("tree"))?;
        for number in 1..120 {
            let batch = batch(&tree, number, &mut random, &mut map);
            database.commit(&batch, Durability::Batch).map_err(failed("commit"))?;
            if paged && number % 20 == 0 {
                for key in keys().step_by(3) {
                    let value = vec![number as u8; random.random_range(0..3000)];
                    tree.insert(&key, value.clone(), Durability::None).map_err(failed("insert"))?;
                    map.insert(key, value);
                }
            }
        }
        // Those that no range delete takes away.
        for number in 0..300u16 {
            let key = [&[1][..], &number.to_be_bytes()].concat();
            let value = vec![number as u8; random.random_range(0..if paged { 2000 } else { 120 })];
            tree.insert(&key, value.clone(), Durability::None).map_err(failed("insert"))?;
            map.insert(key, value);
        }
        database.checkpoint().map_err(failed("checkpoint"))?;
        let own = database.engine.blocks_of("t");
        let mut blocks = database.engine.reachable_blocks();
        blocks.retain(|(start, _)| own.contains(start));
        blocks
    };
    let image = memory.image();
    let (mut lost, mut all) = (0, 0);
    for (number, (start, bytes)) in blocks.into_iter().enumerate().step_by(stride) {
        let mut damaged = image.clone();
        let page = number as u64 % bytes.div_ceil(4096);
        damaged.flip(start * 4096 + page * 4096 + 9, 3);
        let what = |error: String| format!("block {start}, page {page}: {error}");
        let database = Database::open(Memory::from_image(damaged), options.clone()).map_err(failed("open"))?;
        let tree = database.tree("t").map_err(failed("tree"))?;
        let mut then = map.clone();
        // What is newer than the damage.
        for key in [vec![0, 7, b'n'], vec![0, 40], vec![1, 0, 77], vec![1, 0, 78, 1]] {
            tree.insert(&key, "new", Durability::None).map_err(failed("insert"))?;
            then.insert(key, b"new".to_vec());
        }
        lost += look(&tree, &then).map_err(what)?;
        all += then.len();
    }
    Ok((lost, all))
}

#[test]
fn iterators_go_past_damage_when_told() {
    let is_long = std::env::var_os("PLUMB_LONG").is_some();
    for (seed, paged) in [(0, false), (1, false), (4, false), (5, false), (0, true), (1, true), (2, true)] {
        // Long blocks are few.
        let found = blocks(seed, paged, if is_long || paged { 1 } else { 3 });
        let (lost, all) = found.unwrap_or_else(|what| panic!("seed {seed}, paged {paged}: {what}"));
        println!("seed {seed}, paged {paged}: {lost} of {all} entries lost");
        assert!(lost > 0 && lost * 3 < all, "seed {seed}, paged {paged}: {lost} of {all} entries are lost");
    }
}
