//! The text forms of option values: fio's numbers, times, ranges and lists.

use units::Nanos;

use crate::fio::{Direction, PerDirection};

/// Why a value is not what its option takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(pub(super) String);

pub(super) type Parsed<T> = Result<T, ValueError>;

pub(super) fn fail<T>(message: impl Into<String>) -> Parsed<T> {
    Err(ValueError(message.into()))
}

/// A value's text with what its reading depends on.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    pub text: &'a str,
    /// 1024, or 1000 under `kb_base=1000`.
    pub kb_base: u64,
}

impl<'a> Value<'a> {
    pub fn with(self, text: &'a str) -> Self {
        Self { text: text.trim(), ..self }
    }

    /// A number of bytes (or a plain count) with an optional unit.
    pub fn size(self) -> Parsed<u64> {
        let text = self.text;
        let wrong = || ValueError(format!("`{text}` is not a size; write a number and a unit, such as 4k, 36k or 1g"));
        if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            return u64::from_str_radix(hex, 16).map_err(|_| wrong());
        }
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit = unit.to_ascii_lowercase();
        // kb_base=1024 swaps the two families of prefixes, as fio documents.
        let (plain, with_i) = if self.kb_base == 1000 { (1000_u64, 1024) } else { (1024, 1000) };
        let unit = if unit == "b" { "" } else { unit.strip_suffix('b').unwrap_or(&unit) };
        let (prefix, base) = match unit.strip_suffix('i') {
            Some(prefix) if !prefix.is_empty() => (prefix, with_i),
            _ => (unit, plain),
        };
        let power = match prefix {
            "" => 0,
            "k" => 1,
            "m" => 2,
            "g" => 3,
            "t" => 4,
            "p" => 5,
            _ => return Err(wrong()),
        };
        let scale = base.pow(power);
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(scale).ok_or_else(|| ValueError(format!("`{text}` does not fit in 64 bits")));
        }
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let bytes = number * scale as f64;
        if !(0.0..1.8e19).contains(&bytes) {
            return fail(format!("`{text}` does not fit in 64 bits"));
        }
        Ok(bytes as u64)
    }

    /// A size of at least one byte.
    pub fn positive_size(self) -> Parsed<u64> {
        match self.size()? {
            0 => fail("must be more than 0"),
            size => Ok(size),
        }
    }

    /// A whole number in `range`.
    pub fn count(self, range: std::ops::RangeInclusive<u64>) -> Parsed<u64> {
        let number = self.size()?;
        if range.contains(&number) {
            Ok(number)
        } else {
            fail(format!("{number} is out of range; it must be from {} to {}", range.start(), range.end()))
        }
    }

    /// A count that fits in 32 bits.
    pub fn small(self, range: std::ops::RangeInclusive<u32>) -> Parsed<u32> {
        let number = self.count(u64::from(*range.start())..=u64::from(*range.end()))?;
        // The range bounds it.
        Ok(number as u32)
    }

    /// A percentage, without the sign.
    pub fn percent(self) -> Parsed<u8> {
        Ok(self.small(0..=100)? as u8)
    }

    pub fn boolean(self) -> Parsed<bool> {
        match self.text {
            "0" => Ok(false),
            "1" => Ok(true),
            other => fail(format!("`{other}` is not a truth value; write 0 or 1")),
        }
    }

    /// A time whose bare number counts `unit_ns` nanoseconds.
    pub fn time(self, unit_ns: u64) -> Parsed<Nanos> {
        let text = self.text;
        let wrong =
            || ValueError(format!("`{text}` is not a time; write a number and a unit, such as 10s, 5ms or 80us"));
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let scale: u64 = match unit.to_ascii_lowercase().as_str() {
            "" => unit_ns,
            "ns" | "nsec" => 1,
            "us" | "usec" => 1_000,
            "ms" | "msec" => 1_000_000,
            "s" | "sec" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return Err(wrong()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(scale).map(Nanos).ok_or_else(|| ValueError(format!("`{text}` is too long")));
        }
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let ns = (number * scale as f64).round();
        if ns >= 1.8e19 {
            return fail(format!("`{text}` is too long"));
        }
        Ok(Nanos(ns as u64))
    }

    pub fn float(self) -> Parsed<f64> {
        match self.text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => fail(format!("`{}` is not a number", self.text)),
        }
    }

    /// `low-high` or `low:high` (swapped where low is higher), or one number for both.
    pub fn range<T: PartialOrd + Copy>(self, number: impl Fn(Self) -> Parsed<T>) -> Parsed<(T, T)> {
        let (low, high) = match self.text.split_once(['-', ':']) {
            Some((low, high)) => (number(self.with(low))?, number(self.with(high))?),
            None => {
                let both = number(self)?;
                (both, both)
            }
        };
        Ok(if low <= high { (low, high) } else { (high, low) })
    }

    /// Up to three comma-separated values for reads, writes and trims.
    ///
    /// An empty place keeps what `old` has. The last value also serves the
    /// directions after it, unless a comma ends it.
    pub fn per_direction<T: Clone>(
        self,
        old: &PerDirection<T>,
        separators: &[char],
        item: impl Fn(Self) -> Parsed<T>,
    ) -> Parsed<PerDirection<T>> {
        let parts: Vec<&str> = self.text.split(separators).collect();
        if parts.len() > 3 {
            return fail("takes at most three values: for reads, writes and trims");
        }
        let mut result = old.clone();
        let mut last = None;
        for (direction, part) in Direction::ALL.into_iter().zip(&parts) {
            last = if part.trim().is_empty() { None } else { Some(item(self.with(part))?) };
            if let Some(value) = &last {
                result[direction] = value.clone();
            }
        }
        if let Some(value) = last {
            for direction in Direction::ALL.into_iter().skip(parts.len()) {
                result[direction] = value.clone();
            }
        }
        Ok(result)
    }

    /// A CPU list such as `0-3,8`; ascending and without repeats.
    pub fn cpu_list(self) -> Parsed<Vec<u32>> {
        let mut cpus = Vec::new();
        for part in self.text.split([',', ':']) {
            let (low, high) = self.with(part).range(|v| v.small(0..=4095))?;
            cpus.extend(low..=high);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(cpus)
    }

    /// A byte pattern: `0x` hexadecimal, decimal numbers and `"text"`, in a row.
    pub fn pattern(self) -> Parsed<Vec<u8>> {
        let mut rest = self.text;
        let mut bytes = Vec::new();
        while !rest.is_empty() {
            if let Some(quoted) = rest.strip_prefix('"') {
                let Some(end) = quoted.find('"') else { return fail("the text in the pattern lacks its closing \"") };
                bytes.extend_from_slice(&quoted.as_bytes()[..end]);
                rest = &quoted[end + 1..];
            } else if let Some(hex) = rest.strip_prefix("0x") {
                let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
                if end == 0 {
                    return fail("0x in the pattern is not followed by hexadecimal digits");
                }
                let digits = if end % 2 == 1 { format!("0{}", &hex[..end]) } else { hex[..end].to_owned() };
                for pair in 0..digits.len() / 2 {
                    bytes.extend(u8::from_str_radix(&digits[pair * 2..pair * 2 + 2], 16));
                }
                rest = &hex[end..];
            } else {
                let negative = rest.starts_with('-');
                let digits = rest.strip_prefix('-').unwrap_or(rest);
                let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
                let Ok(magnitude) = digits[..end].parse::<u32>() else {
                    return fail(format!(
                        "`{rest}` in the pattern is not understood; write 0x hexadecimal, a decimal number or \"text\" \
                         (file names and %o are not supported)"
                    ));
                };
                let number = if negative { (magnitude as i32).wrapping_neg() } else { magnitude as i32 };
                // As fio: little-endian, without leading zero bytes above the value.
                let used = if negative { 4 } else { (4 - magnitude.leading_zeros() / 8).max(1) as usize };
                bytes.extend_from_slice(&number.to_le_bytes()[..used]);
                rest = &digits[end..];
            }
            if bytes.len() > 512 {
                return fail("the pattern is longer than 512 bytes");
            }
        }
        if bytes.is_empty() { fail("the pattern is empty") } else { Ok(bytes) }
    }
}

/// The pattern in the form [`Value::pattern`] reads back.
pub(super) fn print_pattern(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// A comma list, shortened where all directions agree.
pub(super) fn print_directions<T: PartialEq>(values: &PerDirection<T>, item: impl Fn(&T) -> String) -> String {
    if values.read == values.write && values.write == values.trim {
        item(&values.read)
    } else {
        format!("{},{},{}", item(&values.read), item(&values.write), item(&values.trim))
    }
}

pub(super) fn print_time(time: Nanos) -> String {
    format!("{}ns", time.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value<'_> {
        Value { text, kb_base: 1024 }
    }

    #[test]
    fn sizes_follow_fio() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4k", 4096),
            ("4K", 4096),
            ("4kB", 4096),
            ("1M", 1 << 20),
            ("0x10", 16),
            ("1mi", 1_000_000),
            ("1.5k", 1536),
            ("512b", 512),
        ] {
            assert_eq!(value(text).size(), Ok(bytes), "{text}");
        }
        let si = |text| Value { text, kb_base: 1000 }.size();
        assert_eq!((si("4k"), si("4KiB")), (Ok(4000), Ok(4096)));
        for bad in ["", "k", "4q", "-1", "4i", "1..2", "99999999999p", "0xzz", "ib"] {
            assert!(value(bad).size().is_err(), "{bad}");
        }
    }

    #[test]
    fn times_follow_fio() {
        for (text, ns) in [
            ("10", 10_000_000_000),
            ("10S", 10_000_000_000),
            ("2m", 120_000_000_000),
            ("80us", 80_000),
            ("1.5ms", 1_500_000),
        ] {
            assert_eq!(value(text).time(1_000_000_000), Ok(Nanos(ns)), "{text}");
        }
        assert_eq!(value("7").time(1_000), Ok(Nanos(7_000)));
        assert!(value("7 parsecs").time(1).is_err());
    }

    #[test]
    fn comma_lists_follow_fio() {
        let old = PerDirection { read: 1, write: 2, trim: 3 };
        let list = |text| value(text).per_direction(&old, &[','], Value::size).map(|v| [v.read, v.write, v.trim]);
        assert_eq!(list("8"), Ok([8, 8, 8]));
        assert_eq!(list("8,9"), Ok([8, 9, 9]));
        assert_eq!(list("8,9,"), Ok([8, 9, 3]));
        assert_eq!(list(",9"), Ok([1, 9, 9]));
        assert_eq!(list(",9,"), Ok([1, 9, 3]));
        assert!(list("1,2,3,4").is_err());
    }

    #[test]
    fn patterns_follow_fio() {
        assert_eq!(value("0xdeadface\"ab\"-12").pattern(), Ok(b"\xde\xad\xfa\xceab\xf4\xff\xff\xff".to_vec()));
        assert_eq!(value("0xabc").pattern(), Ok(vec![0x0a, 0xbc]));
        assert_eq!(value("255").pattern(), Ok(vec![255]));
        assert!(
            value("'file'").pattern().is_err() && value("\"open").pattern().is_err() && value("").pattern().is_err()
        );
    }
}
