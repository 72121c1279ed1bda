//! A store that nobody has open: looked at without a change to it, not even recovery's.

use storage::Storage;

use super::open::read_catalog;
use super::values::are_whole;
use super::verify::{Findings, check};
use crate::bytes::message::Message;
use crate::bytes::pointer::BlockPointer;
use crate::catalog::{Catalog, TreeRecord};
use crate::changes::Batches;
use crate::error::{Error, Result};
use crate::io::BlockIo;
use crate::log::Log;
use crate::nodes::node::{Edge, HEIGHT_MAX, Node};
use crate::nodes::run::Run;
use crate::space::Space;
use crate::superblock::Superblock;

/// Bytes of cache: what is read is read once or, where snapshots share it, a few times.
const CACHE_BYTES: usize = 16 << 20;

/// Bytes of a key or a value that a dump shows.
const SHOWN_BYTES: usize = 64;

/// What the log has behind the checkpoint.
#[derive(Default)]
struct LogSummary {
    frames: u64,
    batches: u64,
    changes: u64,
    last_msn: u64,
}

/// A closed store.
pub(crate) struct ClosedStore {
    io: BlockIo,
    superblock: Superblock,
}

fn shown(bytes: &[u8]) -> String {
    let (front, more) = bytes.split_at(bytes.len().min(SHOWN_BYTES));
    let dots = if more.is_empty() { "" } else { "..." };
    format!("\"{}\"{dots}", front.escape_ascii())
}

fn place(pointer: &BlockPointer) -> String {
    format!("block {}, {} of {} bytes", pointer.start, pointer.stored_bytes, pointer.raw_bytes)
}

fn message_text(message: &Message<'_>) -> String {
    match message {
        Message::Insert(value) => format!("= {} bytes {}", value.len(), shown(value)),
        Message::Delete => "deleted".to_owned(),
        Message::Place(pointer) => format!("= {} bytes at {}", pointer.raw_bytes, place(pointer)),
        Message::Upserts(list) => {
            let one = |upsert: &crate::bytes::message::Upsert<'_>| {
                format!("operator {} with {}", upsert.operator, shown(&upsert.operand))
            };
            list.iter().map(one).collect::<Vec<_>>().join(", then ")
        }
    }
}

impl ClosedStore {
    pub fn open(storage: Box<dyn Storage>) -> Result<Self> {
        let io = BlockIo::new(storage, CACHE_BYTES);
        let (superblock, _) = Superblock::read(&io)?;
        Ok(Self { io, superblock })
    }

    /// Reads the log; messages must ascend from batch to batch.
    fn log(&self, findings: &mut Findings) -> Result<LogSummary> {
        let superblock = &self.superblock;
        let mut log = Log::of(superblock);
        let mut summary = LogSummary { last_msn: superblock.last_msn, ..LogSummary::default() };
        let replayed = log.replay(&self.io, |payload| {
            if !are_whole(&self.io, payload, superblock.last_msn)? {
                return Ok(false);
            }
            summary.frames += 1;
            for batch in Batches::of(payload) {
                match batch {
                    Ok((first_msn, changes)) => {
                        let last_msn = (first_msn + changes.len() as u64).saturating_sub(1);
                        if first_msn <= summary.last_msn && last_msn > superblock.last_msn {
                            findings.add(format!(
                                "log: messages {first_msn} to {last_msn} follow message {}",
                                summary.last_msn
                            ));
                        }
                        summary.batches += 1;
                        summary.changes += changes.len() as u64;
                        summary.last_msn = summary.last_msn.max(last_msn);
                    }
                    Err(error) => findings.add(format!("log: {error}")),
                }
            }
            Ok(true)
        });
        findings.damage("log", replayed)?;
        Ok(summary)
    }

    /// Checks every rule of the format.
    pub fn verify(&self) -> Result<Findings> {
        let mut findings = Findings::default();
        if let Some((catalog, space)) = findings.damage("catalog", read_catalog(&self.io, &self.superblock))? {
            findings = check(&self.io, &self.superblock, &catalog, &space)?;
        }
        self.log(&mut findings)?;
        Ok(findings)
    }

    /// Describes the store line by line; with `entries` every entry of every block.
    pub fn dump(&self, entries: bool, line: &mut dyn FnMut(&str)) -> Result<()> {
        let superblock = &self.superblock;
        line(&format!(
            "store {:032x}: generation {}, epoch {}, {} blocks, messages up to {} in the trees",
            superblock.store_id,
            superblock.generation,
            superblock.epoch.number,
            superblock.capacity_blocks,
            superblock.last_msn
        ));
        let mut findings = Findings::default();
        let log = self.log(&mut findings)?;
        line(&format!(
            "log of {} blocks, from position {}: {} frames, {} batches, {} changes, messages up to {}",
            superblock.log_blocks, superblock.log.position, log.frames, log.batches, log.changes, log.last_msn
        ));
        for finding in &findings.list {
            line(&format!("! {finding}"));
        }
        let (catalog, space): (Catalog, Space) = read_catalog(&self.io, superblock)?;
        line(&format!("catalog: {}", place(&superblock.catalog)));
        line(&format!(
            "free: {} blocks in {} extents; {} extents held by snapshots",
            space.free_blocks(),
            space.free_extents().count(),
            space.held().len()
        ));
        for tree in catalog.trees.values() {
            self.dump_tree(tree, "", entries, line)?;
        }
        for (name, snapshot) in &catalog.snapshots {
            line(&format!("snapshot {name:?}: generation {}", snapshot.generation));
            for tree in snapshot.trees.values() {
                self.dump_tree(tree, "  ", entries, line)?;
            }
        }
        Ok(())
    }

    fn dump_tree(&self, tree: &TreeRecord, indent: &str, entries: bool, line: &mut dyn FnMut(&str)) -> Result<()> {
        line(&format!("{indent}tree {:?}", tree.name));
        match &tree.root {
            Some(root) => self.dump_node(root, HEIGHT_MAX, &format!("{indent}  "), entries, line),
            None => Ok(()),
        }
    }

    fn dump_node(
        &self,
        pointer: &BlockPointer,
        height_max: u8,
        indent: &str,
        entries: bool,
        line: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let node = self.io.node(&Edge::Stored(*pointer))?;
        // Heights descend, so that no damage makes this endless.
        if node.height() > height_max {
            let what = format!("a node of height {} below one of height {}", node.height(), height_max + 1);
            let (offset_bytes, stored_bytes) = (pointer.offset_bytes(), u64::from(pointer.stored_bytes));
            return Err(Error::Corrupt { what, offset_bytes, stored_bytes });
        }
        match &*node {
            Node::Leaf(leaf) => {
                line(&format!("{indent}leaf: {}, messages up to {}", place(pointer), leaf.last_msn));
                self.dump_run(leaf, &format!("{indent}  "), entries, line)
            }
            Node::Internal(internal) => {
                let (height, count) = (internal.height, internal.children.len());
                line(&format!("{indent}node of height {height}: {}, {count} children", place(pointer)));
                let pivots = std::iter::once(None).chain(internal.pivots.iter().map(Some));
                for (pivot, child) in pivots.zip(&internal.children) {
                    let from = pivot.map_or("the least key".to_owned(), |pivot| shown(pivot));
                    line(&format!("{indent}  from {from}"));
                    for run in &child.runs {
                        line(&format!("{indent}    run: messages {} to {}", run.first_msn, run.last_msn));
                        self.dump_run(run, &format!("{indent}      "), entries, line)?;
                    }
                    self.dump_node(&child_pointer(child)?, height - 1, &format!("{indent}    "), entries, line)?;
                }
                Ok(())
            }
        }
    }

    fn dump_run(&self, run: &Run, indent: &str, entries: bool, line: &mut dyn FnMut(&str)) -> Result<()> {
        for range in run.tombstones.iter() {
            let end = range.end.as_ref().map_or("the greatest key".to_owned(), |end| shown(end));
            line(&format!("{indent}deletes from {} up to {end}", shown(&range.start)));
        }
        for block in &run.blocks {
            let crate::nodes::run::Part::Stored(pointer) = &block.part else { continue };
            let content = self.io.block(&block.part)?;
            line(&format!(
                "{indent}block: {}, {} entries from {}",
                place(pointer),
                content.len(),
                shown(&block.first_key)
            ));
            for at in (0..content.len()).filter(|_| entries) {
                line(&format!("{indent}  {} {}", shown(content.key(at)), message_text(&content.message(at))));
            }
        }
        Ok(())
    }
}

fn child_pointer(child: &crate::nodes::node::Child) -> Result<BlockPointer> {
    match &child.edge {
        Edge::Stored(pointer) => Ok(*pointer),
        Edge::Fresh(_) => unreachable!("a decoded node has stored children"),
    }
}
