//! The cost of serving, measured: the server's own loop in front of a device of
//! known latency, and a client at queue depth one. What the client sees beyond
//! that latency is the cost.

use std::io;
use std::thread;

use ssd::Device;
use units::Nanos;

use super::{Calibration, MAX_COST};
use crate::engine::Engine;
use crate::error::ServeError;
use crate::event_loop::EventLoop;
use crate::front_end::FrontEnd;
use crate::stop::Stop;

/// The median round counts, so that another program on the same CPUs may spoil
/// two of them.
const ROUNDS: usize = 5;

/// One front-end in front of a device that is measured with.
pub(crate) struct Probe<F> {
    pub(crate) front_end: F,
    pub(crate) device: Box<dyn Device>,
    /// Given early by so much.
    pub(crate) sofar: Calibration,
    pub(crate) spin: Nanos,
}

/// What a client saw and the server knows of it.
pub(crate) struct Probed<F> {
    pub(crate) front_end: F,
    /// The client's round-trip times, sorted.
    pub(crate) round_trips: Vec<Nanos>,
    /// The median time from a request's arrival in the server to its answer.
    in_server: Nanos,
    sofar: Calibration,
}

impl<F: FrontEnd> Probe<F> {
    /// Serves until `client`, on a thread of its own, has its round-trip times.
    /// `ended` sees the front-end when the loop is over, failed or not.
    pub(crate) fn run(
        self,
        client: impl FnOnce() -> io::Result<Vec<Nanos>> + Send + 'static,
        ended: impl FnOnce(&F),
    ) -> Result<Probed<F>, ServeError> {
        let Self { front_end, device, sofar, spin } = self;
        let mut served = EventLoop::new(front_end, Engine::new(device, sofar), spin)?;
        let stop = Stop::new().map_err(failed)?;
        let stopper = stop.try_clone().map_err(failed)?;
        let client = thread::spawn(move || {
            let round_trips = client();
            stopper.ask();
            round_trips
        });
        let ran = served.run(&stop);
        ended(&served.front_end);
        let in_server = served.engine.latencies().in_server_median();
        // A loop that failed answers nobody: its end lets the client go.
        let front_end = ran.map(|()| served.front_end);
        let round_trips = client.join().map_err(|_| failed(io::Error::other("the client panicked")))?;
        let front_end = front_end?;
        let mut round_trips = round_trips.map_err(failed)?;
        round_trips.sort_unstable();
        Ok(Probed { front_end, round_trips, in_server, sofar })
    }
}

impl<F> Probed<F> {
    /// The client's median round trip.
    pub(crate) fn median(&self) -> Nanos {
        self.round_trips.get(self.round_trips.len() / 2).copied().unwrap_or_default()
    }

    /// The cost, where a request usually takes `round_trip` and the device `latency` of it.
    pub(crate) fn cost(&self, round_trip: Nanos, latency: Nanos) -> Calibration {
        Calibration {
            transport: round_trip.since(self.in_server),
            overshoot: (self.in_server + self.sofar.lead()).since(latency),
        }
    }
}

/// The median of several rounds, part by part. Each round gives answers early by
/// what the one before it found, since a timer that is set for a shorter time
/// may wake up the CPU faster.
pub(crate) fn rounds(
    mut round: impl FnMut(Calibration) -> Result<Calibration, ServeError>,
) -> Result<Calibration, ServeError> {
    let mut found: Vec<Calibration> = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let sofar = found.last().copied().unwrap_or_default();
        found.push(round(sofar)?);
    }
    let median = |part: fn(&Calibration) -> Nanos| {
        let mut parts: Vec<Nanos> = found.iter().map(part).collect();
        parts.sort_unstable();
        parts.get(ROUNDS / 2).copied().unwrap_or_default().min(MAX_COST)
    };
    Ok(Calibration { transport: median(|round| round.transport), overshoot: median(|round| round.overshoot) })
}

/// A calibration that failed, of whatever kind the front-end is.
pub(crate) fn failed(source: io::Error) -> ServeError {
    ServeError::Calibration { source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_spoilt_rounds_change_nothing_and_each_starts_from_the_one_before() {
        let costs_us = [30, 900, 31, 5000, 32];
        let mut seen = Vec::new();
        let found = rounds(|sofar| {
            seen.push(sofar);
            let us = costs_us[seen.len() - 1];
            Ok(Calibration { transport: Nanos::from_micros(us), overshoot: Nanos::from_micros(us / 10) })
        })
        .unwrap();
        assert_eq!(found.transport, Nanos::from_micros(32));
        assert_eq!(found.overshoot, Nanos::from_micros(3));
        assert_eq!(seen[0], Calibration::default());
        assert_eq!(seen[1].transport, Nanos::from_micros(30));
    }

    #[test]
    fn a_cost_is_never_more_than_serving_costs() {
        let slow = Calibration { transport: Nanos::from_millis(5), overshoot: Nanos::from_millis(9) };
        let found = rounds(|_| Ok(slow)).unwrap();
        assert_eq!(found, Calibration { transport: MAX_COST, overshoot: MAX_COST });
    }

    #[test]
    fn a_round_that_fails_ends_it() {
        let mut asked = 0;
        let found = rounds(|_| {
            asked += 1;
            Err(failed(io::ErrorKind::TimedOut.into()))
        });
        assert!(matches!(found, Err(ServeError::Calibration { .. })));
        assert_eq!(asked, 1);
    }
}
