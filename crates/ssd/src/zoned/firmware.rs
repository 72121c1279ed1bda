//! The controller's processors: for how long they process a command.

use units::Nanos;

use super::Event;
use super::config::ZonedController;
use super::sharing::Sharing;
use crate::event::Events;

/// Quantiles of the exponential distribution kept; the mean of each 1024th.
const QUANTILES: usize = 1024;

/// Times that vary about a mean: m x (1 - v + v x E), with E exponentially
/// distributed and drawn from a seeded stream, so v is their coefficient of variation.
pub(super) struct Variation {
    /// Factors in units of 1/65536, each equally likely.
    factors: Box<[u32]>,
    random: u64,
}

impl Variation {
    pub fn new(variation: f64, seed: u64) -> Self {
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
        Self { factors, random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// The next time of those whose mean is `mean`.
    pub fn of(&mut self, mean: Nanos) -> Nanos {
        if mean == Nanos::ZERO {
            return mean;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let factor = self.factors[(self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 54) as usize];
        Nanos((mean.0 * u64::from(factor)) >> 16)
    }
}

/// A command at the processors. Commands with the same `Some` order leave in the
/// order in which they came: those that write to the same zone.
#[derive(Clone, Copy, Debug)]
struct Entry {
    command: u32,
    order: Option<u64>,
}

/// The processors, and the event at which they are next done with a command.
pub(super) struct Firmware {
    processors: Sharing<Entry>,
    variation: Variation,
    /// When the earliest event that stands for them is due.
    due: Option<Nanos>,
}

impl Firmware {
    pub fn new(controller: &ZonedController) -> Self {
        let processors = controller.processors;
        Self {
            processors: Sharing::new(processors, processors * controller.sharing),
            variation: Variation::new(controller.variation, controller.seed),
            due: None,
        }
    }

    /// Takes in a command that has arrived and takes `mean` of a processor.
    pub fn enter(&mut self, now: Nanos, command: u32, order: Option<u64>, mean: Nanos, events: &mut Events<Event>) {
        let service = self.variation.of(mean);
        self.processors.enter(now, service, Entry { command, order });
        self.schedule(events);
    }

    /// At an event of the processors: a command they are done with; call until there
    /// is none.
    pub fn done(&mut self, now: Nanos, events: &mut Events<Event>) -> Option<u32> {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
        }
        let done = self.processors.take(now, |elder, done| elder.order.is_some() && elder.order == done.order);
        if done.is_none() {
            self.schedule(events);
        }
        done.map(|entry| entry.command)
    }

    /// Sees to it that there is an event no later than the next command is done.
    fn schedule(&mut self, events: &mut Events<Event>) {
        if let Some(next) = self.processors.next()
            && self.due.is_none_or(|due| next < due)
        {
            self.due = Some(next);
            events.push(next, Event::Processed, 0);
        }
    }

    /// Power off.
    pub fn reset(&mut self) {
        self.processors.clear();
        self.due = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_mean_and_variation_given() {
        let mut variation = Variation::new(0.5, 1);
        let times: Vec<f64> = (0..100_000).map(|_| variation.of(Nanos(10_000)).0 as f64).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / times.len() as f64;
        assert!((mean / 10_000.0 - 1.0).abs() < 0.01, "{mean}");
        assert!((variance.sqrt() / mean - 0.5).abs() < 0.01, "{}", variance.sqrt() / mean);
        assert!(times.iter().all(|time| *time >= 5_000.0));
    }

    #[test]
    fn writes_of_a_zone_leave_in_order_and_others_may_overtake() {
        let controller = ZonedController { processors: 1, sharing: 8, variation: 0.9, ..ZonedController::default() };
        let mut firmware = Firmware::new(&controller);
        let mut events = Events::default();
        for command in 0..1_000 {
            let order = (command % 2 == 0).then_some(7);
            firmware.enter(Nanos(u64::from(command)), command, order, Nanos(5_000), &mut events);
        }
        let mut left = Vec::new();
        while let Some((at, _, _)) = events.pop_due(Nanos(u64::MAX)) {
            while let Some(command) = firmware.done(at, &mut events) {
                left.push(command);
            }
        }
        assert_eq!(left.len(), 1_000);
        let (ordered, free): (Vec<u32>, Vec<u32>) = left.into_iter().partition(|command| command % 2 == 0);
        assert!(ordered.is_sorted());
        assert!(!free.is_sorted());
    }
}
