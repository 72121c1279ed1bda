//! What lies beside entries: whose it is, and whether that one says so.

use std::collections::BTreeSet;

use super::{Check, Finding, Says};
use crate::operations::{InodeNumber, Kind, Result};
use crate::patch;
use crate::rules::BLOCK_BYTES;
use crate::schema::{self, GRANULE_BYTES, Spot, damaged};

/// Something beside an entry.
#[derive(Clone, Debug)]
pub(super) struct Start {
    spot: Spot,
    inode: InodeNumber,
    bytes: usize,
    /// Where only zeroes follow.
    used_bytes: usize,
}

impl Check<'_> {
    /// Notes one, as inodes may come behind it.
    pub(super) fn start(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (spot, inode) = schema::parse_beside_key(self.store.schema, key)?;
        if value.len() as u64 > GRANULE_BYTES {
            return Err(damaged("a granule that is too long"));
        }
        let used_bytes = value.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        self.starts.push(Start { spot, inode, bytes: value.len(), used_bytes });
        Ok(())
    }

    /// Holds them against the inodes; symbolic links that have their targets there.
    pub(super) fn starts(&mut self) -> Result<BTreeSet<InodeNumber>> {
        let (mut found, mut targets) = (BTreeSet::new(), BTreeSet::new());
        for start in std::mem::take(&mut self.starts) {
            let Start { ref spot, inode, .. } = start;
            let says = self.known.get(&inode).and_then(|known| known.says.clone());
            match says.filter(|says| says.beside.as_ref() == Some(spot) && says.size_bytes > 0) {
                Some(says) if says.kind == Kind::File => {
                    found.insert(inode);
                    if start.used_bytes as u64 > says.size_bytes && self.shows_rest(inode, &says, spot)? {
                        self.find(Finding::Unexpected { inode, what: "bytes behind its end" });
                    }
                }
                Some(says) if says.kind == Kind::Symlink && says.size_bytes == start.bytes as u64 => {
                    found.insert(inode);
                    targets.insert(inode);
                }
                _ => self.find(Finding::BesideNothing { inode, key: schema::beside_key(spot, inode) }),
            }
        }
        let lacks = |(inode, says): &(InodeNumber, Says)| says.beside.is_some() && !found.contains(inode);
        let known = self.known.iter().filter_map(|(inode, known)| Some((*inode, known.says.clone()?)));
        let without: Vec<_> = known.filter(lacks).map(|(inode, _)| Finding::NotBeside { inode }).collect();
        self.findings.extend(without);
        Ok(targets)
    }

    /// Whether bytes behind a file's end are not zero where no patch covers them.
    fn shows_rest(&self, inode: InodeNumber, says: &Says, spot: &Spot) -> Result<bool> {
        let mut bytes = vec![0; GRANULE_BYTES as usize];
        if let Some(value) = self.at.get(&self.store.entries, schema::beside_key(spot, inode))? {
            bytes[..value.len()].copy_from_slice(&value);
        }
        let patches = says.locality.data_between((0, 1), (0, u8::MAX));
        for found in self.store.data_at(&self.at, patches).take_while(|_| says.is_patched) {
            let (key, value) = found?;
            let begin = u64::from(schema::part_of(&key)?.1 - 1) * BLOCK_BYTES;
            // What is no patch is a finding of its own.
            if let (true, Some(pieces)) = (begin < GRANULE_BYTES, patch::pieces(&value)) {
                patch::put_on(&pieces, 0, &mut bytes[begin as usize..(begin + BLOCK_BYTES) as usize]);
            }
        }
        Ok(bytes[says.size_bytes.min(GRANULE_BYTES) as usize..].iter().any(|byte| *byte != 0))
    }
}
