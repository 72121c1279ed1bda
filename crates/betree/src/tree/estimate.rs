//! How much a range of keys takes, without reading it: headers say how large blocks are.

use crate::bytes::range::KeyRange;
use crate::error::Result;
use crate::io::BlockIo;
use crate::nodes::node::{Child, Edge, Node};
use crate::nodes::run::Run;

/// Of children that lie in a range whole, as many are looked into and stand for the others.
const SAMPLE: usize = 8;

/// Bytes of keys and values in a range, roughly: what waits counts beside what it will replace.
pub(crate) fn estimate(io: &BlockIo, root: &Edge, range: &KeyRange) -> Result<u64> {
    if range.is_empty() { Ok(0) } else { below(io, root, &KeyRange::all(), range) }
}

fn below(io: &BlockIo, edge: &Edge, bounds: &KeyRange, range: &KeyRange) -> Result<u64> {
    let node = io.node(edge)?;
    let internal = match &*node {
        Node::Leaf(leaf) => return Ok(of_run(leaf, range)),
        Node::Internal(internal) => internal,
    };
    let mut sum = 0;
    let mut whole: Vec<(&Child, KeyRange)> = Vec::new();
    for (index, child) in internal.children.iter().enumerate() {
        let own = internal.range_of(index, bounds);
        if own.intersection(range).is_empty() {
            continue;
        }
        sum += child.runs.iter().map(|run| of_run(run, range)).sum::<u64>();
        if range.covers(&own) {
            whole.push((child, own));
        } else {
            sum += below(io, &child.edge, &own, range)?;
        }
    }
    let looked_into = whole.len().min(SAMPLE);
    let mut sampled = 0;
    for number in 0..looked_into {
        if let Some((child, own)) = whole.get(number * whole.len() / looked_into) {
            sampled += below(io, &child.edge, own, range)?;
        }
    }
    Ok(sum + sampled * whole.len() as u64 / looked_into.max(1) as u64)
}

/// Bytes of the blocks of a run that are in a range, and half of those that are so in part.
fn of_run(run: &Run, range: &KeyRange) -> u64 {
    let bytes = |index: usize| {
        let own = run.range_of(index);
        let bytes = run.blocks.get(index).map_or(0, |block| block.part.raw_bytes());
        match (own.intersection(range).is_empty(), range.covers(&own)) {
            (true, _) => 0,
            (false, true) => bytes,
            (false, false) => bytes / 2,
        }
    };
    (0..run.blocks.len()).map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use storage::Memory;

    use crate::{Database, Durability, Options};

    fn key(number: u32) -> [u8; 4] {
        number.wrapping_mul(0x9e37_79b1).to_be_bytes()
    }

    /// Where it waits or lies: within a quarter of what it is, and without reading blocks.
    #[test]
    fn a_range_is_as_large_as_it_is() {
        let options = Options {
            leaf_bytes: 64 << 10,
            basement_bytes: 4 << 10,
            fanout: 8,
            buffer_bytes: 64 << 10,
            memtable_bytes: 64 << 10,
            fresh_bytes: 1 << 20,
            log_bytes: 1 << 20,
            cache_bytes: 0,
            ..Options::default()
        };
        let memory = Memory::new(64 << 20);
        let database = Database::create(memory, options, 1).unwrap();
        let tree = database.tree("t").unwrap();
        for number in 0..40_000 {
            tree.insert(key(number), [number as u8; 96], Durability::None).unwrap();
        }
        for flushed in [false, true] {
            if flushed {
                database.compact().unwrap();
            }
            for (start, end) in [(0u32, u32::MAX), (1 << 30, 3 << 30), (1 << 28, 1 << 29)] {
                let (start, end) = (start.to_be_bytes(), end.to_be_bytes());
                let own = tree.keys(&start[..]..&end[..]).count() as u64 * 100;
                let before = database.stats().read_bytes;
                let said = tree.approximate_bytes(&start[..]..&end[..]).unwrap();
                assert!(said * 4 > own * 3 && said * 3 < own * 4, "flushed {flushed}: {said} and {own}");
                let read = database.stats().read_bytes - before;
                assert!(read < own / 4 + (64 << 10), "{read} bytes were read for {own}");
            }
        }
        assert_eq!(tree.approximate_bytes(&[5][..]..&[5][..]).unwrap(), 0);
        tree.remove_range::<&[u8]>(.., Durability::None).unwrap();
        database.quiesce().unwrap();
        assert_eq!(tree.approximate_bytes::<&[u8]>(..).unwrap(), 0);
    }
}
