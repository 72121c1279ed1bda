//! Host commands that a reset catches at its start.
//!
//! Where resets come back to back, a read, write or append now and then waits for a
//! whole reset while its neighbours go on: the law `[management.reset_law.catch]`.
//! Commands that must stay behind it, those to the same zone, wait with it.

use units::Nanos;

use super::Zoned;
use nvme::Command;

/// What is caught, and whether the reset under way still catches.
#[derive(Default)]
pub(super) struct Catching {
    /// When the last reset ended.
    ended_at: Option<Nanos>,
    /// The next host I/O is caught.
    armed: bool,
    /// Share of a catch that back-to-back resets have filled.
    filled: f64,
    /// The caught command, and those behind it; no more than are outstanding.
    line: Vec<u32>,
}

impl Catching {
    /// Power off.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Zoned {
    /// A reset begins at `now`.
    pub(super) fn reset_begins(&mut self, now: Nanos) {
        let law = self.config.management.reset_law.as_ref().and_then(|law| law.catch.as_ref());
        let (Some(law), Some(ended_at)) = (law, self.catching.ended_at) else { return };
        if now.since(ended_at) > law.within {
            return;
        }
        self.catching.filled += law.share;
        if self.catching.filled >= 1.0 {
            self.catching.filled -= 1.0;
            self.catching.armed = true;
        }
    }

    /// The reset under way is done: what it caught goes on.
    pub(super) fn reset_ends(&mut self, now: Nanos) {
        self.catching.armed = false;
        self.catching.ended_at = Some(now);
        for id in std::mem::take(&mut self.catching.line) {
            self.arrived(now, id);
        }
    }

    /// Whether the reset under way catches command `id`, which has just arrived.
    pub(super) fn is_caught(&mut self, id: u32) -> bool {
        let caught = match self.catching.line.first() {
            None => {
                let io = matches!(
                    self.commands[id].command,
                    Command::Read { .. } | Command::Write(_) | Command::ZoneAppend { .. }
                );
                self.catching.armed && io
            }
            Some(first) => self.order(id).is_some_and(|order| self.order(*first) == Some(order)),
        };
        if caught {
            self.catching.armed = false;
            self.catching.line.push(id);
        }
        caught
    }
}
