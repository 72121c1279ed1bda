//! What a checkpoint says besides the trees' nodes: trees, snapshots, free space. One block, named by the superblock.

use std::collections::BTreeMap;

use crate::bytes::pointer::BlockPointer;
use crate::bytes::tree_id::TreeId;
use crate::bytes::wire::{Malformed, Reader, put_bytes, put_varint};
use crate::extents::Extent;
use crate::families::Families;
use crate::space::Space;

/// A tree as a checkpoint left it; no root: empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TreeRecord {
    pub name: String,
    pub root: Option<BlockPointer>,
}

/// The trees of a store at one checkpoint, under a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SnapshotRecord {
    pub generation: u64,
    pub trees: BTreeMap<TreeId, TreeRecord>,
}

/// Everything a checkpoint says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    pub trees: BTreeMap<TreeId, TreeRecord>,
    pub snapshots: BTreeMap<String, SnapshotRecord>,
    pub families: Families,
}

fn encode_trees(trees: &BTreeMap<TreeId, TreeRecord>, to: &mut Vec<u8>) {
    put_varint(to, trees.len() as u64);
    for (id, tree) in trees {
        put_varint(to, u64::from(id.0));
        put_bytes(to, tree.name.as_bytes());
        to.push(u8::from(tree.root.is_some()));
        if let Some(root) = &tree.root {
            root.encode(to);
        }
    }
}

fn decode_trees(from: &mut Reader<'_>) -> Result<BTreeMap<TreeId, TreeRecord>, Malformed> {
    let mut trees = BTreeMap::new();
    for _ in 0..from.count(3)? {
        let id = u32::try_from(from.varint()?).map_err(|_| Malformed("a tree has no number"))?;
        let name = decode_name(from)?;
        let root = if from.u8()? == 0 { None } else { Some(BlockPointer::decode(from)?) };
        trees.insert(TreeId(id), TreeRecord { name, root });
    }
    Ok(trees)
}

pub(crate) fn decode_name(from: &mut Reader<'_>) -> Result<String, Malformed> {
    let name = std::str::from_utf8(from.bytes()?).map_err(|_| Malformed("a name is not UTF-8"))?;
    Ok(name.to_owned())
}

impl Catalog {
    /// Generation of the newest snapshot.
    pub fn newest_snapshot(&self) -> Option<u64> {
        self.snapshots.values().map(|snapshot| snapshot.generation).max()
    }

    pub fn encode(&self, space: &Space) -> Vec<u8> {
        let mut to = Vec::new();
        encode_trees(&self.trees, &mut to);
        put_varint(&mut to, self.snapshots.len() as u64);
        for (name, snapshot) in &self.snapshots {
            put_bytes(&mut to, name.as_bytes());
            put_varint(&mut to, snapshot.generation);
            encode_trees(&snapshot.trees, &mut to);
        }
        self.families.encode(&mut to);
        space.encode(&mut to);
        to
    }

    /// In whole storage blocks: the length, the catalog, zeroes.
    pub fn encode_padded(&self, space: &Space, blocks: u64) -> Vec<u8> {
        let body = self.encode(space);
        let mut raw = (body.len() as u64).to_le_bytes().to_vec();
        raw.extend_from_slice(&body);
        let len = blocks as usize * storage::BLOCK_BYTES;
        assert!(raw.len() <= len, "the catalog fits into its place");
        raw.resize(len, 0);
        raw
    }

    /// # Errors
    ///
    /// What is wrong first.
    pub fn decode(bytes: &[u8], bounds: Extent) -> Result<(Self, Space), Malformed> {
        let mut padded = Reader::new(bytes);
        let len = usize::try_from(padded.u64()?).map_err(|_| Malformed("the catalog is too long"))?;
        let mut from = Reader::new(padded.take(len)?);
        let trees = decode_trees(&mut from)?;
        let mut snapshots = BTreeMap::new();
        for _ in 0..from.count(3)? {
            let name = decode_name(&mut from)?;
            let generation = from.varint()?;
            snapshots.insert(name, SnapshotRecord { generation, trees: decode_trees(&mut from)? });
        }
        let families = Families::decode(&mut from, bounds)?;
        let space = Space::decode(&mut from, bounds)?;
        from.end()?;
        Ok((Self { trees, snapshots, families }, space))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_catalog_or_an_error(bytes: Vec<u8>) {
            let _ = Catalog::decode(&bytes, Extent { start: 0, blocks: 100 });
        }
    }
}
