//! Reads, writes and trims, kept apart.

use stats::Histogram;
use trace::Step;
use units::Nanos;

use super::Series;

/// What an I/O does, in fio's sense of "data direction".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Discards.
    Trim,
}

impl Direction {
    /// All, in the order of fio's comma lists.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Trim];

    /// `read`, `write` or `trim`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
        }
    }
}

/// What a program asks of a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A discard; with zonemode=zbd, the reset of a zone.
    Trim,
    /// An fsync, an fdatasync, or a closing sync.
    Sync,
    /// The reset of a zone that is to be written again.
    Reset,
    /// The finish of a zone.
    Finish,
}

impl Operation {
    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Sync => "sync",
            Self::Reset => "zone reset",
            Self::Finish => "zone finish",
        }
    }

    /// The step of its span, from the job's decision to its knowing of the end.
    pub const fn step(self) -> Step {
        match self {
            Self::Read => Step::Read,
            Self::Write => Step::Write,
            Self::Trim => Step::Discard,
            Self::Reset => Step::ZoneReset,
            Self::Finish => Step::ZoneFinish,
            Self::Sync => Step::Flush,
        }
    }
}

impl From<Direction> for Operation {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Read => Self::Read,
            Direction::Write => Self::Write,
            Direction::Trim => Self::Trim,
        }
    }
}

/// One value for each direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PerDirection<T> {
    /// Of reads.
    pub read: T,
    /// Of writes.
    pub write: T,
    /// Of trims.
    pub trim: T,
}

impl<T> PerDirection<T> {
    /// From a function of the direction.
    pub fn from_fn(mut f: impl FnMut(Direction) -> T) -> Self {
        Self { read: f(Direction::Read), write: f(Direction::Write), trim: f(Direction::Trim) }
    }

    /// Each direction with its value, in [`Direction::ALL`]'s order.
    pub fn iter(&self) -> impl Iterator<Item = (Direction, &T)> {
        Direction::ALL.into_iter().zip([&self.read, &self.write, &self.trim])
    }

    /// Each value, in [`Direction::ALL`]'s order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        [&mut self.read, &mut self.write, &mut self.trim].into_iter()
    }
}

impl<T> std::ops::Index<Direction> for PerDirection<T> {
    type Output = T;
    fn index(&self, direction: Direction) -> &T {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
            Direction::Trim => &self.trim,
        }
    }
}

impl<T> std::ops::IndexMut<Direction> for PerDirection<T> {
    fn index_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
            Direction::Trim => &mut self.trim,
        }
    }
}

/// I/Os of one direction.
#[derive(Clone, Debug)]
pub struct DirectionReport {
    /// Bytes completed.
    pub bytes: u64,
    /// I/Os completed.
    pub ios: u64,
    /// From the start of measuring to the direction's last completion.
    pub runtime: Nanos,
    /// Submission latency: from the decision to issue until the kernel has it.
    /// Empty for synchronous engines, as in fio.
    pub slat: Histogram,
    /// Completion latency: from then until the program knows.
    pub clat: Histogram,
    /// Both together.
    pub lat: Histogram,
    /// Completions over time.
    pub series: Series,
}

impl DirectionReport {
    /// Nothing yet, with a series of this first interval.
    pub(crate) fn new(interval: Nanos) -> Self {
        Self {
            bytes: 0,
            ios: 0,
            runtime: Nanos::ZERO,
            slat: Histogram::new(),
            clat: Histogram::new(),
            lat: Histogram::new(),
            series: Series::new(interval),
        }
    }

    /// I/Os per second of runtime.
    pub fn iops(&self) -> f64 {
        per_second(self.ios, self.runtime)
    }

    /// Bytes per second of runtime.
    pub fn bytes_per_s(&self) -> f64 {
        per_second(self.bytes, self.runtime)
    }

    /// Adds another thread's, or another direction's.
    pub fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.ios += other.ios;
        self.runtime = self.runtime.max(other.runtime);
        self.slat.merge(&other.slat);
        self.clat.merge(&other.clat);
        self.lat.merge(&other.lat);
        self.series.merge(&other.series);
    }
}

fn per_second(count: u64, time: Nanos) -> f64 {
    if time == Nanos::ZERO { 0.0 } else { count as f64 / time.as_secs_f64() }
}
