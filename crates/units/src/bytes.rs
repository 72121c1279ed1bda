//! Sizes in bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A size in bytes, read and written the way fio does: `4k` is 4096.
///
/// `kB`, `MB`, `GB`, `TB` are powers of ten, as on a data sheet; every other
/// unit (`k`, `KiB`, `m`, `GiB`, ...) is a power of two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ByteSize(pub u64);

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0;
        let mut unit = "B";
        for next in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
            if value == 0 || !value.is_multiple_of(1024) {
                break;
            }
            value /= 1024;
            unit = next;
        }
        f.pad(&format!("{value}{unit}"))
    }
}

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a size; write a number and a unit, such as 4k, 512MiB or 1TB")]
pub struct ParseByteSizeError {
    text: String,
}

impl FromStr for ByteSize {
    type Err = ParseByteSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = || ParseByteSizeError { text: text.to_owned() };
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let scale: u64 = match unit.trim() {
            "" | "b" | "B" => 1,
            "kB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            "k" | "K" | "kb" | "Kb" | "KB" | "kib" | "KiB" => 1 << 10,
            "m" | "M" | "mb" | "Mb" | "mib" | "MiB" => 1 << 20,
            "g" | "G" | "gb" | "Gb" | "gib" | "GiB" => 1 << 30,
            "t" | "T" | "tb" | "Tb" | "tib" | "TiB" => 1 << 40,
            _ => return Err(fail()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(scale).map(Self).ok_or_else(fail);
        }
        let number: f64 = number.parse().map_err(|_| fail())?;
        let bytes = number * scale as f64;
        if bytes >= u64::MAX as f64 {
            return Err(fail());
        }
        Ok(Self(bytes.round() as u64))
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = ByteSize;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"4k\" or a number of bytes")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E>(self, bytes: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(bytes))
            }
            fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<ByteSize, E> {
                u64::try_from(bytes).map(ByteSize).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_forms() {
        for (text, bytes) in [
            ("4k", 4096),
            ("288k", 294_912),
            ("1TB", 1_000_000_000_000),
            ("16KiB", 16_384),
            ("512", 512),
            ("1.5m", 1_572_864),
        ] {
            assert_eq!(text.parse::<ByteSize>(), Ok(ByteSize(bytes)), "{text}");
            assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
        for bad in ["", "k", "4q", "1.2.3k", "99999999999t", "-4k"] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad:?} was accepted");
        }
    }
}
