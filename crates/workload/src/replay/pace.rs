//! When traced I/Os are issued.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use units::Nanos;

/// When traced I/Os are issued.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// At their timestamps, whether or not those before have completed: the load
    /// does not yield to a slow device. An I/O whose timestamp is before that of
    /// an earlier line is due at once, never before the earlier one.
    OpenLoop {
        /// How many times faster than traced.
        speed: Speed,
        /// Most I/Os in flight: the next waits, late, until one has completed.
        max_in_flight: NonZeroU32,
    },
    /// As soon as there is room, in the trace's order; timestamps mean nothing.
    ClosedLoop {
        /// I/Os in flight.
        in_flight: NonZeroU32,
    },
}

impl Pace {
    /// Bound on the I/Os in flight of an open loop, unless set: far beyond the
    /// tags of any device, so that a trace which the device can serve never
    /// meets it, and one which it cannot stays within memory.
    pub const MAX_IN_FLIGHT: NonZeroU32 = NonZeroU32::new(65_536).unwrap();
}

impl Default for Pace {
    /// Open loop at the traced speed.
    fn default() -> Self {
        Self::OpenLoop { speed: Speed::TRACED, max_in_flight: Self::MAX_IN_FLIGHT }
    }
}

/// `open loop at 2x, at most 65536 in flight`.
impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenLoop { speed, max_in_flight } => {
                write!(f, "open loop at {speed}x, at most {max_in_flight} in flight")
            }
            Self::ClosedLoop { in_flight } => write!(f, "closed loop, {in_flight} in flight"),
        }
    }
}

/// A factor on the traced speed: positive and finite. 2 halves every gap.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Speed(f64);

/// Why a number is not a speed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a speed; write a positive number, such as 1, 2.5 or 0.1")]
pub struct SpeedError(String);

impl Speed {
    /// As traced.
    pub const TRACED: Self = Self(1.0);

    /// From a factor.
    pub fn new(factor: f64) -> Result<Self, SpeedError> {
        let usable = factor.is_finite() && factor > 0.0;
        usable.then_some(Self(factor)).ok_or_else(|| SpeedError(factor.to_string()))
    }

    /// How long `span` of the trace takes in the replay.
    pub(super) fn scale(self, span: Nanos) -> Nanos {
        // The traced speed is exact however long the trace; others are to 2^-53.
        if self == Self::TRACED { span } else { Nanos((span.0 as f64 / self.0).round() as u64) }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Speed {
    type Err = SpeedError;

    fn from_str(text: &str) -> Result<Self, SpeedError> {
        let factor = text.parse().map_err(|_| SpeedError(text.to_owned()))?;
        Self::new(factor).map_err(|_| SpeedError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds() {
        let double: Speed = "2".parse().unwrap();
        assert_eq!(double.scale(Nanos(1001)), Nanos(501));
        assert_eq!(Speed::TRACED.scale(Nanos(u64::MAX - 1)), Nanos(u64::MAX - 1));
        assert_eq!(Speed::new(0.25).unwrap().scale(Nanos(3)), Nanos(12));
        for bad in ["0", "-1", "inf", "NaN", "", "2x"] {
            assert!(bad.parse::<Speed>().is_err(), "{bad}");
        }
        assert_eq!(Pace::default().to_string(), "open loop at 1x, at most 65536 in flight");
    }
}
