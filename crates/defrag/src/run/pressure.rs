//! How long tasks wait for I/O.

use std::fs;

/// Percent of the last ten seconds in which some task waited for I/O; `None` where the kernel does not tell.
///
/// Source: `Documentation/accounting/psi.rst`.
pub fn io_pressure_percent() -> Option<f64> {
    parse(&fs::read_to_string("/proc/pressure/io").ok()?)
}

fn parse(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let average = some.split(' ').find_map(|word| word.strip_prefix("avg10="))?;
    average.parse().ok().filter(|percent: &f64| percent.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_kernels_form_is_read() {
        let text = "some avg10=12.50 avg60=0.40 avg300=0.11 total=1\nfull avg10=7.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(parse(text), Some(12.5));
        assert_eq!(parse("full avg10=7.00\n"), None);
        assert_eq!(parse("some avg10=NaN\n"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in "(some |avg10=|[0-9.]|\n|.){0,40}") {
            let _ = parse(&text);
        }
    }
}
