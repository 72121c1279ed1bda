//! Writing what is fresh: children before parents, so that each pointer can carry its checksum.

use std::pin::Pin;
use std::sync::Arc;

use storage::{BLOCK_BYTES, Buffer};

use crate::bytes::pages::Pages;
use crate::bytes::pointer::{BlockPointer, Codec, checksum};
use crate::cache::Cached;
use crate::error::{Error, Result};
use crate::io::{BlockIo, Compression, Purpose, compress};
use crate::nodes::node::{Child, Edge, Node};
use crate::nodes::run::{Part, Run, RunBlock};
use crate::space::Space;
use crate::step::Quota;

/// Bytes that are collected before they are written.
const BATCH_BYTES: usize = 256 << 10;

/// Writes fresh nodes and blocks to free places, in steps.
pub(crate) struct Writer<'a> {
    io: &'a BlockIo,
    quota: &'a Quota,
    space: &'a mut Space,
    generation: u64,
    compression: Compression,
    batch: Vec<(Purpose, u64, Buffer)>,
    batch_bytes: usize,
}

/// A block that is ready to be placed.
struct Packed {
    codec: Codec,
    stored: Vec<u8>,
    raw_bytes: u32,
}

impl<'a> Writer<'a> {
    pub fn new(
        io: &'a BlockIo,
        quota: &'a Quota,
        space: &'a mut Space,
        generation: u64,
        compression: Compression,
    ) -> Self {
        Self { io, quota, space, generation, compression, batch: Vec::new(), batch_bytes: 0 }
    }

    fn allocate(&mut self, blocks: u64) -> Result<u64> {
        self.space.allocate(blocks).ok_or(Error::Full)
    }

    fn place(&mut self, purpose: Purpose, start: u64, packed: Packed) -> Result<BlockPointer> {
        let pointer = BlockPointer {
            start,
            stored_bytes: packed.stored.len() as u32,
            raw_bytes: packed.raw_bytes,
            codec: packed.codec,
            birth: self.generation,
            checksum: checksum(&packed.stored),
        };
        let buffer = Buffer::padded(&packed.stored);
        self.batch_bytes += buffer.len();
        self.batch.push((purpose, start, buffer));
        if self.batch_bytes >= BATCH_BYTES {
            self.write_batch()?;
        }
        Ok(pointer)
    }

    fn pack(&self, raw: &[u8]) -> Packed {
        let (codec, stored) = compress(raw, self.compression);
        Packed { codec, stored, raw_bytes: raw.len() as u32 }
    }

    /// Writes one header by itself.
    fn header(&mut self, raw: &[u8]) -> Result<BlockPointer> {
        let packed = self.pack(raw);
        let start = self.allocate((packed.stored.len() as u64).div_ceil(BLOCK_BYTES as u64))?;
        self.place(Purpose::Headers, start, packed)
    }

    /// Writes the fresh blocks of a run side by side, where there is room for that.
    async fn run(&mut self, purpose: Purpose, run: &Run) -> Result<Run> {
        let mut packed: Vec<Option<(Packed, Arc<_>)>> = Vec::with_capacity(run.blocks.len());
        for block in &run.blocks {
            packed.push(match &block.part {
                Part::Stored(_) => None,
                Part::Fresh(content) => Some((self.pack(content.raw()), Arc::clone(content))),
            });
            self.quota.spend(block.part.fresh_bytes()).await;
        }
        let lengths = packed.iter().flatten().map(|(one, _)| (one.stored.len() as u64).div_ceil(BLOCK_BYTES as u64));
        let total: u64 = lengths.sum();
        let mut next = if total == 0 { None } else { self.space.allocate(total) };
        let mut blocks = Vec::with_capacity(run.blocks.len());
        for (block, packed) in run.blocks.iter().zip(packed) {
            let (part, pages) = match packed {
                None => (block.part.clone(), Arc::clone(&block.pages)),
                Some((packed, content)) => {
                    let length = (packed.stored.len() as u64).div_ceil(BLOCK_BYTES as u64);
                    let start = match &mut next {
                        Some(next) => std::mem::replace(next, *next + length),
                        None => self.allocate(length)?,
                    };
                    let pages = match packed.codec {
                        Codec::Plain => block.pages.sealed(&packed.stored),
                        _ => Pages::default(),
                    };
                    let pointer = self.place(purpose, start, packed)?;
                    self.io.cache.put(&pointer, Cached::Block(content));
                    (Part::Stored(pointer), Arc::new(pages))
                }
            };
            blocks.push(RunBlock { part, pages, ..block.clone() });
        }
        Ok(Run { blocks, ..run.clone() })
    }

    /// Writes a node and everything below it that is fresh. It calls itself for what is below, so the future is boxed.
    pub fn edge<'b>(&'b mut self, edge: &'b Edge) -> Pin<Box<dyn Future<Output = Result<BlockPointer>> + Send + 'b>> {
        Box::pin(self.edge_now(edge))
    }

    async fn edge_now(&mut self, edge: &Edge) -> Result<BlockPointer> {
        let node = match edge {
            Edge::Stored(pointer) => return Ok(*pointer),
            Edge::Fresh(node) => node,
        };
        let stored = match &**node {
            Node::Leaf(leaf) => Node::Leaf(self.run(Purpose::Leaves, leaf).await?),
            Node::Internal(internal) => {
                let mut internal = internal.clone();
                for child in &mut internal.children {
                    let edge = Edge::Stored(self.edge(&child.edge).await?);
                    let mut runs = Vec::with_capacity(child.runs.len());
                    for run in &child.runs {
                        let fresh = run.blocks.iter().any(|block| matches!(block.part, Part::Fresh(_)));
                        runs.push(if fresh { Arc::new(self.run(Purpose::Runs, run).await?) } else { Arc::clone(run) });
                    }
                    *child = Child { edge, runs };
                }
                Node::Internal(internal)
            }
        };
        let pointer = self.header(&stored.encode())?;
        self.io.cache.put(&pointer, Cached::Node(Arc::new(stored)));
        self.quota.spend(u64::from(pointer.stored_bytes)).await;
        Ok(pointer)
    }

    fn write_batch(&mut self) -> Result<()> {
        self.batch_bytes = 0;
        self.io.write(std::mem::take(&mut self.batch))
    }

    /// Waits until everything is written. Not durable before a flush.
    pub fn finish(&mut self) -> Result<()> {
        self.write_batch()
    }
}
