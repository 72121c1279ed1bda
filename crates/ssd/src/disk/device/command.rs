//! A command between the electronics and its end: which way it goes.

use std::ops::Range;

use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, Status, WriteCommand};
use trace::{RequestId, Step, Track};
use units::Nanos;

use super::{Disk, Event};
use crate::Submission;
use crate::check::check_command;

/// A command past the electronics.
#[derive(Debug)]
pub(super) struct DiskCommand {
    pub(super) queue: QueueId,
    pub(super) cid: CommandId,
    pub(super) request: RequestId,
    pub(super) kind: Kind,
    pub(super) blocks: Range<u64>,
    /// A write's place in the order of acceptance.
    pub(super) sequence: u64,
    /// Since when it waits.
    pub(super) since: Nanos,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Read,
    /// `data`: whether bytes cross the link; `durable`: on the media before completion.
    Write {
        data: bool,
        durable: bool,
    },
}

impl Disk {
    /// A command leaves the electronics: refuse it, or decide its path.
    pub(super) fn accept(&mut self, submission: Submission) {
        let Submission { queue, cid, command, data, request } = submission;
        let refused = check_command(&self.identity, &command, data.as_ref().map(|data| data.len()));
        let since = self.clock;
        let blocks_of = |range: LbaRange| range.start.0..range.end().0;
        let (kind, range) = match (refused, command) {
            (Ok(()), Command::Read { range, .. }) => (Kind::Read, range),
            (Ok(()), Command::Write(WriteCommand { range, fua, .. })) => {
                (Kind::Write { data: true, durable: fua }, range)
            }
            (Ok(()), Command::WriteZeroes { range, fua, .. }) => (Kind::Write { data: false, durable: fua }, range),
            (refused, _) => {
                self.active -= 1;
                self.finish(queue, cid, refused.err().unwrap_or(Status::INVALID_OPCODE), None);
                return;
            }
        };
        let blocks = blocks_of(range);
        match kind {
            Kind::Read => {
                self.counters.reads += 1;
                self.counters.host_read_bytes += self.bytes(&blocks);
                self.read(DiskCommand { queue, cid, request, kind, blocks, sequence: 0, since });
            }
            Kind::Write { data: carries, durable } => {
                self.counters.writes += 1;
                self.counters.host_written_bytes += self.bytes(&blocks);
                let sequence = self.store.write_volatile(NamespaceId::FIRST, range, data);
                // What no cache can hold goes to the media.
                let durable = durable || blocks.end - blocks.start > self.cache_blocks;
                let kind = Kind::Write { data: carries, durable };
                self.wait_room.push_back(DiskCommand { queue, cid, request, kind, blocks, sequence, since });
                self.admit_writes();
            }
        }
    }

    fn read(&mut self, command: DiskCommand) {
        if self.dirty.covers(command.blocks.clone()) || self.read_cache.hit(&command.blocks) {
            self.counters.read_cache_hits += 1;
            let end = self.link(self.clock, command.request, &command.blocks);
            self.at(end, Event::Finish(command, Status::SUCCESS));
            return;
        }
        let ahead_blocks = self.read_cache.segment_blocks();
        if let Some(ahead) = &mut self.read_ahead {
            let position = self.mechanism.geometry().transferred_by(ahead.first, ahead.begin, ahead.limit, self.clock);
            let reachable = position + ahead_blocks;
            if (ahead.first..=position).contains(&command.blocks.start) && command.blocks.end <= reachable {
                self.counters.read_ahead_hits += 1;
                self.wait_ahead += 1;
                let capacity = self.mechanism.geometry().blocks();
                ahead.limit = ahead.limit.max((command.blocks.end + ahead_blocks).min(capacity));
                let (first, begin, limit) = (ahead.first, ahead.begin, ahead.limit);
                let reached = self.mechanism.geometry().transfer_end(first, command.blocks.end - first, begin);
                let end = self.mechanism.geometry().transfer_end(first, limit - first, begin);
                let end_event = self.at(end, Event::AheadDone);
                if let Some(ahead) = &mut self.read_ahead {
                    ahead.end_event = end_event;
                }
                self.at(reached, Event::Reached(command));
                return;
            }
        }
        self.wait_arm.push(command);
    }

    /// Starts the transfer of writes, in order, as far as the cache has room.
    pub(super) fn admit_writes(&mut self) {
        while let Some(command) = self.wait_room.front() {
            let Kind::Write { data, durable } = command.kind else { break };
            let count = command.blocks.end - command.blocks.start;
            if !durable && self.dirty.count() + self.reserved_blocks + count > self.cache_blocks {
                break;
            }
            let Some(command) = self.wait_room.pop_front() else { break };
            if !durable {
                self.reserved_blocks += count;
                self.span(command.since, self.clock, Track::Buffer, Step::BufferWait, command.request, &command.blocks);
            }
            let end = if data { self.link(self.clock, command.request, &command.blocks) } else { self.clock };
            self.at(end, Event::Received(command));
        }
    }

    /// A write's data has arrived.
    pub(super) fn received(&mut self, mut command: DiskCommand) {
        self.read_cache.invalidate(&command.blocks);
        if matches!(command.kind, Kind::Write { durable: false, .. }) {
            self.reserved_blocks -= command.blocks.end - command.blocks.start;
            self.dirty.write(command.blocks.clone(), command.sequence);
            self.end(command, Status::SUCCESS);
        } else {
            command.since = self.clock;
            self.wait_arm.push(command);
        }
    }

    pub(super) fn end(&mut self, command: DiskCommand, status: Status) {
        self.active -= 1;
        let mut result = (status, None);
        if command.kind == Kind::Read {
            let count = (command.blocks.end - command.blocks.start) as u32;
            result = match self.store.read(NamespaceId::FIRST, LbaRange { start: Lba(command.blocks.start), count }) {
                Ok(data) => (status, data),
                Err(_) => (Status::UNRECOVERED_READ, None),
            };
        }
        self.finish(command.queue, command.cid, result.0, result.1);
    }
}
