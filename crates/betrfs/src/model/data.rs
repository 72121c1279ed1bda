//! Calls on what files hold.

use super::{Body, Content, Node, State};
use crate::operations::{Allocate, Attributes, Caller, Error, InodeNumber, Result, Seek};
use crate::rules::{self, BLOCK_BYTES, range_end};

impl Node {
    fn file(&mut self) -> Result<(&mut Attributes, &mut Content)> {
        rules::regular(&self.attributes)?;
        match &mut self.body {
            Body::File(content) => Ok((&mut self.attributes, content)),
            _ => Err(Error::Invalid),
        }
    }
}

/// Notes that a file's contents changed.
fn touch(attributes: &mut Attributes, caller: &Caller<'_>, content: &Content) -> Attributes {
    (attributes.modified, attributes.changed) = (caller.now, caller.now);
    attributes.blocks = content.units();
    *attributes
}

impl State {
    pub(super) fn read(
        &mut self,
        caller: &Caller<'_>,
        inode: InodeNumber,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let (attributes, content) = self.node_mut(inode)?.file()?;
        let length = attributes.size_bytes.saturating_sub(offset).min(buffer.len() as u64) as usize;
        if length > 0 {
            content.read(offset, &mut buffer[..length]);
        }
        if rules::notes_access(attributes, caller.now) {
            attributes.accessed = caller.now;
        }
        Ok(length)
    }

    pub(super) fn write(
        &mut self,
        caller: &Caller<'_>,
        inode: InodeNumber,
        offset: u64,
        data: &[u8],
        kill_privileges: bool,
    ) -> Result<Attributes> {
        let (attributes, content) = self.node_mut(inode)?.file()?;
        let end = range_end(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(*attributes);
        }
        content.write(offset, data);
        attributes.size_bytes = attributes.size_bytes.max(end);
        if kill_privileges {
            rules::kill_privileges(attributes);
        }
        Ok(touch(attributes, caller, content))
    }

    pub(super) fn fallocate(
        &mut self,
        caller: &Caller<'_>,
        inode: InodeNumber,
        mode: Allocate,
        offset: u64,
        length: u64,
    ) -> Result<Attributes> {
        let (attributes, content) = self.node_mut(inode)?.file()?;
        if length == 0 {
            return Err(Error::Invalid);
        }
        let end = range_end(offset, length)?;
        let size = attributes.size_bytes;
        match mode {
            Allocate::Extend => attributes.size_bytes = size.max(end),
            Allocate::KeepSize => {}
            Allocate::PunchHole | Allocate::ZeroRangeKeepSize => content.punch(offset, end),
            Allocate::ZeroRange => {
                content.punch(offset, end);
                attributes.size_bytes = size.max(end);
            }
            Allocate::CollapseRange => {
                rules::whole_blocks(offset, length)?;
                if end >= size {
                    return Err(Error::Invalid);
                }
                content.punch(offset, end);
                content.shift(end / BLOCK_BYTES, -((length / BLOCK_BYTES) as i64));
                attributes.size_bytes = size - length;
            }
            Allocate::InsertRange => {
                rules::whole_blocks(offset, length)?;
                if offset >= size {
                    return Err(Error::Invalid);
                }
                attributes.size_bytes = range_end(size, length)?;
                content.shift(offset / BLOCK_BYTES, (length / BLOCK_BYTES) as i64);
            }
        }
        Ok(touch(attributes, caller, content))
    }

    pub(super) fn seek(&mut self, inode: InodeNumber, offset: u64, what: Seek) -> Result<u64> {
        let (attributes, content) = self.node_mut(inode)?.file()?;
        content.seek(offset, attributes.size_bytes, what)
    }

    pub(super) fn copy_file_range(
        &mut self,
        caller: &Caller<'_>,
        (source, from): (InodeNumber, u64),
        (target, to): (InodeNumber, u64),
        length: u64,
    ) -> Result<u64> {
        let (attributes, content) = self.node_mut(source)?.file()?;
        let length = length.min(attributes.size_bytes.saturating_sub(from));
        range_end(to, length)?;
        if source == target && from < to + length && to < from + length {
            return Err(Error::Invalid);
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| Error::FileTooBig)?];
        content.read(from, &mut bytes);
        self.write(caller, target, to, &bytes, true)?;
        Ok(length)
    }
}
