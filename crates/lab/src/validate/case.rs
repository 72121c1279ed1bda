//! What a row of a table asks to be simulated.

use std::fmt;

use super::drive::Drive;
use super::stack::Stack;
use crate::interference::Operation;

/// An experiment of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Case {
    /// One operation at a time, on zones in a given state.
    Timed(Timed),
    /// One kind of operation from several threads.
    Load(Load),
    /// A victim, with or without an interferer.
    Contest(Contest),
    /// One kind of I/O on a drive without zones.
    Drive(Drive),
}

/// One operation at a time, each on a zone of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    /// What is timed.
    pub operation: TimedOperation,
    /// How much of the zone the host has written before.
    pub occupancy: Occupancy,
    /// How often it was measured; the simulation does it no more often.
    pub times: u64,
}

/// How much of a zone is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Occupancy {
    /// A part of its capacity.
    Fraction(f64),
    /// So many logical blocks.
    Blocks(u64),
    /// What the operation itself implies: all but the last block.
    Implied,
}

/// An operation that is timed alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedOperation {
    /// Finish of an open zone.
    Finish,
    /// Reset of a zone that was not finished.
    Reset,
    /// Reset of a zone that was finished.
    ResetAfterFinish,
    /// Explicit open.
    Open,
    /// Close of a zone that a write opened.
    CloseAfterImplicitOpen,
    /// Close of a zone opened by command.
    CloseAfterExplicitOpen,
    /// A one-block write to a zone closed since an implicit open.
    WriteAfterCloseImplicitOpen,
    /// A one-block write to a zone closed since an explicit open.
    WriteAfterCloseExplicitOpen,
}

impl TimedOperation {
    /// All, with the names that tables have for them.
    pub const NAMES: [(&'static str, Self); 9] = [
        ("finish", Self::Finish),
        ("reset", Self::Reset),
        ("reset_after_finish", Self::ResetAfterFinish),
        ("open", Self::Open),
        ("explicit_open", Self::Open),
        ("close_after_implicit_open", Self::CloseAfterImplicitOpen),
        ("close_after_explicit_open", Self::CloseAfterExplicitOpen),
        ("write_after_close_implicit_open", Self::WriteAfterCloseImplicitOpen),
        ("write_after_close_explicit_open", Self::WriteAfterCloseExplicitOpen),
    ];

    /// The one called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, operation)| *operation)
    }
}

/// `threads` threads, each with `queue_depth` operations in flight, each on
/// zones of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// What they do; no management.
    pub operation: Operation,
    /// Bytes of each operation.
    pub block_bytes: u64,
    /// Threads, and zones in use at once.
    pub threads: u32,
    /// Operations in flight of each thread.
    pub queue_depth: u32,
    /// What lies between threads and device, where the row says so.
    pub stack: Stack,
}

/// A victim, and what runs beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contest {
    /// The victim.
    pub victim: Stream,
    /// What runs beside it; nothing in a baseline.
    pub interferer: Option<Stream>,
    /// The part of the time that the interferer ran, up to 1.
    pub active: f64,
    /// How long the victim ran beside a management operation.
    pub runtime_s: Option<f64>,
    /// Whether that run is short enough to be simulated from its first to its
    /// last operation, edges and all; otherwise a window of the steady state
    /// stands for it.
    pub short: bool,
    /// Whether the device is an emulator's: its table chooses designs.
    pub emulated: bool,
    /// How the device resets, where the row says so.
    pub reset: Option<ResetMode>,
    /// The device's finish chunk, where the row says so.
    pub finish_chunk_bytes: Option<u64>,
    /// What lies between threads and device, where the row says so.
    pub stack: Stack,
}

/// Threads that do one kind of operation over and over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    /// What they do.
    pub operation: Operation,
    /// Bytes of each operation; of the one write before it, for a finish; 0 for a reset.
    pub block_bytes: u64,
    /// Threads.
    pub threads: u32,
    /// Operations in flight of each thread.
    pub queue_depth: u32,
    /// The limit.
    pub rate: Rate,
    /// A finish that the host does itself (softfinish), in writes of so many bytes.
    pub padding_bytes: Option<u64>,
}

/// How fast a stream may go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// As fast as it can.
    Unlimited,
    /// Percent of what it reaches alone.
    PercentOfPeak(f64),
    /// Operations a second.
    PerSecond(f64),
}

/// How an emulated device resets (`reset_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetMode {
    /// The erase is a part of the reset.
    Sync,
    /// The erase is paid by a later write.
    Lazy,
}

impl Contest {
    /// The stream that its rate limits, if one is limited: what disturbs, or a victim by itself.
    pub fn limited(&self) -> Option<Stream> {
        let streams = [self.interferer, Some(self.victim)];
        streams.into_iter().flatten().find(|stream| stream.rate != Rate::Unlimited)
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, threads, queue_depth, stack, .. } = self;
        write!(f, "{operation} {}, {threads} x QD {queue_depth}{stack}", kib(self.block_bytes))
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(bytes) = self.padding_bytes {
            write!(f, "softfinish by {}", kib(bytes))?;
            return if self.threads == 1 { Ok(()) } else { write!(f, " x{}", self.threads) };
        }
        match (self.operation, self.threads, self.queue_depth) {
            (Operation::Reset | Operation::Finish, 1, _) => write!(f, "{}", self.operation),
            (Operation::Reset | Operation::Finish, threads, _) => write!(f, "{} x{threads}", self.operation),
            (operation, threads, 1) => write!(f, "{operation} {} x{threads}", kib(self.block_bytes)),
            (operation, 1, depth) => write!(f, "{operation} {} QD {depth}", kib(self.block_bytes)),
            (operation, threads, depth) => write!(f, "{operation} {} x{threads} QD {depth}", kib(self.block_bytes)),
        }
    }
}

impl fmt::Display for Contest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.victim)?;
        match &self.interferer {
            Some(interferer) => write!(f, " beside {interferer}")?,
            None => f.write_str(" alone")?,
        }
        match self.limited().map(|stream| stream.rate) {
            Some(Rate::PercentOfPeak(percent)) => write!(f, " at {percent} %")?,
            Some(Rate::PerSecond(rate)) => write!(f, " at {rate:.3}/s")?,
            _ => {}
        }
        match self.reset {
            Some(ResetMode::Sync) => f.write_str(", sync")?,
            Some(ResetMode::Lazy) => f.write_str(", lazy")?,
            None => {}
        }
        if let Some(bytes) = self.finish_chunk_bytes {
            write!(f, ", chunk {}", kib(bytes))?;
        }
        write!(f, "{}", self.stack)
    }
}

/// Bytes in KiB.
fn kib(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) { format!("{} KiB", bytes / 1024) } else { format!("{bytes} B") }
}
