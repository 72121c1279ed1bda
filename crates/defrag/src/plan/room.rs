//! The free space that a plan may use, and what it takes of it.

use super::file::FilePlan;
use super::ties::Occupancy;
use crate::migrate::LONGEST_SEGMENT_BYTES;

/// When the old place of what was moved is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reuse {
    /// Soon: the donor lets go of it after some 64 MiB. While it looks for room, it may hold several times what it moves.
    Soon,
    /// With the next commit, which on Btrfs may come after everything is moved.
    AtCommit,
}

/// What a donor may hold of earlier moves (`Migrate::donor_keeps_bytes`), and how often room is asked for.
const DONOR_KEEPS_BYTES: u64 = 64 << 20;
const DONOR_ATTEMPTS: u64 = 4;

/// Free space of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// What programs can still write.
    pub free_bytes: u64,
    /// Of it, what a run leaves.
    pub keep_free_bytes: u64,
    /// When what is moved away is free.
    pub reuse: Reuse,
}

/// How a plan uses the room of one file system.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    /// Taken up for good by the moves so far.
    for_good_bytes: i128,
    written_bytes: u64,
    /// The longest that is moved at once.
    longest_bytes: u64,
}

impl Room {
    /// What a run may take.
    fn usable_bytes(&self) -> u64 {
        self.free_bytes.saturating_sub(self.keep_free_bytes)
    }
}

impl Use {
    /// Goes through the moves of a file in their order: those that find room, given those before them.
    pub fn fitting(&mut self, file: &FilePlan, room: Option<&Room>) -> Vec<usize> {
        let mut occupancy = Occupancy::new(&file.ties);
        let mut fitting = Vec::new();
        for (at, to_move) in file.moves.iter().enumerate() {
            // The copy is there before the old place is free.
            let at_once = to_move.bytes.min(LONGEST_SEGMENT_BYTES);
            let is_room =
                room.is_none_or(|room| self.for_good_bytes + i128::from(at_once) <= i128::from(room.usable_bytes()));
            if is_room {
                self.for_good_bytes += occupancy.make(at);
                self.written_bytes = self.written_bytes.saturating_add(to_move.bytes);
                self.longest_bytes = self.longest_bytes.max(at_once);
                fitting.push(at);
            }
        }
        fitting
    }

    /// The most that is taken up at any time.
    pub fn peak_bytes(&self, room: &Room) -> u64 {
        let peak = match room.reuse {
            Reuse::AtCommit => self.written_bytes.saturating_add(self.longest_bytes),
            Reuse::Soon => {
                let held = self.longest_bytes.saturating_mul(DONOR_ATTEMPTS).saturating_add(DONOR_KEEPS_BYTES);
                let for_good = u64::try_from(self.for_good_bytes).unwrap_or(0);
                held.min(self.written_bytes.saturating_mul(DONOR_ATTEMPTS)).saturating_add(for_good)
            }
        };
        peak.min(room.usable_bytes())
    }
}
