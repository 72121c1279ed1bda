//! How much a range of keys takes, without reading it: headers say how large blocks are.

use crate::bytes::range::KeyRange;
use crate::error::Result;
use crate::io::BlockIo;
use crate::mutant::{Mutant, mutated};
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
        if !mutated(Mutant::EstimateForgetsBuffers) {
            sum += child.runs.iter().map(|run| of_run(run, range)).sum::<u64>();
        }
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
    let stand_for = if mutated(Mutant::EstimateOfSampleOnly) { looked_into } else { whole.len() };
    Ok(sum + sampled * stand_for as u64 / looked_into.max(1) as u64)
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
