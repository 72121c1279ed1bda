//! The commands of a connection that are not answered yet, and the data they
//! wait for.
//!
//! A host may have as many commands as its queue has entries; that bounds the
//! tables here. What bounds the data is that a host sends none unasked beyond
//! its capsules: a command waits until there is room, and only then is the host
//! asked for its data (R2T), or the device for data to send.

use std::collections::{BTreeMap, VecDeque};

use nvme::SubmissionEntry;
use nvme::tcp::{Field, H2cData, PduError, ReadyToTransfer};

use super::limits::Limits;

/// A command that is not answered yet.
struct Outstanding {
    /// Data held for it.
    held_bytes: usize,
    /// Data that its answer may have.
    data_limit: u32,
}

/// A command that waits for room.
pub(super) struct Waiting {
    pub(super) entry: SubmissionEntry,
    pub(super) bytes: u32,
    pub(super) to_host: bool,
}

/// A command whose data is coming.
struct Receiving {
    entry: SubmissionEntry,
    data: Box<[u8]>,
    /// Bytes that R2Ts have asked for.
    asked: u32,
    /// Bytes that have come.
    received: u32,
    /// R2Ts that are not satisfied.
    r2ts: u32,
    /// Whether a data digest was wrong.
    damaged: bool,
}

/// What an R2T asked for.
struct Asked {
    cid: u16,
    /// Offset of the next byte to come.
    next: u32,
    end: u32,
}

/// A command whose data is complete; `data` is `None` where a data digest was wrong.
pub(super) struct Arrived {
    pub(super) entry: SubmissionEntry,
    pub(super) data: Option<Box<[u8]>>,
}

/// Whether a command can be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    Taken,
    /// Its identifier is in use.
    Conflict,
}

/// The commands of one connection.
#[derive(Default)]
pub(super) struct Commands {
    outstanding: BTreeMap<u16, Outstanding>,
    waiting: VecDeque<Waiting>,
    receiving: BTreeMap<u16, Receiving>,
    /// By Transfer Tag.
    asked: BTreeMap<u16, Asked>,
    next_tag: u16,
    held_bytes: usize,
    /// Commands that are given on one after the other, as they came; and those of them whose data is here.
    line: VecDeque<u16>,
    lined_up: BTreeMap<u16, Arrived>,
}

impl Commands {
    /// Commands not answered yet.
    pub(super) fn count(&self) -> usize {
        self.outstanding.len()
    }

    /// Data held for them.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether the host owes data that it was asked for.
    pub(super) fn expects_data(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Takes a command.
    pub(super) fn admit(&mut self, cid: u16) -> Admission {
        if self.outstanding.contains_key(&cid) {
            return Admission::Conflict;
        }
        self.outstanding.insert(cid, Outstanding { held_bytes: 0, data_limit: 0 });
        Admission::Taken
    }

    /// Notes that a command holds `bytes`; its answer may have as many with `to_host`.
    pub(super) fn hold(&mut self, cid: u16, bytes: u32, to_host: bool) {
        let Some(command) = self.outstanding.get_mut(&cid) else { return };
        command.held_bytes += bytes as usize;
        self.held_bytes += bytes as usize;
        if to_host {
            command.data_limit = bytes;
        }
    }

    /// Forgets an answered command; gives the most data that its answer may have,
    /// and `None` when there is no such command.
    pub(super) fn release(&mut self, cid: u16) -> Option<u32> {
        let command = self.outstanding.remove(&cid)?;
        self.held_bytes -= command.held_bytes;
        Some(command.data_limit)
    }

    /// Has a command wait until those that were lined up before it were given on.
    pub(super) fn line_up(&mut self, cid: u16) {
        self.line.push_back(cid);
    }

    /// Whether a command is given on in its turn.
    pub(super) fn is_lined_up(&self, cid: u16) -> bool {
        self.line.contains(&cid)
    }

    /// A command that was lined up has its data.
    pub(super) fn wait_for_turn(&mut self, arrived: Arrived) {
        self.lined_up.insert(arrived.entry.cid.get(), arrived);
    }

    /// Whether the next of the line has its data.
    pub(super) fn has_turn(&self) -> bool {
        self.line.front().is_some_and(|cid| self.lined_up.contains_key(cid))
    }

    /// The next of the line, if it has its data.
    pub(super) fn take_turn(&mut self) -> Option<Arrived> {
        let arrived = self.lined_up.remove(self.line.front()?)?;
        self.line.pop_front();
        Some(arrived)
    }

    /// Has a command wait for room.
    pub(super) fn wait(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    /// Whether the first waiting command fits beside `output_bytes`. One alone
    /// always does.
    pub(super) fn fits(&self, output_bytes: usize, limits: &Limits) -> bool {
        let held_bytes = self.held_bytes + output_bytes;
        self.waiting
            .front()
            .is_some_and(|waiting| held_bytes == 0 || held_bytes + waiting.bytes as usize <= limits.held_bytes)
    }

    /// The first waiting command, which holds its bytes from now on.
    pub(super) fn start(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.pop_front()?;
        self.hold(waiting.entry.cid.get(), waiting.bytes, waiting.to_host);
        Some(waiting)
    }

    /// Makes room for a command's data.
    pub(super) fn receive(&mut self, entry: SubmissionEntry, bytes: u32) {
        let data = vec![0; bytes as usize].into_boxed_slice();
        let receiving = Receiving { entry, data, asked: 0, received: 0, r2ts: 0, damaged: false };
        self.receiving.insert(entry.cid.get(), receiving);
    }

    /// The next R2T of a command, if it needs one and fewer than `max_r2t` are
    /// outstanding.
    pub(super) fn ask(&mut self, cid: u16, max_r2t: u32, limits: &Limits) -> Option<ReadyToTransfer> {
        let receiving = self.receiving.get_mut(&cid)?;
        let left = (receiving.data.len() as u32).saturating_sub(receiving.asked);
        if left == 0 || receiving.damaged || receiving.r2ts >= max_r2t.min(limits.r2ts).max(1) {
            return None;
        }
        let (offset, length) = (receiving.asked, left.min(limits.r2t_bytes.max(4)));
        // At most as many as commands times R2Ts, far fewer than there are tags;
        // ascending ones, so that a repeated PDU finds its tag gone.
        let mut transfer_tag = self.next_tag;
        while self.asked.contains_key(&transfer_tag) {
            transfer_tag = transfer_tag.wrapping_add(1);
            if transfer_tag == self.next_tag {
                return None;
            }
        }
        self.next_tag = transfer_tag.wrapping_add(1);
        receiving.asked += length;
        receiving.r2ts += 1;
        self.asked.insert(transfer_tag, Asked { cid, next: offset, end: offset + length });
        Some(ReadyToTransfer { command: nvme::CommandId(cid), transfer_tag, offset, length })
    }

    /// Checks that the host was asked for this data, and that it comes in order
    /// (TCP 3.3.2.2).
    pub(super) fn expect(&self, data: &H2cData, limits: &Limits) -> Result<(), PduError> {
        let field = |field, value: u32| Err(PduError::Field { field, value });
        let H2cData { command, transfer_tag, offset, length, last } = *data;
        let Some(asked) = self.asked.get(&transfer_tag) else { return field(Field::TransferTag, transfer_tag.into()) };
        if asked.cid != command.0 {
            return field(Field::CommandId, command.0.into());
        }
        if length > limits.h2c_data_bytes {
            return Err(PduError::DataLimit { length, limit: limits.h2c_data_bytes });
        }
        let end = offset.saturating_add(length);
        if end > asked.end {
            return Err(PduError::OutOfRange { offset, length, end: asked.end });
        }
        if offset != asked.next {
            return field(Field::TransferOffset, offset);
        }
        if last != (end == asked.end) {
            return field(Field::Flags, last.into());
        }
        Ok(())
    }

    /// Where the data of a PDU that [`Commands::expect`] has let pass goes.
    pub(super) fn place(&mut self, data: &H2cData) -> &mut [u8] {
        let range = data.offset as usize..data.offset.saturating_add(data.length) as usize;
        let receiving = self.receiving.get_mut(&data.command.0);
        receiving.and_then(|receiving| receiving.data.get_mut(range)).unwrap_or_default()
    }

    /// A PDU's data has come; gives the command if that was all of it.
    pub(super) fn arrived(&mut self, data: &H2cData, intact: bool) -> Option<Arrived> {
        let asked = self.asked.get_mut(&data.transfer_tag)?;
        let receiving = self.receiving.get_mut(&asked.cid)?;
        asked.next += data.length;
        receiving.received += data.length;
        receiving.damaged |= !intact;
        if asked.next == asked.end {
            receiving.r2ts -= 1;
            self.asked.remove(&data.transfer_tag);
        }
        let complete = receiving.received as usize == receiving.data.len();
        // Damaged data is not asked for to the end.
        if receiving.r2ts > 0 || !(complete || receiving.damaged) {
            return None;
        }
        let Receiving { entry, data, damaged, .. } = self.receiving.remove(&data.command.0)?;
        Some(Arrived { entry, data: (!damaged).then_some(data) })
    }
}
