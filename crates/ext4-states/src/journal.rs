//! What the journal puts over the file system: a reading of jbd2's recovery (fs/jbd2/recovery.c of Linux 6.12,
//! Documentation/filesystems/ext4/journal.rst) that is fast enough for each state. It is held against e2fsck's own replay for every
//! distinct result.

use std::collections::{BTreeMap, HashMap};

use crate::disk::{Class, Disk, Id};
use crate::error::Unreadable;
use crate::layout::{Blocks, Layout};

const MAGIC: u32 = 0xc03b_3998;
const HEADER_BYTES: usize = 12;
const SUPER_BYTES: usize = 1024;
const TAIL_BYTES: usize = 4;
const TAG_BYTES: usize = 16;
const UUID_BYTES: usize = 16;
const DESCRIPTOR: u32 = 1;
const COMMIT: u32 = 2;
const SUPER_V2: u32 = 4;
const REVOKE: u32 = 5;
const TAG_ESCAPED: u32 = 1;
const TAG_SAME_UUID: u32 = 2;
const TAG_LAST: u32 = 8;
const FEATURES_NEEDED: u32 = 0x2 | 0x10;
const FEATURES_KNOWN: u32 = FEATURES_NEEDED | 0x1 | 0x4;

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// The kernel's crc32c: nothing is inverted.
fn raw_crc(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

/// The super block of a journal that has been replayed, with the features that readers ask for; none of them says anything of a
/// journal that is empty, and it has none before its first transaction.
pub(crate) fn emptied(head: &[u8]) -> Vec<u8> {
    const CRC32C: u8 = 4;
    let mut emptied = head.to_vec();
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(place) = emptied.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    put(0x1c, &[0; 4]);
    put(0x28, &(be32(head, 0x28) | FEATURES_NEEDED).to_be_bytes());
    put(0x50, &[CRC32C]);
    put(0xfc, &[0; 4]);
    let checksum = raw_crc(!0, emptied.get(..SUPER_BYTES).unwrap_or_default());
    if let Some(place) = emptied.get_mut(0xfc..0x100) {
        place.copy_from_slice(&checksum.to_be_bytes());
    }
    emptied
}

/// What recovery makes of a state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replay {
    /// What each block holds afterwards that was replayed.
    pub(crate) blocks: BTreeMap<u32, Id>,
    /// Why recovery refuses.
    pub(crate) broken: Option<String>,
}

/// A place in the journal's descriptor blocks that names a block.
struct Tag {
    home: u32,
    flags: u32,
    checksum: u32,
}

fn tags(block: &[u8]) -> impl Iterator<Item = Tag> {
    let mut at = HEADER_BYTES;
    let mut is_over = false;
    std::iter::from_fn(move || {
        if is_over || at + TAG_BYTES + TAIL_BYTES > block.len() {
            return None;
        }
        let tag = Tag { home: be32(block, at), flags: be32(block, at + 4), checksum: be32(block, at + 12) };
        at += TAG_BYTES + if tag.flags & TAG_SAME_UUID == 0 { UUID_BYTES } else { 0 };
        is_over = tag.flags & TAG_LAST != 0;
        Some(tag)
    })
}

/// The blocks that a descriptor block names, if this is one.
pub(crate) fn described(bytes: &[u8]) -> Vec<u32> {
    if be32(bytes, 0) != MAGIC || be32(bytes, 4) != DESCRIPTOR {
        return Vec::new();
    }
    tags(bytes).map(|tag| tag.home).collect()
}

/// Recovers states.
#[derive(Default)]
pub(crate) struct Recovery {
    /// The checksum of contents in a transaction.
    checksums: HashMap<(Id, u32), u32>,
}

/// A transaction that is read.
#[derive(Default)]
struct Transaction {
    blocks: Vec<(Tag, Id)>,
    revoked: Vec<u32>,
    fault: Option<String>,
}

struct Journal<'a> {
    disk: &'a Disk,
    places: &'a [u32],
    seed: u32,
    first: u32,
    len: u32,
}

impl Journal<'_> {
    fn id(&self, at: u32) -> Id {
        self.places.get(at as usize).map_or(Id::ZEROES, |block| self.disk.id(*block))
    }

    fn after(&self, at: u32) -> u32 {
        if at + 1 >= self.len { self.first } else { at + 1 }
    }

    /// Whether the checksum at the end of a descriptor or revoke block is right.
    fn has_tail(&self, block: &[u8]) -> bool {
        let (body, tail) = block.split_at(block.len().saturating_sub(TAIL_BYTES));
        raw_crc(raw_crc(self.seed, body), &[0; TAIL_BYTES]) == be32(tail, 0)
    }

    fn is_commit_whole(&self, block: &[u8]) -> bool {
        let (before, rest) = block.split_at(block.len().min(16));
        let crc = raw_crc(raw_crc(raw_crc(self.seed, before), &[0; 4]), rest.get(4..).unwrap_or_default());
        crc == be32(rest, 0)
    }
}

impl Recovery {
    /// What the journal of this state puts over it.
    pub(crate) fn replay(&mut self, disk: &mut Disk, layout: &Layout) -> Result<Replay, Unreadable> {
        if !Layout::needs_recovery(disk) {
            return Ok(Replay::default());
        }
        let mut replay = Replay::default();
        let mut transactions: Vec<(u32, Transaction)> = Vec::new();
        {
            let places = &layout.journal;
            let head = disk.block(places.first().copied().unwrap_or(0));
            if be32(head, 0) != MAGIC || be32(head, 4) != SUPER_V2 {
                replay.broken = Some("the journal has no super block".to_owned());
                return Ok(replay);
            }
            let (len, first) = (be32(head, 16), be32(head, 20));
            let (mut sequence, mut at) = (be32(head, 24), be32(head, 28));
            if at == 0 {
                return Ok(replay);
            }
            let features = be32(head, 0x28);
            if features & FEATURES_NEEDED != FEATURES_NEEDED || features & !FEATURES_KNOWN != 0 {
                return Err(Unreadable(format!("the journal has features {features:#x}")));
            }
            if len as usize > places.len() || first == 0 || first >= len || at >= len {
                replay.broken = Some("the journal's super block is damaged".to_owned());
                return Ok(replay);
            }
            let seed = raw_crc(!0, head.get(0x30..0x40).unwrap_or_default());
            let journal = Journal { disk, places, seed, first, len };
            let mut open = Transaction::default();
            let mut steps = 0;
            while steps < len {
                let block = disk.bytes(journal.id(at));
                if be32(&block[..], 0) != MAGIC || be32(&block[..], 8) != sequence {
                    break;
                }
                steps += 1;
                match be32(&block[..], 4) {
                    DESCRIPTOR => {
                        if !journal.has_tail(block) {
                            open.fault = Some(format!("a descriptor of transaction {sequence} has a wrong checksum"));
                        }
                        for tag in tags(block) {
                            at = journal.after(at);
                            steps += 1;
                            let id = journal.id(at);
                            let crc = *self.checksums.entry((id, sequence)).or_insert_with(|| {
                                raw_crc(raw_crc(seed, &sequence.to_be_bytes()), &disk.bytes(id)[..])
                            });
                            if crc != tag.checksum {
                                let home = tag.home;
                                open.fault =
                                    Some(format!("block {home} in transaction {sequence} has a wrong checksum"));
                            }
                            open.blocks.push((tag, id));
                        }
                    }
                    REVOKE => {
                        if !journal.has_tail(block) {
                            open.fault = Some(format!("a revoke block of transaction {sequence} has a wrong checksum"));
                        }
                        let end = (be32(&block[..], 12) as usize).min(block.len() - TAIL_BYTES);
                        let records = block.get(16..end.max(16)).unwrap_or_default();
                        open.revoked.extend(records.chunks_exact(8).map(|record| be32(record, 4)));
                    }
                    COMMIT => {
                        if !journal.is_commit_whole(block) {
                            open.fault = Some(format!("the commit record of {sequence} has a wrong checksum"));
                        }
                        transactions.push((sequence, std::mem::take(&mut open)));
                        sequence = sequence.wrapping_add(1);
                    }
                    _ => break,
                }
                at = journal.after(at);
            }
        }
        replay.broken = transactions.iter().find_map(|(_, transaction)| transaction.fault.clone());
        // A block that is revoked is not replayed from that transaction and older ones.
        let mut revoked: BTreeMap<u32, usize> = BTreeMap::new();
        for (number, (_, transaction)) in transactions.iter().enumerate() {
            revoked.extend(transaction.revoked.iter().map(|block| (*block, number)));
        }
        for (number, (_, transaction)) in transactions.into_iter().enumerate() {
            for (tag, id) in transaction.blocks {
                if revoked.get(&tag.home).is_some_and(|last| number <= *last) {
                    continue;
                }
                let id = if tag.flags & TAG_ESCAPED == 0 {
                    id
                } else {
                    let mut bytes = disk.bytes(id).to_vec();
                    if let Some(first) = bytes.first_chunk_mut() {
                        *first = MAGIC.to_be_bytes();
                    }
                    disk.intern(&bytes)
                };
                replay.blocks.insert(tag.home, id);
            }
        }
        Ok(replay)
    }
}

impl Blocks for Disk {
    fn block_bytes(&self) -> usize {
        Self::block_bytes(self)
    }

    fn block(&self, number: u32) -> &[u8] {
        self.bytes(self.id(number))
    }
}

/// A state after recovery.
pub(crate) struct Recovered<'a> {
    pub(crate) disk: &'a Disk,
    pub(crate) replay: &'a Replay,
}

impl Recovered<'_> {
    pub(crate) fn id(&self, block: u32) -> Id {
        self.replay.blocks.get(&block).copied().unwrap_or_else(|| self.disk.id(block))
    }

    /// A hash of the metadata.
    pub(crate) fn metadata(&self) -> u64 {
        let of = |(block, id): (&u32, &Id)| match self.disk.class(*block) {
            Class::Metadata => self.disk.term(*block, self.disk.id(*block)) ^ self.disk.term(*block, *id),
            _ => 0,
        };
        self.replay.blocks.iter().map(of).fold(self.disk.sums().metadata, |sum, term| sum ^ term)
    }
}

impl Blocks for Recovered<'_> {
    fn block_bytes(&self) -> usize {
        self.disk.block_bytes()
    }

    fn block(&self, number: u32) -> &[u8] {
        self.disk.bytes(self.id(number))
    }
}
