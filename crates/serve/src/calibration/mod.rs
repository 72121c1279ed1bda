//! What serving costs beyond the model, and how answers make up for it.
//!
//! A request's way from the client into the server, the wake-up from the timer,
//! and the reply's way back take tens of microseconds on an idle machine. Each
//! front-end measures its own way at start; serving then gives answers early by
//! as much (see [`crate::backend::Backend::advance`]).

mod lead;
mod probe;

use std::fmt;

use units::Nanos;

pub(crate) use lead::Lead;
pub(crate) use probe::{Probe, Probed, failed, rounds};

/// Neither part of the cost is taken for larger: what is beyond is not the cost
/// of serving but other programs' time slices, which no head start repairs.
const MAX_COST: Nanos = Nanos::from_micros(200);

/// The cost of serving, beyond the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calibration {
    /// What a request and its reply spend between client and server.
    pub transport: Nanos,
    /// By how much the server misses the time it wanted to answer at: waking up
    /// from the timer, and finding the answer.
    pub overshoot: Nanos,
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("answers are given when they are due, without compensation for the way to the client");
        }
        write!(
            f,
            "answers are given {} early: {} for the way to the client and back, {} for waking up",
            self.lead(),
            self.transport,
            self.overshoot
        )
    }
}

impl Calibration {
    /// How far the device's clock runs ahead so that answers arrive on time.
    pub fn lead(&self) -> Nanos {
        self.transport + self.overshoot
    }
}
