//! The controller's processors: who processes a command, and for how long.

use units::Nanos;

use super::config::{CommandCost, ZonedController};

/// Quantiles of the exponential distribution kept; the mean of each 1024th.
const QUANTILES: usize = 1024;

/// Processors that take commands in order of arrival.
pub(super) struct Firmware {
    processors: Vec<Nanos>,
    /// Service times in units of 1/65536 of the mean, each equally likely.
    factors: Box<[u32]>,
    random: u64,
    /// Commands leave in the order in which they came.
    last_end: Nanos,
}

impl Firmware {
    pub fn new(controller: &ZonedController) -> Self {
        let variation = controller.variation;
        // The mean of -ln(1-u) over [a, b) is ((1-b)(ln(1-b) - 1) - (1-a)(ln(1-a) - 1)) / (b - a).
        let part = |u: f64| if u >= 1.0 { 0.0 } else { (1.0 - u) * ((1.0 - u).ln() - 1.0) };
        let n = QUANTILES as f64;
        let factors = (0..QUANTILES)
            .map(|index| {
                let (a, b) = (index as f64 / n, (index + 1) as f64 / n);
                let exponential = (part(b) - part(a)) * n;
                ((1.0 - variation + variation * exponential) * 65536.0).round() as u32
            })
            .collect();
        Self {
            processors: vec![Nanos::ZERO; controller.processors as usize],
            factors,
            random: controller.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            last_end: Nanos::ZERO,
        }
    }

    /// Books the processing of a command that arrives at `at`: start and end. It
    /// goes to the processor that is free first, and ends no earlier than the
    /// commands before it, so that writes to a zone stay in order.
    pub fn process(&mut self, at: Nanos, cost: &CommandCost, bytes: u64) -> (Nanos, Nanos) {
        let mean = cost.service.0 + cost.service_per_kib.0 * bytes / 1024;
        let mut first = 0;
        for (index, free) in self.processors.iter().enumerate().skip(1) {
            if *free < self.processors[first] {
                first = index;
            }
        }
        let start = self.processors[first].max(at);
        let end = start + Nanos(if mean == 0 { 0 } else { (mean * u64::from(self.factor())) >> 16 });
        self.processors[first] = end;
        self.last_end = self.last_end.max(end);
        (start, self.last_end)
    }

    fn factor(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.factors[(self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 54) as usize]
    }

    /// Power off.
    pub fn reset(&mut self) {
        self.processors.fill(Nanos::ZERO);
        self.last_end = Nanos::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_times_have_the_mean_and_variation_given() {
        let controller = ZonedController { processors: 1, variation: 0.5, ..ZonedController::default() };
        let mut firmware = Firmware::new(&controller);
        let cost = CommandCost { service: Nanos(10_000), ..CommandCost::default() };
        let times: Vec<f64> = (0..100_000)
            .map(|_| {
                let (start, end) = firmware.process(Nanos::ZERO, &cost, 4096);
                (end - start).0 as f64
            })
            .collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / times.len() as f64;
        assert!((mean / 10_000.0 - 1.0).abs() < 0.01, "{mean}");
        assert!((variance.sqrt() / mean - 0.5).abs() < 0.01, "{}", variance.sqrt() / mean);
        assert!(times.iter().all(|time| *time >= 5_000.0));
    }
}
