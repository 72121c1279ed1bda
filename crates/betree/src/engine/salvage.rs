//! What can still be read of a damaged store.
//!
//! A tree is gone through in *cells*: ranges of keys for which every node on the way answers with one block at most. A cell is
//! whole, or something of it cannot be read; then the keys that newer messages are about are asked for one by one.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::bytes::block::Block;
use crate::bytes::page::Page;
use crate::bytes::range::{Key, KeyRange, successor};
use crate::bytes::tree_id::TreeId;
use crate::error::{Error, Result};
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
struct Cell {
    range: KeyRange,
    damage: Option<Error>,
    readable: Vec<Arc<Block>>,
    /// Parts of blocks that cannot be read whole.
    pages: Vec<Arc<Page>>,
}

impl Engine {
    /// Gives everything of a tree that can be read, and says where it cannot.
    pub fn salvage(&self, view: &View, tree: TreeId, each: &mut dyn FnMut(Salvaged) -> Result<()>) -> Result<()> {
        let Some(version) = view.version.trees.get(&tree) else { return Ok(()) };
        let mut start = Key::default();
        loop {
            let cell = self.cell(&version.root, &start)?;
            let end = cell.range.end.clone();
            let keys = Self::keys_of(view, tree, &cell);
            // An entry can be damaged where its cell is not: a value that lies apart.
            for key in keys {
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
            if let Some(damage) = cell.damage {
                each(Salvaged::Lost(cell.range, damage))?;
            }
            match end {
                Some(end) => start = end,
                None => return Ok(()),
            }
        }
    }

    /// Every key of a cell that something readable is about.
    fn keys_of(view: &View, tree: TreeId, cell: &Cell) -> BTreeSet<Vec<u8>> {
        let mut keys = BTreeSet::new();
        for table in view.version.trees.get(&tree).into_iter().flat_map(|version| version.tables()) {
            keys.extend(table.keys(&cell.range));
        }
        for block in &cell.readable {
            let of_cell = (0..block.len()).map(|at| block.key(at)).filter(|key| cell.range.contains(key));
            keys.extend(of_cell.map(<[u8]>::to_vec));
        }
        for page in &cell.pages {
            keys.extend(page.keys().filter(|key| cell.range.contains(key)).map(<[u8]>::to_vec));
        }
        keys
    }

    /// The cell that begins at `start`.
    fn cell(&self, root: &Edge, start: &Key) -> Result<Cell> {
        let mut cell =
            Cell { range: KeyRange::new(start.clone(), None), damage: None, readable: Vec::new(), pages: Vec::new() };
        let (mut edge, mut bounds) = (root.clone(), KeyRange::all());
        loop {
            let node = match self.io.node(&edge) {
                Ok(node) => node,
                Err(error) if error.is_damage() => {
                    cell.damage = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            };
            edge = match &*node {
                Node::Leaf(leaf) => {
                    self.look_into(&mut cell, leaf)?;
                    break;
                }
                Node::Internal(internal) => {
                    let index = internal.child_of(start);
                    bounds = internal.range_of(index, &bounds);
                    let Some(child) = internal.children.get(index) else { break };
                    for run in &child.runs {
                        self.look_into(&mut cell, run)?;
                    }
                    child.edge.clone()
                }
            };
        }
        cell.range = cell.range.intersection(&bounds);
        Ok(cell)
    }

    /// Makes a cell end where another block of the run answers.
    fn look_into(&self, cell: &mut Cell, run: &Run) -> Result<()> {
        let index = run.block_of(&cell.range.start);
        let next = run.blocks.get(index.map_or(0, |index| index + 1));
        let end = next.map(|next| next.first_key.clone());
        cell.range = cell.range.intersection(&KeyRange::new(Key::default(), end));
        let Some(block) = index.and_then(|index| run.blocks.get(index)) else { return Ok(()) };
        match self.io.block(&block.part) {
            Ok(block) => cell.readable.push(block),
            Err(error) if error.is_damage() => {
                cell.damage = Some(error);
                if let Part::Stored(pointer) = &block.part {
                    cell.pages.extend(block.pages.places(pointer).filter_map(|place| self.io.page(&place).ok()));
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
