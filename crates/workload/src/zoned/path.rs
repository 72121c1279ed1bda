//! What the host adds to each operation.

use units::Nanos;

/// The time of one thread for each I/O, and what its latency holds of it.
///
/// A thread does one thing at a time: with several I/Os in flight these times
/// add up to the least distance of two I/Os.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPath {
    /// Of the thread, from the decision to issue until the device has the command.
    pub submit: Nanos,
    /// Of the thread, from the device's completion until the program knows.
    pub complete: Nanos,
    /// Of the thread, from there to its next decision: in no latency.
    pub think: Nanos,
    /// Beside the thread, in each I/O's latency.
    pub delay: Nanos,
    /// The same for reads only.
    pub read_delay: Nanos,
    /// Mean of a further, exponentially distributed delay of that kind. Without
    /// any, threads on a device without randomness keep step for ever, which
    /// those of a real host do not.
    pub jitter: Nanos,
    /// One I/O in so many is late by a further exponential time of this mean.
    pub hiccup: Option<(u32, Nanos)>,
    /// Cores for threads that poll. Where there are more threads, those without
    /// a core wait for one, [`HostPath::TIME_SLICE`] at a time.
    pub cores: Option<u32>,
}

impl HostPath {
    /// A host that takes no time.
    pub const FREE: Self = Self {
        submit: Nanos::ZERO,
        complete: Nanos::ZERO,
        think: Nanos::ZERO,
        delay: Nanos::ZERO,
        read_delay: Nanos::ZERO,
        jitter: Nanos::ZERO,
        hiccup: None,
        cores: None,
    };

    /// How long a polling thread keeps its core where there are more threads
    /// than cores: 14 polling jobs have a P99.9 of 16.06 ms, whatever they do.
    pub const TIME_SLICE: Nanos = Nanos::from_millis(16);
}
