//! Appends entries.

use std::io::{self, Write};

use units::Nanos;

use super::super::shared::{Blocks, Part};
use super::{CONTENT_BYTES_MAX, FRAME_BYTES, HEADER_BYTES, MAGIC, PART_BYTES, PARTS_HEAD_BYTES, VERSION};
use crate::log::{Content, Event};
use crate::order::OrderTuple;

/// Appends entries to a file or a pipe.
#[derive(Debug)]
pub struct LogWriter<W> {
    to: W,
    frame: Vec<u8>,
    blocks: Blocks,
    /// How long the file is.
    at_bytes: u64,
}

impl<W: Write> LogWriter<W> {
    /// Begins a log of a device of `capacity_bytes` with this atomic unit.
    ///
    /// # Errors
    /// What `to` says.
    pub fn new(mut to: W, capacity_bytes: u64, unit_bytes: u32) -> io::Result<Self> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&unit_bytes.to_le_bytes());
        header.extend_from_slice(&capacity_bytes.to_le_bytes());
        to.write_all(&header)?;
        Ok(Self { to, frame: Vec::new(), blocks: Blocks::default(), at_bytes: HEADER_BYTES as u64 })
    }

    /// Appends what happened last, in one write.
    ///
    /// # Errors
    /// What the file says, or the source of stored contents; the log ends there.
    pub fn append(&mut self, at: Nanos, event: &Event) -> io::Result<()> {
        let mut tuple = None;
        let (kind, name, offset_bytes, content) = match event {
            Event::Write { id, offset_bytes, content, fua, order } => {
                let kind = match content {
                    Content::Zeroes(_) => 3,
                    // Only a write of bytes has the fields.
                    _ if *order != OrderTuple::NONE => {
                        tuple = Some(order.to_bytes());
                        9
                    }
                    _ => 1,
                };
                (kind + u8::from(*fua), id.0, *offset_bytes, Some(content))
            }
            Event::Completed(id) => (5, id.0, 0, None),
            Event::FlushSubmitted(id) => (6, id.0, 0, None),
            Event::FlushCompleted(id) => (7, id.0, 0, None),
            Event::Mark(value) => (8, *value, 0, None),
            Event::StreamOpened { stream, first } => (11, u64::from(*stream) | u64::from(*first) << 16, 0, None),
            Event::StreamClosed(stream) => (12, u64::from(*stream), 0, None),
        };
        let len_bytes = content.map_or(0, Content::len_bytes);
        let mut read = Vec::new();
        let bytes: &[u8] = match content {
            Some(Content::Bytes(bytes)) => bytes,
            Some(stored @ Content::Stored(_)) => {
                stored
                    .visit(0..len_bytes, |_, len, bytes| match bytes {
                        Some(bytes) => read.extend_from_slice(bytes),
                        None => read.resize(read.len() + len as usize, 0),
                    })
                    .map_err(io::Error::other)?;
                &read
            }
            _ => &[],
        };
        let tuple = tuple.as_ref().map_or(&[][..], |tuple| tuple);
        let parts = self.blocks.parts(offset_bytes, bytes);
        let is_plain = matches!(parts.as_slice(), [] | [Part::New(_)]);
        let table = if is_plain { 0 } else { PARTS_HEAD_BYTES + PART_BYTES * parts.len() };
        let new = |part: &Part| if let Part::New(len) = part { *len as usize } else { 0 };
        let behind = tuple.len() + table + parts.iter().map(new).sum::<usize>();
        let behind = u32::try_from(behind).ok().filter(|len| *len <= CONTENT_BYTES_MAX);
        let behind = behind.ok_or_else(|| io::Error::other("a write of more than 1 GiB does not go into a log"))?;
        self.frame.clear();
        self.frame.extend_from_slice(&[kind, u8::from(!is_plain), 0, 0]);
        self.frame.extend_from_slice(&behind.to_le_bytes());
        for number in [name, offset_bytes, len_bytes, at.0] {
            self.frame.extend_from_slice(&number.to_le_bytes());
        }
        self.frame.extend_from_slice(&[0; 4]);
        self.frame.extend_from_slice(tuple);
        let first_new = self.at_bytes + (FRAME_BYTES + tuple.len() + table) as u64;
        if !is_plain {
            self.frame.extend_from_slice(&(parts.len() as u32).to_le_bytes());
            self.frame.extend_from_slice(&[0; 4]);
            let mut next_new = first_new;
            for part in &parts {
                let (len, place) = match *part {
                    Part::Zeroes(len) => (len, 0),
                    Part::There(place, len) => (len, place),
                    Part::New(len) => {
                        next_new += len;
                        (len, next_new - len)
                    }
                };
                self.frame.extend_from_slice(&len.to_le_bytes());
                self.frame.extend_from_slice(&place.to_le_bytes());
            }
        }
        let mut first = 0;
        for part in &parts {
            let (Part::Zeroes(len) | Part::There(_, len) | Part::New(len)) = *part;
            if matches!(part, Part::New(_)) {
                self.frame.extend_from_slice(bytes.get(first..first + len as usize).unwrap_or_default());
            }
            first += len as usize;
        }
        let (head, contents) = self.frame.split_at(FRAME_BYTES);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&head[..FRAME_BYTES - 4]), contents);
        if let Some(place) = self.frame.get_mut(FRAME_BYTES - 4..FRAME_BYTES) {
            place.copy_from_slice(&crc.to_le_bytes());
        }
        self.to.write_all(&self.frame)?;
        self.at_bytes += self.frame.len() as u64;
        self.blocks.keep(offset_bytes, bytes, &parts, first_new);
        Ok(())
    }
}
