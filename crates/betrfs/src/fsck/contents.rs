//! Extended attributes and data: whose they are, and whether that one has them.

use super::{Check, Finding, Says};
use crate::acl;
use crate::operations::{InodeNumber, Kind, Result, XattrName};
use crate::patch;
use crate::rules::{BLOCK_BYTES, XATTR_BYTES_MAX};
use crate::schema::{self, GRANULE_BYTES, damaged};

/// The last granule of a file, as far as it was seen.
struct Tail {
    inode: InodeNumber,
    granule: u64,
    size_bytes: u64,
    bytes: Vec<u8>,
}

impl Tail {
    /// Behind the end of its file everything is zero, or growing would show it.
    fn has_rest(&self) -> bool {
        let end = self.size_bytes - self.granule * GRANULE_BYTES;
        self.bytes.get(end as usize..).is_some_and(|rest| rest.iter().any(|byte| *byte != 0))
    }
}

impl Check<'_> {
    pub(super) fn contents(&mut self) -> Result<()> {
        self.scan(&self.store.xattrs.clone(), schema::XATTRS, Self::xattr)?;
        let mut tail: Option<Tail> = None;
        let mut targets = self.starts()?;
        self.scan(&self.store.data.clone(), schema::DATA, |check, key, value| {
            let (inode, granule, part) = schema::parse_data_key(check.store.schema, key)?;
            if tail.as_ref().is_some_and(|tail| (tail.inode, tail.granule) != (inode, granule)) {
                check.end_tail(tail.take());
            }
            let Some(says) = check.says(inode, schema::DATA) else { return Ok(()) };
            if says.locality.data_key(granule, part) != key {
                check.find(Finding::Elsewhere { inode, tree: schema::DATA, key: key.to_vec() });
                return Ok(());
            }
            match says.kind {
                Kind::File => check.file(&mut tail, says, (inode, granule, part), value),
                Kind::Symlink => {
                    let is_target = (granule, part) == (0, 0) && says.beside.is_none();
                    let is_target = is_target && value.len() as u64 == says.size_bytes;
                    if is_target {
                        targets.insert(inode);
                    } else {
                        check.find(Finding::Unexpected { inode, what: "data" });
                    }
                    Ok(())
                }
                _ => {
                    check.find(Finding::WithoutInode { inode, tree: schema::DATA });
                    Ok(())
                }
            }
        })?;
        self.end_tail(tail);
        let is_link = |says: &Says| says.kind == Kind::Symlink;
        let links = self.known.iter().filter(|(_, known)| known.says.as_ref().is_some_and(is_link));
        let without: Vec<_> = links.map(|(inode, _)| *inode).filter(|inode| !targets.contains(inode)).collect();
        self.findings.extend(without.into_iter().map(|inode| Finding::NoTarget { inode }));
        Ok(())
    }

    /// What the inode of a key says; where there is none that is a finding, once for all of its keys.
    fn says(&mut self, inode: InodeNumber, tree: &'static str) -> Option<Says> {
        let says = self.known.get(&inode).and_then(|known| known.says.clone());
        let finding = Finding::WithoutInode { inode, tree };
        if says.is_none() && self.findings.last() != Some(&finding) {
            self.find(finding);
        }
        says
    }

    fn xattr(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (inode, name) = schema::key_number(key)?;
        let Some(says) = self.says(inode, schema::XATTRS) else { return Ok(()) };
        if !says.has_xattrs {
            self.find(Finding::Unexpected { inode, what: "an extended attribute" });
        }
        if XattrName::new(name).is_err() || value.len() > XATTR_BYTES_MAX {
            return Err(damaged("an extended attribute that is too long"));
        }
        if acl::is_list(name) && acl::parse(value).is_err() {
            return Err(damaged("an access list"));
        }
        Ok(())
    }

    fn file(
        &mut self,
        tail: &mut Option<Tail>,
        says: Says,
        (inode, granule, part): (InodeNumber, u64, u8),
        value: &[u8],
    ) -> Result<()> {
        let begin = granule.saturating_mul(GRANULE_BYTES);
        if begin >= says.size_bytes {
            self.find(Finding::Unexpected { inode, what: "data behind its end" });
            return Ok(());
        }
        if part > 0 && !says.is_patched {
            self.find(Finding::Unexpected { inode, what: "a patch" });
        }
        if (granule, part) == (0, 0) && says.beside.is_some() {
            self.find(Finding::Unexpected { inode, what: "a beginning in two places" });
        }
        let is_last = says.size_bytes - begin < GRANULE_BYTES;
        let mut bytes = match tail.take() {
            Some(tail) => tail.bytes,
            None => vec![0; GRANULE_BYTES as usize],
        };
        match part.checked_sub(1).map(u64::from) {
            None => {
                let target = bytes.get_mut(..value.len()).ok_or_else(|| damaged("a granule that is too long"))?;
                target.copy_from_slice(value);
            }
            Some(block) if block < GRANULE_BYTES / BLOCK_BYTES => {
                let pieces = patch::pieces(value).ok_or_else(|| damaged("patches on a block"))?;
                let from = (block * BLOCK_BYTES) as usize;
                patch::put_on(&pieces, 0, &mut bytes[from..from + BLOCK_BYTES as usize]);
            }
            Some(_) => return Err(damaged("a patch on no block")),
        }
        if is_last {
            *tail = Some(Tail { inode, granule, size_bytes: says.size_bytes, bytes });
        }
        Ok(())
    }

    fn end_tail(&mut self, tail: Option<Tail>) {
        if let Some(tail) = tail
            && tail.has_rest()
        {
            self.find(Finding::Unexpected { inode: tail.inode, what: "bytes behind its end" });
        }
    }
}
