//! The host link of a flash device, conventional or zoned: a first-come, first-served pipe each way, or one for both.

use units::Nanos;

use crate::config::{Duplex, Link};

/// When each direction is next free.
pub(crate) struct HostLink {
    free_at: [Nanos; 2],
    /// Which of `free_at` each direction uses.
    lanes: [usize; 2],
    bytes_per_s: u64,
    busy: Nanos,
}

/// Which way data goes.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    ToDevice = 0,
    ToHost = 1,
}

impl HostLink {
    pub fn new(link: &Link) -> Self {
        let lanes = match link.duplex {
            Duplex::Full => [0, 1],
            Duplex::Half => [0, 0],
        };
        Self { free_at: [Nanos::ZERO; 2], lanes, bytes_per_s: link.bandwidth.0, busy: Nanos::ZERO }
    }

    /// Queues a transfer at `now`: when it begins and ends.
    pub fn transfer(&mut self, now: Nanos, direction: Direction, bytes: u64) -> (Nanos, Nanos) {
        let free_at = &mut self.free_at[self.lanes[direction as usize]];
        let start = (*free_at).max(now);
        let end = start + Nanos::transfer(bytes, self.bytes_per_s);
        *free_at = end;
        self.busy += end - start;
        (start, end)
    }

    /// How long its directions have carried data so far, together.
    pub fn busy(&self) -> Nanos {
        self.busy
    }

    /// Power off.
    pub fn reset(&mut self) {
        self.free_at = [Nanos::ZERO; 2];
    }
}
