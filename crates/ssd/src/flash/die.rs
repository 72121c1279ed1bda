//! The state of one die.

use units::Nanos;

use crate::slab::{Fifo, NONE};

/// One die: its array, registers and queues.
#[derive(Clone)]
pub(super) struct Die {
    /// Whether the array is at work (or coming to rest).
    pub active: bool,
    /// Whether the input register holds or receives data.
    pub loading: bool,
    /// The operation in the array; `NONE` while it comes to rest.
    pub array: u32,
    /// An operation that was stopped for reads.
    pub suspended: u32,
    /// Reads that overtook a waiting program or erase since the last one ran.
    pub overtaken: u32,
    /// When the operation in the array began; `MAX` once its time is counted.
    pub array_start: Nanos,
    /// When the array is next free.
    pub array_end: Nanos,
    /// When the output register is next free.
    pub out_free_at: Nanos,
    /// Host reads.
    pub reads: Fifo,
    /// Collector reads, programs with their data in the register, erases.
    pub ready: Fifo,
    /// Programs whose data is still to come.
    pub loads: Fifo,
    /// Array time so far.
    pub busy: Nanos,
}

impl Default for Die {
    fn default() -> Self {
        Self {
            active: false,
            loading: false,
            array: NONE,
            suspended: NONE,
            overtaken: 0,
            array_start: Nanos::ZERO,
            array_end: Nanos::ZERO,
            out_free_at: Nanos::ZERO,
            reads: Fifo::default(),
            ready: Fifo::default(),
            loads: Fifo::default(),
            busy: Nanos::ZERO,
        }
    }
}
