//! What serving costs beyond the model over loopback TCP, measured at start on
//! this machine the way the NBD server does it: the server's own loop with a
//! device of known latency, and a host at queue depth one.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::thread;

use ssd::{Device, NullDevice};
use units::Nanos;

use super::front_end::NvmeTcpFrontEnd;
use super::limits::Limits;
use super::probe::round_trips;
use super::server::fill_random;
use crate::calibration::{Calibration, MAX_COST};
use crate::engine::Engine;
use crate::error::ServeError;
use crate::event_loop::EventLoop;
use crate::socket::Socket;
use crate::stop::Stop;
use crate::subsystem::{Subsystem, SubsystemConfig};

/// The device that is measured with: a long flash read, see [`crate::nbd`].
const PROBE_LATENCY: Nanos = Nanos::from_micros(200);
/// Requests of one round; with the probe's latency, about 60 ms.
const PROBE_REQUESTS: usize = 250;
const PROBE_BLOCK_BYTES: u32 = 4096;
/// The median round counts, so that another program on the same CPUs may spoil
/// two of them. Each round gives answers early by what the one before it found.
const ROUNDS: usize = 5;
const PROBE_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000000";

/// Measures over loopback TCP.
pub(super) fn measure(spin: Nanos) -> Result<Calibration, ServeError> {
    let mut rounds: Vec<Calibration> = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let before = rounds.last().copied().unwrap_or_default();
        let found = round(spin, before).map_err(|source| ServeError::Loop { action: "calibration", source })?;
        rounds.push(found);
    }
    let median = |part: fn(&Calibration) -> Nanos| {
        let mut parts: Vec<Nanos> = rounds.iter().map(part).collect();
        parts.sort_unstable();
        parts[ROUNDS / 2].min(MAX_COST)
    };
    Ok(Calibration { transport: median(|round| round.transport), overshoot: median(|round| round.overshoot) })
}

/// One round that gives answers early by what `sofar` says; medians.
fn round(spin: Nanos, sofar: Calibration) -> io::Result<Calibration> {
    let ((server_admin, admin), (server_io, io)) = (pair()?, pair()?);
    let stop = Stop::new()?;
    let device = Box::new(NullDevice::new(1, PROBE_BLOCK_BYTES, PROBE_LATENCY));
    let config = SubsystemConfig::new(PROBE_NQN, "calibration");
    let subsystem = Subsystem::new(config, device.identity(), Box::new(fill_random)).map_err(io::Error::other)?;
    let mut front_end = NvmeTcpFrontEnd::new(subsystem, Limits::default(), None, &|_| {});
    front_end.adopt(server_admin);
    front_end.adopt(server_io);
    let mut served = EventLoop::new(front_end, Engine::new(device, sofar), spin).map_err(io::Error::other)?;
    let stopper = stop.try_clone()?;
    let probe = thread::spawn(move || {
        let times = round_trips(admin, io, PROBE_NQN, PROBE_BLOCK_BYTES, PROBE_REQUESTS);
        stopper.ask();
        times
    });
    served.run(&stop).map_err(io::Error::other)?;
    let mut times = probe.join().map_err(|_| io::Error::other("the calibrating host panicked"))??;
    times.sort_unstable();
    let in_server = served.engine.latencies().in_server_median();
    Ok(Calibration {
        transport: times[times.len() / 2].since(in_server),
        overshoot: (in_server + sofar.lead()).since(PROBE_LATENCY),
    })
}

fn pair() -> io::Result<(Socket, Socket)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    client.set_nodelay(true)?;
    let server = Socket::Tcp(listener.accept()?.0);
    server.prepare()?;
    Ok((server, Socket::Tcp(client)))
}
