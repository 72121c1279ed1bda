//! Axes: from values to places, with ticks that a person would choose.

use super::Unit;
use super::number::{bare_tick, tick};

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spread {
    /// Evenly.
    Linear,
    /// Evenly by logarithm; every value is positive.
    Log,
    /// Fractions by their distance from one: 0.9, 0.99 and 0.999 are evenly apart.
    Nines,
}

/// An axis of a chart.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) spread: Spread,
    /// Value at the low end.
    pub(super) low: f64,
    /// Value at the high end; above `low`.
    pub(super) high: f64,
    /// Marked values and their labels, ascending.
    pub(super) ticks: Vec<(f64, String)>,
    /// What it measures, with the unit where the ticks are bare.
    pub(super) title: String,
    /// Unit of the values.
    pub(super) unit: Unit,
    /// Names of the values 0, 1, 2, ... where they are not numbers.
    pub(super) names: Vec<String>,
}

/// Letters that have room below a picture.
const LETTERS_MAX: usize = 110;

impl Axis {
    /// From zero to a little above `high`, at most about six ticks.
    pub(super) fn from_zero(high: f64, title: &str, unit: Unit) -> Self {
        // Below this nothing is measured, and steps would vanish in rounding.
        let high = if high > 1e-12 && high.is_finite() { high } else { 1.0 };
        let prefix = unit.prefix(high);
        let step = nice_step(high / prefix.factor / 5.0) * prefix.factor;
        let steps = (high / step - 1e-9).ceil().max(1.0);
        let ticks = (0..=steps as u32).map(|n| f64::from(n) * step).map(|at| (at, bare_tick(at, prefix))).collect();
        let title = match prefix.symbol {
            "" => title.to_owned(),
            symbol => format!("{title} ({symbol})"),
        };
        Self { spread: Spread::Linear, low: 0.0, high: steps * step, ticks, title, unit, names: Vec::new() }
    }

    /// Logarithmic, over `low..=high` and a little more.
    pub(super) fn log(low: f64, high: f64, title: &str, unit: Unit) -> Self {
        // Far beyond anything measured, and near enough for the loops below.
        let inside = |value: f64| if value.is_nan() { 1.0 } else { value.clamp(1e-15, 1e18) };
        let low = inside(low);
        let high = inside(high).max(low);
        // A breath of room, and a range even for a single value.
        let room = ((high / low).ln() * 0.04).max(0.1).exp();
        let (low, high) = (low / room, high * room);
        let mut ticks = log_ticks(low, high, &[1.0]);
        if ticks.len() < 3 {
            ticks = log_ticks(low, high, &[1.0, 2.0, 5.0]);
        }
        if ticks.len() < 3 {
            ticks = log_ticks(low, high, &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        }
        let thin = ticks.len().div_ceil(8);
        let ticks = ticks.into_iter().step_by(thin.max(1)).map(|at| (at, tick(at, &unit))).collect();
        Self { spread: Spread::Log, low, high, ticks, title: title.to_owned(), unit, names: Vec::new() }
    }

    /// Fractions from none to just under all: ticks at 50 %, 90 %, 99 %, ...
    pub(super) fn nines(highest: f64, title: &str) -> Self {
        let nines = -(1.0 - highest.clamp(0.0, 1.0 - 1e-7)).log10();
        let count = nines.ceil().clamp(2.0, 7.0) as usize;
        let mut ticks = vec![(0.0, "0\u{a0}%".to_owned()), (0.5, "50\u{a0}%".to_owned())];
        ticks.extend((1..=count).map(|n| {
            let label = if n == 1 { "90".to_owned() } else { format!("99.{}", "9".repeat(n - 2)) };
            (1.0 - 10f64.powi(-(n as i32)), format!("{}\u{a0}%", label.trim_end_matches('.')))
        }));
        let high = 1.0 - 10f64.powi(-(count as i32)) * 0.8;
        Self {
            spread: Spread::Nines,
            low: 0.0,
            high,
            ticks,
            title: title.to_owned(),
            unit: Unit::Fraction,
            names: Vec::new(),
        }
    }

    /// Named values, evenly spaced.
    pub(super) fn named(names: &[String], title: &str) -> Self {
        let ticks = names.iter().enumerate().map(|(index, name)| (index as f64, name.clone())).collect();
        Self {
            spread: Spread::Linear,
            low: -0.5,
            high: names.len().max(1) as f64 - 0.5,
            ticks,
            title: title.to_owned(),
            unit: Unit::Plain,
            names: names.to_vec(),
        }
    }

    /// Whether names that stand side by side would run into each other.
    pub(super) fn is_crowded(&self) -> bool {
        let longest = self.names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        longest * self.names.len() > LETTERS_MAX
    }

    /// Ticks at `values` themselves, leaving out those too near the last one.
    pub(super) fn with_ticks_at(mut self, values: &[f64]) -> Self {
        let mut last = f64::NEG_INFINITY;
        self.ticks = values
            .iter()
            .filter(|value| {
                let place = self.place(**value);
                let roomy = place - last >= 0.07;
                if roomy {
                    last = place;
                }
                roomy
            })
            .map(|value| (*value, tick(*value, &self.unit)))
            .collect();
        self
    }

    /// Cut off at `high`, with the ticks below it.
    pub(super) fn ending_at(mut self, high: f64) -> Self {
        if high > self.low && high < self.high {
            self.high = high;
            self.ticks.retain(|(tick, _)| *tick <= high);
        }
        self
    }

    /// Reaching down to `low` where that is below zero.
    pub(super) fn starting_at(mut self, low: f64) -> Self {
        self.low = self.low.min(low);
        self
    }

    /// Where `value` lies: 0 at the low end, 1 at the high end, kept inside.
    pub(super) fn place(&self, value: f64) -> f64 {
        let spread = |value: f64| match self.spread {
            Spread::Linear => value,
            Spread::Log => value.max(f64::MIN_POSITIVE).ln(),
            Spread::Nines => -(1.0 - value.min(self.high)).log10(),
        };
        let (low, high) = (spread(self.low), spread(self.high));
        ((spread(value) - low) / (high - low)).clamp(0.0, 1.0)
    }
}

/// 1, 2 or 5 times a power of ten, at least `rough`.
fn nice_step(rough: f64) -> f64 {
    let decade = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().find(|step| step * decade >= rough * (1.0 - 1e-9));
    step.unwrap_or(10.0) * decade
}

/// Every `multiple` of every power of ten inside `low..=high`, ascending.
fn log_ticks(low: f64, high: f64, multiples: &[f64]) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    (first..=last)
        .flat_map(|decade| multiples.iter().map(move |multiple| multiple * 10f64.powi(decade)))
        .filter(|tick| (low..=high).contains(tick))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks.iter().map(|(_, label)| label.replace('\u{a0}', " ")).collect()
    }

    #[test]
    fn ticks_a_person_would_choose() {
        let axis = Axis::from_zero(3.4e9, "Bandwidth", Unit::Bandwidth);
        assert_eq!(labels(&axis), ["0", "1", "2", "3", "4"]);
        assert_eq!(axis.title, "Bandwidth (GiB/s)");
        assert_eq!(labels(&Axis::from_zero(0.7, "Busy", Unit::Fraction)), ["0", "20", "40", "60", "80"]);
        assert_eq!(labels(&Axis::log(9e3, 2e6, "Latency", Unit::Time)), ["10 µs", "100 µs", "1 ms"]);
        assert_eq!(labels(&Axis::log(40e3, 300e3, "Latency", Unit::Time)), ["50 µs", "100 µs", "200 µs"]);
        assert_eq!(labels(&Axis::nines(0.9995, "")), ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"]);
    }

    #[test]
    fn places_stay_inside() {
        for axis in [
            Axis::from_zero(0.0, "", Unit::Plain),
            Axis::from_zero(f64::NAN, "", Unit::Plain),
            Axis::from_zero(5e-324, "", Unit::Plain),
            Axis::from_zero(f64::MAX, "", Unit::Plain),
            Axis::log(5.0, 5.0, "", Unit::Time),
            Axis::log(0.0, f64::INFINITY, "", Unit::Time),
            Axis::log(f64::NAN, f64::NAN, "", Unit::Time),
            Axis::log(5e-324, 1e300, "", Unit::Time),
            Axis::nines(1.0, ""),
            Axis::named(&[], ""),
            Axis::named(&["a".to_owned()], ""),
        ] {
            assert!(axis.ticks.len() <= 10, "{axis:?}");
            for value in [-1.0, 0.0, 0.5, 1.0, 5.0, 1e30] {
                let place = axis.place(value);
                assert!((0.0..=1.0).contains(&place), "{value} at {place} on {axis:?}");
            }
        }
        let axis = Axis::log(1.0, 1e4, "", Unit::Time);
        assert!((axis.place(100.0) - 0.5).abs() < 1e-12);
    }
}
