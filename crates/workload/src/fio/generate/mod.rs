//! Which I/O comes next: direction, offset and length, as fio would choose.
//!
//! A [`Generator`] is a pure value: the same options, region and seed give the
//! same I/Os. It knows nothing of time.

mod offsets;
mod permutation;
mod sizes;
mod skew;

use sim::rng::Rng;

use crate::fio::parse::Options;
use crate::fio::{Direction, PerDirection};
use offsets::Offsets;
use sizes::Sizes;

/// The next I/O of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// What it does.
    pub direction: Direction,
    /// First byte on the device.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// The part of the device a job uses, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub start: u64,
    /// Length.
    pub bytes: u64,
}

/// A job's I/Os, one after the other.
pub struct Generator {
    region: Region,
    directions: Directions,
    sizes: PerDirection<Sizes>,
    offsets: Offsets,
    size_rng: Rng,
    mix_rng: Rng,
}

enum Directions {
    Only(Direction),
    /// Reads and writes, so many percent reads.
    Mixed {
        read_percent: u64,
    },
    /// Each block is trimmed, then written: the trim that waits for its write.
    TrimWrite {
        trimmed: Option<Io>,
    },
}

impl Generator {
    /// The I/Os of thread `name` under `seed`.
    ///
    /// Each decision has its own stream of random numbers, so changing the mix
    /// of sizes, say, leaves the offsets as they were.
    pub fn new(options: &Options, region: Region, seed: u64, name: &str) -> Self {
        let pattern = options.pattern;
        let directions = match (pattern.reads, pattern.writes, pattern.trims) {
            (_, true, true) => Directions::TrimWrite { trimmed: None },
            (true, true, _) => Directions::Mixed { read_percent: u64::from(options.read_percent) },
            (true, ..) => Directions::Only(Direction::Read),
            (_, true, _) => Directions::Only(Direction::Write),
            _ => Directions::Only(Direction::Trim),
        };
        let stream = |purpose: &str| sim::rng::stream(seed, &format!("fio/{name}/{purpose}"));
        Self {
            region,
            directions,
            sizes: PerDirection::from_fn(|direction| Sizes::new(&options.blocks[direction])),
            offsets: Offsets::new(options, region.bytes, stream("offset")),
            size_rng: stream("size"),
            mix_rng: stream("mix"),
        }
    }

    /// Draws the direction of the next I/O.
    #[inline]
    pub fn direction(&mut self) -> Direction {
        match &self.directions {
            Directions::Only(direction) => *direction,
            Directions::Mixed { read_percent } => {
                if below(&mut self.mix_rng, 100) < *read_percent {
                    Direction::Read
                } else {
                    Direction::Write
                }
            }
            Directions::TrimWrite { trimmed: None } => Direction::Trim,
            Directions::TrimWrite { trimmed: Some(_) } => Direction::Write,
        }
    }

    /// The next I/O of a direction that [`Generator::direction`] may return now;
    /// `None` when the pass over the region is complete.
    #[inline]
    pub fn next(&mut self, direction: Direction) -> Option<Io> {
        if let Directions::TrimWrite { trimmed } = &mut self.directions
            && let Some(trim) = trimmed.take()
        {
            return Some(Io { direction: Direction::Write, ..trim });
        }
        let wanted = self.sizes[direction].draw(&mut self.size_rng);
        let (offset, bytes) = self.offsets.next(direction, wanted, self.sizes[direction].min())?;
        debug_assert!(bytes > 0 && offset + bytes <= self.region.bytes, "{offset} + {bytes} is outside the region");
        let io = Io { direction, offset: self.region.start + offset, bytes };
        if let Directions::TrimWrite { trimmed } = &mut self.directions {
            *trimmed = Some(io);
        }
        Some(io)
    }

    /// Where a sequential job's next I/O of a direction begins on the device;
    /// `None` where the job is random.
    pub fn position(&self, direction: Direction) -> Option<u64> {
        self.offsets.position(direction).map(|position| self.region.start + position)
    }

    /// Lets a sequential job's next I/O of a direction begin at a byte of the device.
    pub fn go_to(&mut self, direction: Direction, offset: u64) {
        self.offsets.go_to(direction, offset.saturating_sub(self.region.start));
    }

    /// Notes that the last I/O drawn was put in another place: a sequential job
    /// goes on from there.
    pub fn placed(&mut self, drawn: &Io, placed: &Io) {
        if let Some(position) = self.position(drawn.direction)
            && drawn != placed
        {
            let moved = position + placed.offset + placed.bytes;
            self.go_to(drawn.direction, moved.saturating_sub(drawn.offset + drawn.bytes));
        }
    }

    /// Begins another pass over the region, in a new order where it is random.
    pub fn restart(&mut self) {
        self.offsets.restart();
    }
}

/// A number below `bound` (Lemire's multiply-shift; the bias is below 2^-32 for
/// any region that fits a device).
#[inline]
pub(in crate::fio) fn below(rng: &mut Rng, bound: u64) -> u64 {
    ((u128::from(rand::Rng::next_u64(rng)) * u128::from(bound)) >> 64) as u64
}

/// A number in [0, 1).
pub(in crate::fio) fn unit(rng: &mut Rng) -> f64 {
    (rand::Rng::next_u64(rng) >> 11) as f64 / (1_u64 << 53) as f64
}
