//! Virtual or wall time in nanoseconds.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point on a run's clock (nanoseconds since its start) or a span of it.
///
/// One type serves both, as in the kernel's `ktime_t`: every clock in Plumb
/// starts at zero, so a point is a span since the start. Arithmetic saturates,
/// so `Nanos::MAX` can stand for "never".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of the clock, or no time at all.
    pub const ZERO: Self = Self(0);
    /// The far end of the clock: "never".
    pub const MAX: Self = Self(u64::MAX);

    /// From whole microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// From whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// From whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// From seconds, rounded to the nearest nanosecond; negative and NaN give zero.
    pub fn from_secs_f64(secs: f64) -> Self {
        // `as` saturates at both ends and maps NaN to 0.
        Self((secs * 1e9).round() as u64)
    }

    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// In microseconds.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// `self - earlier`, or zero where `earlier` is later.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// How long `bytes` take at `bytes_per_s`, rounded up to whole nanoseconds.
    ///
    /// A rate of zero means "no limit" and takes no time.
    pub fn transfer(bytes: u64, bytes_per_s: u64) -> Self {
        if bytes_per_s == 0 {
            return Self::ZERO;
        }
        if let Some(product) = bytes.checked_mul(1_000_000_000) {
            return Self(product.div_ceil(bytes_per_s));
        }
        let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bytes_per_s));
        Self(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        debug_assert!(self.0 >= other.0, "negative span: {self:?} - {other:?}");
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Nanos {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Div<u64> for Nanos {
    type Output = Self;
    fn div(self, divisor: u64) -> Self {
        Self(self.0 / divisor)
    }
}

impl std::iter::Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

/// As a person reads it: `81.2us`, `1.56ms`, `4s`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            0..1_000 => return f.pad(&format!("{}ns", self.0)),
            1_000..1_000_000 => (self.0 as f64 / 1e3, "us"),
            1_000_000..1_000_000_000 => (self.0 as f64 / 1e6, "ms"),
            _ => (self.0 as f64 / 1e9, "s"),
        };
        let digits = if value >= 100.0 {
            0
        } else if value >= 10.0 {
            1
        } else {
            2
        };
        let mut text = format!("{value:.digits$}");
        if text.contains('.') {
            text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
        }
        f.pad(&format!("{text}{unit}"))
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ns", self.0)
    }
}

/// Why a text is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a time; write a number and a unit, such as 80us, 1.5ms or 10s")]
pub struct ParseNanosError {
    text: String,
}

impl FromStr for Nanos {
    type Err = ParseNanosError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = || ParseNanosError { text: text.to_owned() };
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(fail)?;
        let (number, unit) = trimmed.split_at(split);
        let number: f64 = number.parse().map_err(|_| fail())?;
        let scale_ns = match unit.trim() {
            "ns" | "nsec" => 1.0,
            "us" | "usec" => 1e3,
            "ms" | "msec" => 1e6,
            "s" | "sec" => 1e9,
            "m" | "min" => 60e9,
            "h" => 3600e9,
            "d" => 86_400e9,
            _ => return Err(fail()),
        };
        Ok(Self((number * scale_ns).round() as u64))
    }
}

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Written so that it is read back to the nanosecond.
impl Serialize for Nanos {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}ns", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_forms() {
        for (text, ns) in [("80us", 80_000), ("1.56ms", 1_560_000), ("10s", 10_000_000_000), ("7ns", 7)] {
            assert_eq!(text.parse::<Nanos>(), Ok(Nanos(ns)));
            assert_eq!(Nanos(ns).to_string(), text);
        }
        for bad in ["", "80", "us", "-1us", "1.2.3us", "80 parsecs"] {
            assert!(bad.parse::<Nanos>().is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn transfer_rounds_up() {
        assert_eq!(Nanos::transfer(4096, 1_000_000_000), Nanos(4096));
        assert_eq!(Nanos::transfer(1, 3_000_000_000), Nanos(1));
        assert_eq!(Nanos::transfer(1, 0), Nanos::ZERO);
    }
}
