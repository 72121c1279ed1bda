//! What the arm does next, and what follows when it is done.

use std::ops::Range;

use nvme::{Lba, LbaRange, NamespaceId, Status};
use trace::{RequestId, Step, Track};
use units::Nanos;

use super::super::schedule::{Candidate, choose};
use super::{Arm, Disk, DiskCommand, Event, Kind, ReadAhead};

/// Dirty runs that one destaging decision looks at.
const DESTAGE_CANDIDATES: usize = 32;

impl Disk {
    /// Gives the arm something to do, if it is free.
    pub(super) fn move_arm(&mut self) {
        if !matches!(self.arm, Arm::Idle) || self.wait_ahead > 0 {
            return;
        }
        let flushing = self.flush.as_ref().is_some_and(|flush| flush.begun);
        let pressed = flushing || !self.wait_room.is_empty();
        let destage = self.dirty.count() > 0
            && if self.wait_arm.is_empty() {
                pressed || self.read_ahead.is_none()
            } else {
                pressed && self.command_was_last
            };
        if destage {
            self.stop_read_ahead();
            self.begin_destage();
        } else if !self.wait_arm.is_empty() {
            self.stop_read_ahead();
            self.begin_command();
        }
    }

    fn begin_command(&mut self) {
        let candidates = self.wait_arm.iter().map(|command| Candidate {
            block: command.blocks.start,
            write: command.kind != Kind::Read,
            since: command.since,
        });
        let Some(index) = choose(self.scheduler, &self.mechanism, self.clock, candidates) else { return };
        let command = self.wait_arm.remove(index);
        self.command_was_last = true;
        self.occupy_arm(&command.blocks, command.kind != Kind::Read, command.request);
        self.arm = Arm::Command(command);
    }

    fn begin_destage(&mut self) {
        // At most a track in one pass, so that a read waits at most about two turns.
        let from = self.mechanism.block();
        let geometry = self.mechanism.geometry();
        let track = geometry.locate(from.min(geometry.blocks() - 1)).sectors_per_track;
        let mut runs = self.dirty.runs_from(from, track, DESTAGE_CANDIDATES);
        let since = self.clock;
        let candidates = runs.iter().map(|run| Candidate { block: run.blocks.start, write: true, since });
        let Some(index) = choose(self.scheduler, &self.mechanism, self.clock, candidates) else { return };
        let run = runs.swap_remove(index);
        self.command_was_last = false;
        self.occupy_arm(&run.blocks, true, RequestId::default());
        self.arm = Arm::Destage(run);
    }

    /// Moves the arm to `blocks` and over them.
    fn occupy_arm(&mut self, blocks: &Range<u64>, write: bool, request: RequestId) {
        let positioning = self.mechanism.positioning(blocks.start, write, self.clock);
        let sought = self.clock + positioning.seek;
        let begin = sought + positioning.rotation;
        let end = self.mechanism.geometry().transfer_end(blocks.start, blocks.end - blocks.start, begin);
        self.mechanism.move_to(blocks.end);
        self.span(self.clock, sought, Track::Mechanism, Step::Seek, request, blocks);
        self.span(sought, begin, Track::Mechanism, Step::Rotate, request, blocks);
        self.span(begin, end, Track::Mechanism, Step::Transfer, request, blocks);
        self.counters.seeks += u64::from(positioning.seek > Nanos::ZERO);
        self.counters.seek_ns += positioning.seek.0;
        self.counters.rotation_ns += positioning.rotation.0;
        self.counters.transfer_ns += (end - begin).0;
        let bytes = self.bytes(blocks);
        *(if write { &mut self.counters.media_written_bytes } else { &mut self.counters.media_read_bytes }) += bytes;
        self.at(end, Event::ArmDone);
    }

    pub(super) fn arm_done(&mut self) {
        match std::mem::replace(&mut self.arm, Arm::Idle) {
            Arm::Idle => debug_assert!(false, "the idle arm finished something"),
            Arm::Command(command) if command.kind == Kind::Read => {
                self.read_cache.insert(command.blocks.clone());
                self.begin_read_ahead(command.blocks.end);
                let end = self.stream_out(&command);
                self.at(end, Event::Finish(command, Status::SUCCESS));
            }
            Arm::Command(command) => {
                self.dirty.clean(command.blocks.clone(), command.sequence);
                let status = match self.store.commit(command.sequence) {
                    Ok(()) => Status::SUCCESS,
                    Err(_) => Status::WRITE_FAULT,
                };
                self.end(command, status);
                self.admit_writes();
            }
            Arm::Destage(run) => {
                for (part, sequence) in run.parts {
                    self.dirty.clean(part.clone(), sequence);
                    let range = LbaRange { start: Lba(part.start), count: (part.end - part.start) as u32 };
                    self.lost_write |= self.store.commit_blocks(sequence, NamespaceId::FIRST, range).is_err();
                }
                self.admit_writes();
            }
        }
    }

    /// The link's end of a read whose data streams through as the head reads
    /// it; the last block crosses after the head has passed it.
    pub(super) fn stream_out(&mut self, command: &DiskCommand) -> Nanos {
        let whole = Nanos::transfer(self.bytes(&command.blocks), self.link_bytes_per_s);
        let last = Nanos::transfer(u64::from(self.identity.lba_bytes), self.link_bytes_per_s);
        let earliest = Nanos((self.clock + last).since(whole).0);
        self.link(earliest, command.request, &command.blocks)
    }

    fn begin_read_ahead(&mut self, first: u64) {
        let limit = (first + self.read_cache.segment_blocks()).min(self.mechanism.geometry().blocks());
        if first >= limit {
            return;
        }
        let place = self.mechanism.geometry().locate(first);
        let begin = self.clock + self.mechanism.geometry().rotation_wait(&place, self.clock);
        let end = self.mechanism.geometry().transfer_end(first, limit - first, begin);
        let end_event = self.at(end, Event::AheadDone);
        self.read_ahead = Some(ReadAhead { first, begin, limit, end_event });
    }

    /// Keeps what the read-ahead has and frees the arm.
    pub(super) fn stop_read_ahead(&mut self) {
        let Some(ahead) = self.read_ahead.take() else { return };
        let reached = self.mechanism.geometry().transferred_by(ahead.first, ahead.begin, ahead.limit, self.clock);
        self.counters.media_read_bytes += self.bytes(&(ahead.first..reached));
        self.read_cache.insert(ahead.first..reached);
        if reached > ahead.first {
            self.mechanism.move_to(reached);
        }
    }
}
