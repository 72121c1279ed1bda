//! Numbers as a reader sees them: three significant digits and a unit.
//!
//! The name of a [`Unit::Named`] is from outside: what is returned here is
//! text, to be escaped on its way into the page like any other; only
//! [`show_stacked`] returns markup.

use super::html::esc;
use super::{Estimate, Unit};

/// What stands for a value that is missing or not finite.
pub(super) const NONE: &str = "–";
/// Between a number and its unit: a space that does not break.
const GAP: char = '\u{a0}';

/// A scaled unit: its symbol and how many base units it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prefix<'a> {
    pub(super) symbol: &'a str,
    pub(super) factor: f64,
}

const TIME: [Prefix<'_>; 4] = [
    Prefix { symbol: "ns", factor: 1.0 },
    Prefix { symbol: "µs", factor: 1e3 },
    Prefix { symbol: "ms", factor: 1e6 },
    Prefix { symbol: "s", factor: 1e9 },
];
const IOPS: [Prefix<'_>; 3] = [
    Prefix { symbol: "IOPS", factor: 1.0 },
    Prefix { symbol: "kIOPS", factor: 1e3 },
    Prefix { symbol: "MIOPS", factor: 1e6 },
];
const BANDWIDTH: [Prefix<'_>; 4] = [
    Prefix { symbol: "B/s", factor: 1.0 },
    Prefix { symbol: "KiB/s", factor: 1024.0 },
    Prefix { symbol: "MiB/s", factor: 1_048_576.0 },
    Prefix { symbol: "GiB/s", factor: 1_073_741_824.0 },
];
const BYTES: [Prefix<'_>; 5] = [
    Prefix { symbol: "B", factor: 1.0 },
    Prefix { symbol: "KiB", factor: 1024.0 },
    Prefix { symbol: "MiB", factor: 1_048_576.0 },
    Prefix { symbol: "GiB", factor: 1_073_741_824.0 },
    Prefix { symbol: "TiB", factor: 1_099_511_627_776.0 },
];
const PLAIN: [Prefix<'_>; 4] = [
    Prefix { symbol: "", factor: 1.0 },
    Prefix { symbol: "k", factor: 1e3 },
    Prefix { symbol: "M", factor: 1e6 },
    Prefix { symbol: "G", factor: 1e9 },
];

impl Unit {
    /// The word that the page's script formats by.
    pub(super) fn key(&self) -> &str {
        match self {
            Self::Plain => "plain",
            Self::Time => "time",
            Self::Iops => "iops",
            Self::Bandwidth => "bandwidth",
            Self::Bytes => "bytes",
            Self::Fraction => "fraction",
            Self::Factor => "factor",
            Self::Named(name) => name,
        }
    }

    /// The prefix under which `magnitude` reads best.
    pub(super) fn prefix(&self, magnitude: f64) -> Prefix<'_> {
        let prefixes: &[Prefix<'_>] = match self {
            Self::Time => &TIME,
            Self::Iops => &IOPS,
            Self::Bandwidth => &BANDWIDTH,
            Self::Bytes => &BYTES,
            Self::Plain => &PLAIN,
            Self::Fraction => return Prefix { symbol: "%", factor: 0.01 },
            Self::Factor => return Prefix { symbol: "×", factor: 1.0 },
            Self::Named(name) => return Prefix { symbol: name, factor: 1.0 },
        };
        // Rounding may carry into the next prefix: 999.9 µs is 1.00 ms.
        let fits = |prefix: &&Prefix<'_>| round(magnitude.abs() / prefix.factor, 3) >= 1.0;
        // Small plain numbers are counts, and counts are exact.
        let start = if *self == Self::Plain && magnitude.abs() < 10_000.0 { 1 } else { prefixes.len() };
        *prefixes[..start].iter().rev().find(fits).unwrap_or(&prefixes[0])
    }
}

/// `value` with three significant digits and its unit.
pub(super) fn show(value: f64, unit: &Unit) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let prefix = unit.prefix(value);
    let scaled = value / prefix.factor;
    // A count of things or bytes is exact while it is short.
    let exact = matches!(unit, Unit::Plain | Unit::Bytes) && prefix.factor == 1.0 && scaled.fract() == 0.0;
    let number = if exact { format!("{scaled}") } else { digits(scaled, 3) };
    with_symbol(number, prefix.symbol)
}

/// `value ± half width`, both under one prefix.
pub(super) fn show_estimate(estimate: Estimate, unit: &Unit) -> String {
    match show_half_width(estimate, unit) {
        None => show(estimate.value, unit),
        Some(half) => format!("{}{GAP}{half}", digits(estimate.value / unit.prefix(estimate.value).factor, 3)),
    }
}

/// `± half width` under the prefix of the value, where there is an interval.
pub(super) fn show_half_width(estimate: Estimate, unit: &Unit) -> Option<String> {
    let half = estimate.half_width.filter(|half| half.is_finite() && estimate.value.is_finite())?;
    let prefix = unit.prefix(estimate.value);
    let half = half / prefix.factor;
    // None of nothing, as of runs that are alike, nor of less than the value's last digit.
    if half < last_digit(estimate.value / prefix.factor) / 2.0 || half == 0.0 {
        return None;
    }
    // Two digits of an uncertainty are all that is certain about it.
    Some(format!("±{GAP}{}", with_symbol(digits(half, 2), prefix.symbol)))
}

/// A table cell's content: the value, and its interval in small print below.
pub(super) fn show_stacked(estimate: Estimate, unit: &Unit) -> String {
    let half = show_half_width(estimate, unit).map_or(String::new(), |half| format!("<small>{}</small>", esc(&half)));
    format!("{}{half}", esc(&show(estimate.value, unit)))
}

/// A tick label or a parameter: as [`show`], without trailing zeros.
pub(super) fn tick(value: f64, unit: &Unit) -> String {
    let prefix = unit.prefix(value);
    with_symbol(trim(digits(value / prefix.factor, 3)), prefix.symbol)
}

/// A tick label on an axis whose title carries the unit.
pub(super) fn bare_tick(value: f64, prefix: Prefix<'_>) -> String {
    trim(digits(value / prefix.factor, 3))
}

/// A difference as a fraction: `+3.21 %`, `−12.0 %`, `0 %`.
pub(super) fn show_difference(fraction: f64) -> String {
    if !fraction.is_finite() {
        return NONE.to_owned();
    }
    let sign = match fraction {
        0.0 => "",
        f if f > 0.0 => "+",
        _ => "−",
    };
    format!("{sign}{}{GAP}%", trim(digits(fraction.abs() * 100.0, 3)))
}

/// A percentile's name: `p99.9`.
pub(super) fn percentile(percent: f64) -> String {
    format!("p{percent}")
}

fn with_symbol(number: String, symbol: &str) -> String {
    match symbol {
        "" => number,
        "×" | "k" | "M" | "G" => format!("{number}{symbol}"),
        symbol => format!("{number}{GAP}{symbol}"),
    }
}

/// `count` significant digits in positional notation.
fn digits(value: f64, count: i32) -> String {
    let rounded = round(value, count);
    if rounded.abs() >= 1e15 {
        return format!("{rounded:.*e}", count as usize - 1);
    }
    if rounded == 0.0 {
        return "0".to_owned();
    }
    let decimals = (count - 1 - rounded.abs().log10().floor() as i32).clamp(0, 12);
    format!("{rounded:.*}", decimals as usize)
}

/// What one step of the last digit shown of `value` is.
fn last_digit(value: f64) -> f64 {
    let rounded = round(value, 3);
    if rounded == 0.0 { 0.0 } else { 10f64.powf((rounded.abs().log10().floor() - 2.0).min(0.0)) }
}

/// To `count` significant digits.
fn round(value: f64, count: i32) -> f64 {
    // Smaller ones are not measured, and their powers of ten overflow.
    if value.abs() < 1e-12 {
        return 0.0;
    }
    if !value.is_finite() {
        return value;
    }
    let exponent = value.abs().log10().floor() as i32 + 1 - count;
    // Dividing by a power of ten is exact where multiplying by its inverse is not.
    if exponent >= 0 {
        let scale = 10f64.powi(exponent);
        (value / scale).round() * scale
    } else {
        let scale = 10f64.powi(-exponent);
        (value * scale).round() / scale
    }
}

fn trim(mut digits: String) -> String {
    if digits.contains('.') {
        digits.truncate(digits.trim_end_matches('0').trim_end_matches('.').len());
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: String) -> String {
        text.replace(GAP, " ")
    }

    #[test]
    fn three_digits_and_a_unit() {
        for (value, unit, text) in [
            (81_234.0, Unit::Time, "81.2 µs"),
            (999_950.0, Unit::Time, "1.00 ms"),
            (0.0, Unit::Time, "0 ns"),
            (0.25, Unit::Time, "0.250 ns"),
            (512_345.0, Unit::Iops, "512 kIOPS"),
            (3.456e9, Unit::Bandwidth, "3.22 GiB/s"),
            (4096.0, Unit::Bytes, "4.00 KiB"),
            (300.0, Unit::Bytes, "300 B"),
            (0.12345, Unit::Fraction, "12.3 %"),
            (1.0, Unit::Fraction, "100 %"),
            (1.234, Unit::Factor, "1.23×"),
            (9999.0, Unit::Plain, "9999"),
            (1_234_567.0, Unit::Plain, "1.23M"),
            (0.5, Unit::Plain, "0.500"),
            (-1500.0, Unit::Time, "-1.50 µs"),
            (1234.5, Unit::Named("MB/s".to_owned()), "1230 MB/s"),
            (5e-324, Unit::Fraction, "0 %"),
            (1e300, Unit::Bandwidth, "9.31e290 GiB/s"),
            (f64::NAN, Unit::Time, NONE),
            (f64::INFINITY, Unit::Plain, NONE),
        ] {
            assert_eq!(plain(show(value, &unit)), text);
        }
    }

    #[test]
    fn ticks_estimates_and_differences() {
        assert_eq!(plain(tick(1e5, &Unit::Time)), "100 µs");
        assert_eq!(plain(tick(4096.0, &Unit::Bytes)), "4 KiB");
        assert_eq!(plain(tick(0.2, &Unit::Fraction)), "20 %");
        let estimate = Estimate { value: 81_234.0, half_width: Some(130.0) };
        assert_eq!(plain(show_estimate(estimate, &Unit::Time)), "81.2 ± 0.13 µs");
        let alike = Estimate { value: 81_234.0, half_width: Some(0.0) };
        assert_eq!(plain(show_estimate(alike, &Unit::Time)), "81.2 µs");
        let nearly = Estimate { value: 27_200.0, half_width: Some(0.025) };
        assert_eq!(plain(show_estimate(nearly, &Unit::Time)), "27.2 µs");
        for (half, shown) in [(49.0, false), (51.0, true)] {
            let near = Estimate { value: 27_200.0, half_width: Some(half) };
            assert_eq!(show_half_width(near, &Unit::Time).is_some(), shown, "{half}");
        }
        let odd = Estimate { value: 5.0, half_width: Some(f64::NAN) };
        assert_eq!(plain(show_estimate(odd, &Unit::Plain)), "5");
        assert_eq!(plain(show_difference(-0.0321)), "−3.21 %");
        assert_eq!(plain(show_difference(0.0)), "0 %");
    }
}
