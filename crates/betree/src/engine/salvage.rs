//! What can still be read of a damaged store.
//!
//! A tree is gone through in *cells*: ranges of keys for which every node on the way answers with one block at most. A cell is
//! whole, or something of it cannot be read; then the keys that newer messages are about are asked for one by one.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::bytes::block::Block;
use crate::bytes::page::{Page, keys_of_pages};
use crate::bytes::range::{Direction, Key, KeyRange, successor};
use crate::bytes::tree_id::TreeId;
use crate::error::{Error, Result};
use crate::mutant::{Mutant, mutated};
use crate::nodes::node::{Edge, Node};
use crate::nodes::run::{Part, Run};

use super::{Engine, View};

/// A part of a tree.
pub(crate) enum Salvaged {
    Entry(Vec<u8>, Vec<u8>),
    /// Of these keys not everything could be read.
    Lost(KeyRange, Error),
}

/// Keys for which the same blocks answer.
pub(crate) struct Cell {
    pub range: KeyRange,
    /// What was met where not everything of it can be read.
    pub damage: Option<Error>,
    /// Every key that something readable is about.
    pub keys: BTreeSet<Vec<u8>>,
}

/// A cell that is being looked at, from one end.
struct Look {
    range: KeyRange,
    direction: Direction,
    damage: Option<Error>,
    readable: Vec<Arc<Block>>,
    /// Pages of each block that cannot be read whole; none where that cannot be read either.
    pages: Vec<Vec<Option<Arc<Page>>>>,
}

impl Engine {
    /// Gives everything of a tree that can be read, and says where it cannot.
    pub fn salvage(&self, view: &View, tree: TreeId, each: &mut dyn FnMut(Salvaged) -> Result<()>) -> Result<()> {
        let mut rest = KeyRange::all();
        while let Some(cell) = self.cell(view, tree, &rest, Direction::Forward)? {
            // An entry can be damaged where its cell is not: a value that lies apart.
            for key in cell.keys {
                match self.get(view, tree, &key) {
                    Ok(Some(value)) => each(Salvaged::Entry(key, value))?,
                    Ok(None) => {}
                    Err(error) if error.is_damage() && cell.damage.is_none() => {
                        each(Salvaged::Lost(KeyRange::new(key.clone().into(), Some(successor(&key))), error))?;
                    }
                    Err(error) if error.is_damage() => {}
                    Err(error) => return Err(error),
                }
            }
            let end = cell.range.end.clone();
            if let Some(damage) = cell.damage {
                each(Salvaged::Lost(cell.range, damage))?;
            }
            match end {
                Some(end) => rest.start = end,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// The cell at one end of a range; none where there is no tree.
    pub fn cell(&self, view: &View, tree: TreeId, range: &KeyRange, direction: Direction) -> Result<Option<Cell>> {
        let Some(version) = view.version.trees.get(&tree) else { return Ok(None) };
        let Look { range, damage, readable, pages, .. } = self.look_at(&version.root, range, direction)?;
        let mut keys = BTreeSet::new();
        for table in version.tables() {
            keys.extend(table.keys(&range));
        }
        for block in &readable {
            let of_cell = (0..block.len()).map(|at| block.key(at)).filter(|key| range.contains(key));
            keys.extend(of_cell.map(<[u8]>::to_vec));
        }
        for pages in &pages {
            keys.extend(keys_of_pages(pages).into_iter().filter(|key| range.contains(key)));
        }
        if damage.is_some() && mutated(Mutant::CellLostWhole) {
            keys.clear();
        }
        Ok(Some(Cell { range, damage, keys }))
    }

    /// Goes down to one end of a range.
    fn look_at(&self, root: &Edge, range: &KeyRange, direction: Direction) -> Result<Look> {
        let mut look = Look { range: range.clone(), direction, damage: None, readable: Vec::new(), pages: Vec::new() };
        let (mut edge, mut bounds) = (root.clone(), KeyRange::all());
        loop {
            let node = match self.io.node(&edge) {
                Ok(node) => node,
                Err(error) if error.is_damage() => {
                    look.damage = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            };
            edge = match &*node {
                Node::Leaf(leaf) => {
                    self.look_into(&mut look, leaf)?;
                    break;
                }
                Node::Internal(internal) => {
                    let index = internal.child_at(range, direction);
                    bounds = internal.range_of(index, &bounds);
                    let Some(child) = internal.children.get(index) else { break };
                    for run in &child.runs {
                        self.look_into(&mut look, run)?;
                    }
                    child.edge.clone()
                }
            };
        }
        look.range = look.range.intersection(&bounds);
        Ok(look)
    }

    /// Makes a cell end where another block of the run answers.
    fn look_into(&self, look: &mut Look, run: &Run) -> Result<()> {
        let (index, own) = match look.direction {
            Direction::Forward => {
                let index = run.block_of(&look.range.start);
                let next = run.blocks.get(index.map_or(0, |index| index + 1));
                (index, KeyRange::new(Key::default(), next.map(|next| next.first_key.clone())))
            }
            Direction::Backward => {
                let end = look.range.end.as_ref();
                let before = run.blocks.partition_point(|block| end.is_none_or(|end| block.first_key < *end));
                let index = before.checked_sub(1);
                let found = index.and_then(|index| run.blocks.get(index));
                (index, KeyRange::new(found.map_or_else(Key::default, |found| found.first_key.clone()), None))
            }
        };
        look.range = look.range.intersection(&own);
        let Some(block) = index.and_then(|index| run.blocks.get(index)) else { return Ok(()) };
        match self.io.block(&block.part) {
            Ok(block) => look.readable.push(block),
            Err(error) if error.is_damage() => {
                look.damage = Some(error);
                if let Part::Stored(pointer) = &block.part {
                    look.pages.push(block.pages.places(pointer).map(|place| self.io.page(&place).ok()).collect());
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
