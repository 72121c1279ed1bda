//! Rate limits: when the next I/O of a direction is due.

use sim::rng::Rng;
use units::Nanos;

use crate::fio::generate::unit;
use crate::fio::parse::RateProcess;
use crate::fio::{Direction, PerDirection};

/// Due times of a job under `rate` or `rate_iops`.
pub(super) struct Pace {
    process: RateProcess,
    rng: Rng,
    start: Nanos,
    lanes: PerDirection<Lane>,
}

#[derive(Clone, Copy, Default)]
struct Lane {
    /// 0 is no limit.
    bytes_per_s: u64,
    /// Smallest block: the unit of a Poisson process' rate.
    block_bytes: u64,
    issued_bytes: u64,
    /// Since the start.
    due: Nanos,
}

impl Pace {
    pub fn new(process: RateProcess, bytes_per_s: PerDirection<u64>, block_bytes: PerDirection<u64>, rng: Rng) -> Self {
        let lane = |direction| Lane {
            bytes_per_s: bytes_per_s[direction],
            block_bytes: block_bytes[direction],
            ..Lane::default()
        };
        Self { process, rng, start: Nanos::ZERO, lanes: PerDirection::from_fn(lane) }
    }

    /// Lets the first I/O be due at `start`.
    pub fn start_at(&mut self, start: Nanos) {
        self.start = start;
    }

    /// When the direction's next I/O may be issued, if it is limited at all.
    #[inline]
    pub fn due(&self, direction: Direction) -> Option<Nanos> {
        let lane = &self.lanes[direction];
        (lane.bytes_per_s > 0).then(|| self.start + lane.due)
    }

    /// Counts an I/O and sets when the next is due.
    ///
    /// Linear: once the bytes issued so far would have taken that long at the
    /// rate, so that a job that fell behind catches up. Poisson: an exponential
    /// gap after the last due time (fio backend.c, usec_for_io).
    #[inline]
    pub fn issued(&mut self, direction: Direction, bytes: u64) {
        let lane = &mut self.lanes[direction];
        if lane.bytes_per_s == 0 {
            return;
        }
        lane.issued_bytes += bytes;
        match self.process {
            RateProcess::Linear => lane.due = Nanos::transfer(lane.issued_bytes, lane.bytes_per_s),
            RateProcess::Poisson => {
                let mean_s = lane.block_bytes as f64 / lane.bytes_per_s as f64;
                // 1 - u is in (0, 1]: the logarithm is finite.
                lane.due += Nanos::from_secs_f64(-(1.0 - unit(&mut self.rng)).ln() * mean_s);
            }
        }
    }
}
