//! Numbers as fio prints them.

/// Powers of 1000 or 1024.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// `k`, `M`, `G`.
    Si,
    /// `Ki`, `Mi`, `Gi`.
    Binary,
}

/// Digits kept, fio's default `significant_figures`.
const FIGURES: usize = 4;

/// At most four figures with a prefix (the rule of fio's lib/num2str.c: divide
/// until the number has at most four digits, then add decimals up to three digits).
pub(super) fn short(value: u64, base: Base, unit: &str) -> String {
    let (step, prefixes) = match base {
        Base::Si => (1000, ["", "k", "M", "G", "T", "P", "E"]),
        Base::Binary => (1024, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
    };
    let (mut whole, mut rest, mut prefix) = (value, 0, 0);
    while whole > 9_999 && prefix + 1 < prefixes.len() {
        rest = whole % step;
        whole /= step;
        prefix += 1;
    }
    let prefix_text = prefixes[prefix];
    let digits = whole.checked_ilog10().unwrap_or(0) as usize + 1;
    if prefix == 0 {
        return format!("{whole}{unit}");
    }
    if digits >= FIGURES - 1 {
        return format!("{}{prefix_text}{unit}", whole + u64::from(rest >= step / 2));
    }
    let decimals = FIGURES - 1 - digits;
    format!("{:.decimals$}{prefix_text}{unit}", whole as f64 + rest as f64 / step as f64)
}

/// Bytes per second both ways: `3542MiB/s (3714MB/s)`.
pub(super) fn bandwidth(bytes_per_s: f64) -> String {
    let whole = bytes_per_s as u64;
    format!("{} ({})", short(whole, Base::Binary, "B/s"), short(whole, Base::Si, "B/s"))
}

/// The unit fio chooses for a set of times, by its smallest and largest in
/// nanoseconds, and whether they spread enough to be worth it (stat.c,
/// nsec_to_usec and nsec_to_msec): its name and its nanoseconds.
pub(super) fn time_unit(min_ns: u64, max_ns: u64, stddev_ns: f64) -> (&'static str, f64) {
    if min_ns > 2_000_000 && max_ns > 99_999_999 && stddev_ns > 1_000_000.0 {
        ("msec", 1e6)
    } else if min_ns > 2_000 && max_ns > 99_999 && stddev_ns > 1_000.0 {
        ("usec", 1e3)
    } else {
        ("nsec", 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_fios() {
        // From fio 3.33's own output.
        for (value, base, text) in [
            (907_421, Base::Si, "907k"),
            (2_708_333, Base::Si, "2708k"),
            (33_423_360, Base::Binary, "31.9Mi"),
            (3_714_000_000, Base::Si, "3714M"),
            (11_091_000_000, Base::Binary, "10.3Gi"),
            (9_999, Base::Si, "9999"),
            (4_096, Base::Binary, "4096"),
            (65_536, Base::Binary, "64.0Ki"),
            (12_500, Base::Si, "12.5k"),
            (0, Base::Si, "0"),
        ] {
            assert_eq!(short(value, base, ""), text);
        }
    }
}
