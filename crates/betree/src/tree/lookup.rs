//! The way down: every run that waits along it may have something to say.

use std::sync::Arc;

use crate::bytes::block::Block;
use crate::bytes::filter::KeyHash;
use crate::bytes::message::Message;
use crate::bytes::page::{Looked, Page, look};
use crate::bytes::pages::PagePlace;
use crate::bytes::pointer::BlockPointer;
use crate::bytes::range::{Direction, KeyRange};
use crate::bytes::wire::Malformed;
use crate::cache::Cached;
use crate::error::{Error, Result};
use crate::io::Composer;
use crate::io::ahead::Wanted;
use crate::io::{BlockIo, Kind, corrupt};
use crate::merge::Layer;
use crate::nodes::node::{Child, Edge, Node, RunHandle};
use crate::nodes::run::{Part, Run, RunBlock};

/// What a run has for a key, over `newer`: final once nothing below matters.
fn ask<'a>(
    with: &Composer<'_>,
    run: &Run,
    (key, hash): (&[u8], KeyHash),
    newer: Option<Message<'static>>,
) -> Result<Option<Message<'a>>> {
    let mut folded = newer;
    if let Some(block) = run.block_of(key).and_then(|index| run.blocks.get(index))
        && with.io.admits(&block.filter, hash)
        && let Some(message) = find_in(with.io, block, key)?
    {
        folded = Some(match folded {
            None => message,
            Some(newer) => newer.over(message, with)?,
        });
    }
    if run.tombstones.contains(key) && !folded.as_ref().is_some_and(Message::is_final) {
        folded = Some(folded.unwrap_or(Message::Delete).over_nothing(with)?);
    }
    Ok(folded)
}

/// What a block on the storage has for a key, as far as `cached` and `page` give what it takes: the block whole or a page of it.
fn find_stored<E>(
    io: &BlockIo,
    (block, pointer): (&RunBlock, &BlockPointer),
    key: &[u8],
    cached: Option<Cached>,
    page: impl Fn(&[PagePlace]) -> Result<Option<Arc<Page>>, E>,
    malformed: impl Fn(Malformed) -> E,
) -> Result<Looked, E> {
    match cached {
        Some(Cached::Block(block)) => Ok(Looked::Found(find_whole(&block, key))),
        _ if !io.reads_pages() => Ok(Looked::Whole),
        _ => look((&block.pages, pointer), key, page, malformed),
    }
}

fn find_whole(block: &Block, key: &[u8]) -> Option<Message<'static>> {
    block.find(key).map(Message::into_owned)
}

/// What a block has for a key. Of one that can be read in part no more is read than the key takes.
fn find_in(io: &BlockIo, block: &RunBlock, key: &[u8]) -> Result<Option<Message<'static>>> {
    if let Part::Stored(pointer) = &block.part {
        let page = |places: &[PagePlace]| io.pages(places, 0).map(|(page, _)| Some(page));
        let malformed = |error: Malformed| corrupt(pointer, error.to_string());
        let cached = io.cache.get_or_part(pointer);
        if let Looked::Found(found) = find_stored(io, (block, pointer), key, cached, page, malformed)? {
            return Ok(found);
        }
    }
    let whole = io.block(&block.part)?;
    Ok(find_whole(&whole, key))
}

/// What a block has for a key, as far as what is in memory tells, or else what is to be read first: nothing where that has
/// no form, and whoever looks will find that out.
fn find_cached(io: &BlockIo, block: &RunBlock, key: &[u8]) -> Result<Option<Message<'static>>, Vec<Wanted>> {
    let pointer = match &block.part {
        Part::Fresh(block) => return Ok(find_whole(block, key)),
        Part::Stored(pointer) => pointer,
    };
    let cached = |place: &PagePlace| match io.cache.peek(&place.pointer) {
        Some(Cached::Page(page)) => Some(page),
        _ => None,
    };
    let page = |places: &[PagePlace]| Ok(places.first().and_then(cached));
    match find_stored(io, (block, pointer), key, io.cache.peek(pointer), page, |_| Vec::new())? {
        Looked::Found(found) => Ok(found),
        Looked::Missing(places) => {
            let missing = places.iter().filter(|place| cached(place).is_none());
            Err(missing.map(|place| Wanted::new(place.pointer, Kind::Page(place.shape))).collect())
        }
        Looked::Whole => Err(vec![Wanted::new(*pointer, Kind::Block)]),
    }
}

/// The message that `newer` and the tree have for a key.
pub(crate) fn find(
    with: &Composer<'_>,
    root: &Edge,
    key: &[u8],
    newer: Option<Message<'static>>,
) -> Result<Option<Message<'static>>> {
    let mut folded = newer;
    let hashed = (key, KeyHash::of(key));
    let mut node = with.io.node(root)?;
    loop {
        let next = match &*node {
            Node::Leaf(leaf) => return ask(with, leaf, hashed, folded),
            Node::Internal(internal) => {
                let child = &internal.children[internal.child_of(key)];
                for run in &child.runs {
                    folded = ask(with, run, hashed, folded)?;
                    if folded.as_ref().is_some_and(Message::is_final) {
                        return Ok(folded);
                    }
                }
                with.io.node(&child.edge)?
            }
        };
        expect_lower(&node, &next)?;
        node = next;
    }
}

/// What `newer` comes to over what waits for a child and is below it.
pub(super) fn find_below(
    with: &Composer<'_>,
    below: &Child,
    key: &[u8],
    newer: Message<'static>,
) -> Result<Message<'static>> {
    let mut folded = Some(newer);
    let hashed = (key, KeyHash::of(key));
    for run in &below.runs {
        folded = ask(with, run, hashed, folded)?;
        if folded.as_ref().is_some_and(Message::is_final) {
            break;
        }
    }
    if !folded.as_ref().is_some_and(Message::is_final) {
        folded = find(with, &below.edge, key, folded)?;
    }
    Ok(folded.unwrap_or(Message::Delete))
}

/// Asks every run on the way down to a key, newest first, as long as `ends_at` has not said yes and memory has the way: what is to be read
/// to go on.
fn descend_cached(io: &BlockIo, root: &Edge, key: &[u8], mut ends_at: impl FnMut(&Run) -> bool) -> Option<Wanted> {
    let mut edge = root.clone();
    loop {
        let node = match &edge {
            Edge::Fresh(node) => Arc::clone(node),
            Edge::Stored(pointer) => match io.cache.peek(pointer) {
                Some(Cached::Node(node)) => node,
                _ => return Some(Wanted::new(*pointer, Kind::Node)),
            },
        };
        edge = match &*node {
            Node::Leaf(leaf) => {
                ends_at(leaf);
                return None;
            }
            Node::Internal(internal) => {
                let child = &internal.children[internal.child_of(key)];
                if child.runs.iter().any(|run| ends_at(run)) {
                    return None;
                }
                child.edge.clone()
            }
        };
    }
}

/// What a lookup of a key will read first, as far as what is in memory tells.
pub(crate) fn missing(io: &BlockIo, root: &Edge, key: &[u8], wanted: &mut Vec<Wanted>) {
    let hashed = (key, KeyHash::of(key));
    let node = descend_cached(io, root, key, |run| is_settled(io, run, hashed, wanted));
    wanted.extend(node);
}

/// Blocks of a run that are read ahead for a scan: what is behind them a scan that gets there reads ahead for itself.
const BLOCKS_AHEAD: usize = 4;

/// What a scan from the start of a range on will read first, as far as what is in memory tells; in the leaf that it begins in.
pub(crate) fn missing_at_start(io: &BlockIo, root: &Edge, range: &KeyRange, wanted: &mut Vec<Wanted>) {
    let node = descend_cached(io, root, &range.start, |run| {
        let first = run.block_of(&range.start).unwrap_or(0);
        let of_range = |block: &&RunBlock| range.end.as_ref().is_none_or(|end| block.first_key < *end);
        for block in run.blocks.iter().skip(first).take_while(of_range).take(BLOCKS_AHEAD) {
            if let Part::Stored(pointer) = &block.part
                && io.cache.peek(pointer).is_none()
            {
                wanted.push(Wanted::new(*pointer, Kind::Block));
            }
        }
        false
    });
    wanted.extend(node);
}

/// Whether a lookup ends at a run, or must read there to know.
fn is_settled(io: &BlockIo, run: &Run, (key, hash): (&[u8], KeyHash), wanted: &mut Vec<Wanted>) -> bool {
    let found = run.block_of(key).and_then(|index| run.blocks.get(index));
    if let Some(found) = found.filter(|block| block.filter.admits(hash)) {
        let message = match find_cached(io, found, key) {
            Ok(message) => message,
            Err(missing) => {
                wanted.extend(missing);
                return true;
            }
        };
        if let Some(message) = message {
            let place = message.place().filter(|place| io.cache.peek(place).is_none());
            wanted.extend(place.map(|place| Wanted::new(place, Kind::Value)));
            if message.is_final() {
                return true;
            }
        }
    }
    run.tombstones.contains(key)
}

fn expect_lower(parent: &Node, child: &Node) -> Result<()> {
    if child.height() + 1 == parent.height() {
        return Ok(());
    }
    let what = format!("a node of height {} below one of height {}", child.height(), parent.height());
    Err(Error::Corrupt { what, offset_bytes: 0, stored_bytes: 0 })
}

/// The leaf at one end of `range`, the keys for which it and its ancestors answer, and their layers, newest first.
pub(crate) fn window(
    with: &Composer<'_>,
    root: &Edge,
    range: &KeyRange,
    direction: Direction,
) -> Result<(KeyRange, Vec<Layer>)> {
    let mut bounds = KeyRange::all();
    let mut runs: Vec<RunHandle> = Vec::new();
    let mut node = with.node(root)?;
    loop {
        let next = match &*node {
            Node::Leaf(_) => {
                runs.push(RunHandle::Leaf(Arc::clone(&node)));
                break;
            }
            Node::Internal(internal) => {
                let index = internal.child_at(range, direction);
                let child = &internal.children[index];
                bounds = internal.range_of(index, &bounds);
                runs.extend(child.runs.iter().map(|run| RunHandle::Run(Arc::clone(run))));
                with.node(&child.edge)?
            }
        };
        expect_lower(&node, &next)?;
        node = next;
    }
    let own = bounds.intersection(range);
    Ok((bounds, Layer::of_runs(with, runs, &own, direction)?))
}
