//! Which writes the device must hold, for verification.

use std::collections::BTreeMap;

use crate::fio::Direction;
use crate::fio::generate::Io;

/// A job's writes by offset; an older one that a newer overlaps is forgotten.
#[derive(Default)]
pub(super) struct Ledger {
    /// By first byte; no two overlap.
    pieces: BTreeMap<u64, Piece>,
    sequence: u64,
}

/// What the header of a block says of its write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    /// Where it was meant to go: for an append, the write pointer as the job
    /// knew it.
    pub offset: u64,
    /// Its number among the job's writes.
    pub sequence: u64,
}

#[derive(Clone, Copy)]
struct Piece {
    bytes: u64,
    sequence: u64,
    /// The offset that its header names.
    stamped: u64,
    in_flight: bool,
    /// It overlapped a write still in flight: which of them the device took
    /// last is anyone's guess.
    ambiguous: bool,
}

impl Ledger {
    /// Notes a write at its issue; returns its sequence number.
    pub fn issue(&mut self, io: &Io) -> u64 {
        let ambiguous = self.forget(io);
        self.sequence += 1;
        let piece = Piece { bytes: io.bytes, sequence: self.sequence, stamped: io.offset, in_flight: true, ambiguous };
        self.pieces.insert(io.offset, piece);
        self.sequence
    }

    /// Numbers an append: where it goes is known when it has completed.
    pub fn issue_append(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Notes that an append issued for the place of `io` has gone to `offset`.
    pub fn complete_append(&mut self, io: &Io, offset: u64, sequence: u64) {
        self.forget(&Io { offset, ..*io });
        let piece = Piece { bytes: io.bytes, sequence, stamped: io.offset, in_flight: false, ambiguous: false };
        self.pieces.insert(offset, piece);
    }

    /// Forgets what a write or trim covers; whether some of it was in flight.
    pub fn forget(&mut self, io: &Io) -> bool {
        let end = io.offset + io.bytes;
        let before = self.pieces.range(..io.offset).next_back().filter(|(start, p)| *start + p.bytes > io.offset);
        let overlapped: Vec<u64> =
            before.into_iter().chain(self.pieces.range(io.offset..end)).map(|(start, _)| *start).collect();
        let mut in_flight = false;
        for start in overlapped {
            in_flight |= self.pieces.remove(&start).is_some_and(|piece| piece.in_flight || piece.ambiguous);
        }
        in_flight
    }

    /// Notes that a write has completed.
    pub fn complete(&mut self, io: &Io, sequence: u64) {
        if let Some(piece) = self.pieces.get_mut(&io.offset).filter(|piece| piece.sequence == sequence) {
            piece.in_flight = false;
        }
    }

    /// The blocks to read back, by offset, each with what its header says.
    pub fn certain(&self) -> Vec<(Io, Stamp)> {
        let certain = self.pieces.iter().filter(|(_, piece)| !piece.ambiguous && !piece.in_flight);
        certain
            .map(|(offset, piece)| {
                let io = Io { direction: Direction::Read, offset: *offset, bytes: piece.bytes };
                (io, Stamp { offset: piece.stamped, sequence: piece.sequence })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: u64, bytes: u64) -> Io {
        Io { direction: Direction::Write, offset, bytes }
    }

    #[test]
    fn the_latest_write_counts() {
        let mut ledger = Ledger::default();
        let mut put = |offset, bytes| {
            let io = write(offset, bytes);
            let sequence = ledger.issue(&io);
            ledger.complete(&io, sequence);
        };
        put(0, 8192);
        put(16384, 4096);
        put(4096, 4096);
        put(16384, 4096);
        let held: Vec<(u64, u64, u64)> =
            ledger.certain().iter().map(|(io, n)| (io.offset, io.bytes, n.sequence)).collect();
        assert_eq!(held, [(4096, 4096, 3), (16384, 4096, 4)]);
    }

    #[test]
    fn racing_writes_are_not_judged() {
        let mut ledger = Ledger::default();
        let (first, second) = (ledger.issue(&write(0, 4096)), ledger.issue(&write(0, 4096)));
        ledger.complete(&write(0, 4096), second);
        ledger.complete(&write(0, 4096), first);
        assert!(ledger.certain().is_empty());
    }
}
