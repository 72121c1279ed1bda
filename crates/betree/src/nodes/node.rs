//! Nodes: a leaf is one run; an internal node has children and, for each, the runs that wait for it.
//!
//! A node is a value. Changing one that somebody else can see makes a copy first (`Arc::make_mut`), so a reader who
//! holds a root has the whole tree as it was.

use std::ops::Deref;
use std::sync::Arc;

use storage::BLOCK_BYTES;

use crate::bytes::pointer::BlockPointer;
use crate::bytes::range::{Direction, Key, KeyRange};
use crate::bytes::wire::{Malformed, Reader, VARINT_BYTES_MAX, put_bytes, put_varint};
use crate::mutant::{Mutant, mutated};
use crate::nodes::run::Run;

/// No sane tree is higher: with two children a node it would have 2^32 leaves.
pub(crate) const HEIGHT_MAX: u8 = 32;

/// Bytes of a run's block in memory besides its key, filter and pages: with what allocations take.
const BLOCK_MEMORY_BYTES: usize = 192;

/// A node's place.
#[derive(Clone, Debug)]
pub(crate) enum Edge {
    /// On the storage.
    Stored(BlockPointer),
    /// Not yet on the storage, or something below it is not.
    Fresh(Arc<Node>),
}

/// A child of an internal node, and what waits for it.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    pub edge: Edge,
    /// Newest first.
    pub runs: Vec<Arc<Run>>,
}

impl Child {
    /// Bytes that wait.
    pub fn buffered_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes()).sum()
    }

    /// Of these the ones that are not on the storage.
    pub fn fresh_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.fresh_bytes()).sum()
    }
}

/// A node above the leaves.
#[derive(Clone, Debug)]
pub(crate) struct Internal {
    /// Leaves have height 0.
    pub height: u8,
    /// `pivots[i]` is the least key that child `i + 1` may have; one fewer than children.
    pub pivots: Vec<Key>,
    pub children: Vec<Child>,
}

impl Internal {
    pub fn child_of(&self, key: &[u8]) -> usize {
        self.pivots.partition_point(|pivot| **pivot < *key || (**pivot == *key && !mutated(Mutant::PivotOffByOne)))
    }

    /// The child at one end of a range.
    pub fn child_at(&self, range: &KeyRange, direction: Direction) -> usize {
        match (direction, &range.end) {
            (Direction::Forward, _) => self.child_of(&range.start),
            (Direction::Backward, Some(end)) => self.pivots.partition_point(|pivot| *pivot < *end),
            (Direction::Backward, None) => self.children.len().saturating_sub(1),
        }
    }

    /// The keys of child `index`, where the node has those of `own`.
    pub fn range_of(&self, index: usize, own: &KeyRange) -> KeyRange {
        let start = match index.checked_sub(1).and_then(|before| self.pivots.get(before)) {
            Some(pivot) => pivot.clone(),
            None => own.start.clone(),
        };
        KeyRange { start, end: self.pivots.get(index).cloned().or_else(|| own.end.clone()) }
    }

    /// Bytes that wait for any child.
    pub fn buffered_bytes(&self) -> u64 {
        self.children.iter().map(Child::buffered_bytes).sum()
    }
}

/// A node.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Leaf(Run),
    Internal(Internal),
}

impl Node {
    pub fn height(&self) -> u8 {
        match self {
            Self::Leaf(_) => 0,
            Self::Internal(node) => node.height,
        }
    }

    /// A key that no node beside it can have, if it says one: the first of its blocks, or a pivot.
    pub fn own_key(&self) -> Option<&[u8]> {
        match self {
            Self::Leaf(leaf) => leaf.blocks.first().map(|block| &*block.first_key),
            Self::Internal(node) => node.pivots.first().map(|pivot| &**pivot),
        }
    }

    /// Bytes it takes in memory besides the blocks, roughly.
    pub fn memory_bytes(&self) -> usize {
        let run = |run: &Run| {
            128 + run.tombstones.bytes()
                + run
                    .blocks
                    .iter()
                    .map(|block| {
                        BLOCK_MEMORY_BYTES
                            + block.first_key.len()
                            + block.filter.bytes().len()
                            + block.pages.memory_bytes()
                    })
                    .sum::<usize>()
        };
        match self {
            Self::Leaf(leaf) => run(leaf),
            Self::Internal(node) => {
                node.pivots.iter().map(|pivot| 32 + pivot.len()).sum::<usize>()
                    + node
                        .children
                        .iter()
                        .map(|child| 96 + child.runs.iter().map(|one| run(one)).sum::<usize>())
                        .sum::<usize>()
            }
        }
    }

    /// Bytes that the header takes on the storage, at most: whole storage blocks.
    pub fn header_bytes(&self) -> u64 {
        let bytes = match self {
            Self::Leaf(leaf) => leaf.header_bytes(),
            Self::Internal(node) => {
                let child = |child: &Child| {
                    BlockPointer::ENCODED_BYTES + child.runs.iter().map(|run| run.header_bytes()).sum::<usize>()
                };
                node.pivots.iter().map(|pivot| VARINT_BYTES_MAX + pivot.len()).sum::<usize>()
                    + node.children.iter().map(|one| VARINT_BYTES_MAX + child(one)).sum::<usize>()
            }
        };
        (1 + VARINT_BYTES_MAX + bytes).next_multiple_of(BLOCK_BYTES) as u64
    }

    /// The header that goes to the storage. All blocks and children must be there already.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = vec![self.height()];
        match self {
            Self::Leaf(run) => run.encode(&mut to),
            Self::Internal(node) => {
                put_varint(&mut to, node.children.len() as u64);
                for pivot in &node.pivots {
                    put_bytes(&mut to, pivot);
                }
                for child in &node.children {
                    let Edge::Stored(pointer) = &child.edge else {
                        unreachable!("a node is encoded when its children are on the storage")
                    };
                    pointer.encode(&mut to);
                    put_varint(&mut to, child.runs.len() as u64);
                    for run in &child.runs {
                        run.encode(&mut to);
                    }
                }
            }
        }
        to
    }

    /// # Errors
    ///
    /// What is wrong first.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(bytes);
        let height = from.u8()?;
        let node = if height == 0 {
            let run = Run::decode(&mut from)?;
            if !run.tombstones.is_empty() {
                return Err(Malformed("a leaf has ranges to delete"));
            }
            Self::Leaf(run)
        } else {
            if height > HEIGHT_MAX {
                return Err(Malformed("a node is too high"));
            }
            let count = from.count(BlockPointer::ENCODED_BYTES)?;
            if count == 0 {
                return Err(Malformed("a node without children"));
            }
            let mut pivots: Vec<Key> = Vec::new();
            for _ in 1..count {
                let pivot: Key = from.bytes()?.into();
                if pivots.last().is_some_and(|last| *last >= pivot) {
                    return Err(Malformed("pivots are out of order"));
                }
                pivots.push(pivot);
            }
            let mut children = Vec::with_capacity(count);
            for _ in 0..count {
                let edge = Edge::Stored(BlockPointer::decode(&mut from)?);
                let mut runs = Vec::new();
                for _ in 0..from.count(4)? {
                    runs.push(Arc::new(Run::decode(&mut from)?));
                }
                children.push(Child { edge, runs });
            }
            Self::Internal(Internal { height, pivots, children })
        };
        from.end()?;
        Ok(node)
    }
}

/// A run, alone or as a leaf.
#[derive(Clone)]
pub(crate) enum RunHandle {
    Run(Arc<Run>),
    Leaf(Arc<Node>),
}

impl Deref for RunHandle {
    type Target = Run;

    fn deref(&self) -> &Run {
        match self {
            Self::Run(run) => run,
            Self::Leaf(node) => match &**node {
                Node::Leaf(run) => run,
                Node::Internal(_) => unreachable!("the handle of a leaf"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::filter::{Filter, KeyHash};
    use crate::bytes::pointer::Codec;
    use crate::bytes::range::RangeSet;
    use crate::nodes::run::{Part, RunBlock, Tally};
    use proptest::prelude::*;

    fn pointer() -> impl Strategy<Value = BlockPointer> {
        (1u64..1 << 40, 1u32..1 << 20, any::<bool>(), any::<u64>(), any::<u128>()).prop_map(
            |(start, bytes, packed, birth, checksum)| {
                let (codec, raw_bytes) = if packed { (Codec::Lz4, 2 * bytes) } else { (Codec::Plain, bytes) };
                BlockPointer { start, stored_bytes: bytes, raw_bytes, codec, birth, checksum }
            },
        )
    }

    fn keys(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<Key>> {
        prop::collection::btree_set(prop::collection::vec(any::<u8>(), 0..6), count)
            .prop_map(|keys| keys.into_iter().map(Key::from).collect())
    }

    fn run(leaf: bool) -> impl Strategy<Value = Run> {
        (keys(0..5), keys(0..5), prop::collection::vec(pointer(), 5), 0u64..9, 0u64..9).prop_map(
            move |(first_keys, ends, pointers, first_msn, more)| {
                let block = |(first_key, pointer): (Key, BlockPointer)| {
                    let filter = Filter::of(&[KeyHash::of(&first_key)], 10 * (first_key.len() % 3));
                    let tally = Tally { deletes: pointer.raw_bytes, places: pointer.stored_bytes };
                    RunBlock {
                        first_key,
                        filter: Arc::new(filter),
                        tally,
                        part: Part::Stored(pointer),
                        pages: Arc::default(),
                    }
                };
                let blocks = first_keys.into_iter().zip(pointers).map(block).collect();
                let mut tombstones = RangeSet::default();
                for pair in ends.chunks_exact(2).filter(|_| !leaf) {
                    tombstones.insert(KeyRange::new(pair[0].clone(), Some(pair[1].clone())));
                }
                Run { tombstones, blocks, first_msn, last_msn: first_msn + more }
            },
        )
    }

    fn node() -> impl Strategy<Value = Node> {
        let child = (pointer(), prop::collection::vec(run(false), 0..3)).prop_map(|(pointer, runs)| Child {
            edge: Edge::Stored(pointer),
            runs: runs.into_iter().map(Arc::new).collect(),
        });
        let internal =
            (1u8..9, keys(0..5), prop::collection::vec(child, 6)).prop_map(|(height, pivots, mut children)| {
                children.truncate(pivots.len() + 1);
                Node::Internal(Internal { height, pivots, children })
            });
        prop_oneof![run(true).prop_map(Node::Leaf), internal]
    }

    /// What the form promises whoever has a decoded node.
    fn assert_sound(node: &Node) {
        let run = |run: &Run| {
            assert!(run.blocks.is_sorted_by(|a, b| a.first_key < b.first_key));
            assert!(run.first_msn <= run.last_msn);
        };
        match node {
            Node::Leaf(leaf) => {
                assert!(leaf.tombstones.is_empty());
                run(leaf);
            }
            Node::Internal(node) => {
                assert!((1..=HEIGHT_MAX).contains(&node.height));
                assert_eq!(node.pivots.len() + 1, node.children.len());
                assert!(node.pivots.is_sorted_by(|a, b| a < b));
                node.children.iter().flat_map(|child| &child.runs).for_each(|one| run(one));
            }
        }
    }

    proptest! {
        #[test]
        fn a_header_comes_back(node in node()) {
            let bytes = node.encode();
            prop_assert!(bytes.len() as u64 <= node.header_bytes());
            let back = Node::decode(&bytes).unwrap();
            assert_sound(&back);
            prop_assert_eq!(back.encode(), bytes);
        }

        /// A header that was changed or cut is refused, or is a sound one.
        #[test]
        fn changed_bytes_are_sound_or_refused(node in node(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), cut in any::<prop::sample::Index>()) {
            let mut bytes = node.encode();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Ok(node) = Node::decode(&bytes) {
                assert_sound(&node);
            }
            bytes.truncate(cut.index(bytes.len()));
            if let Ok(node) = Node::decode(&bytes) {
                assert_sound(&node);
            }
        }

        #[test]
        fn any_bytes_are_a_header_or_an_error(bytes: Vec<u8>) {
            if let Ok(node) = Node::decode(&bytes) {
                assert_sound(&node);
            }
            if let Ok(run) = Run::decode(&mut Reader::new(&bytes)) {
                assert_sound(&Node::Internal(Internal {
                    height: 1,
                    pivots: Vec::new(),
                    children: vec![Child { edge: Edge::Fresh(Arc::new(Node::Leaf(Run::default()))), runs: vec![Arc::new(run)] }],
                }));
            }
        }
    }
}
