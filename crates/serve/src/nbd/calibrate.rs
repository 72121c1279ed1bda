//! What serving costs beyond the model, measured at start on this machine.
//!
//! A request's way from the client into the server, the wake-up from the timer,
//! and the reply's way back take tens of microseconds on an idle machine; most
//! of it is waking a sleeping CPU. The server runs its own loop with a device
//! of known latency and a client at queue depth one, and takes what the client
//! sees beyond that latency as the cost. Serving then gives answers early by as
//! much (see [`crate::backend::Backend::advance`]).

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Instant;

use ssd::{Device, NullDevice};
use units::Nanos;
use zerocopy::IntoBytes;

use super::export::Exports;
use super::front_end::NbdFrontEnd;
use super::limits::Limits;
use super::proto::{
    HandshakeFlags, IHAVEOPT, NBD_REQUEST_MAGIC, OptionHeader, RequestHeader, SimpleReplyHeader, cmd, opt,
};
use crate::calibration::{Calibration, MAX_COST};
use crate::engine::Engine;
use crate::error::ServeError;
use crate::event_loop::EventLoop;
use crate::socket::Socket;
use crate::stop::Stop;

/// The device that is measured with. A process that sleeps longer wakes up into
/// colder caches and a deeper idle state, so this is a long flash read rather
/// than a short one: answering slightly early is the smaller error.
const PROBE_LATENCY: Nanos = Nanos::from_micros(200);
/// Requests of one round; with the probe's latency, about 60 ms.
const PROBE_REQUESTS: usize = 250;
const PROBE_BLOCK_BYTES: u32 = 4096;
/// The median round counts, so that another program on the same CPUs may spoil
/// two of them. Each round gives answers early by what the one before it found,
/// since a timer that is set for a shorter time may wake up the CPU faster.
const ROUNDS: usize = 5;
/// A client that gets no answer for so long is on a machine too busy to
/// calibrate on.
const PROBE_TIMEOUT_MS: libc::c_int = 5_000;

/// Measures over a Unix socket pair, or over loopback TCP.
pub(crate) fn measure(spin: Nanos, tcp: bool) -> Result<Calibration, ServeError> {
    let mut rounds: Vec<Calibration> = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let before = rounds.last().copied().unwrap_or_default();
        let found = round(spin, before, tcp).map_err(|source| ServeError::Loop { action: "calibration", source })?;
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
fn round(spin: Nanos, sofar: Calibration, tcp: bool) -> io::Result<Calibration> {
    let (server, client) = pair(tcp)?;
    let stop = Stop::new()?;
    let device = Box::new(NullDevice::new(1, PROBE_BLOCK_BYTES, PROBE_LATENCY));
    let limits = Limits::default();
    let exports = Exports::of(device.identity(), true, limits.request_bytes).map_err(io::Error::other)?;
    let mut front_end = NbdFrontEnd::new(exports, limits, None, &|_| {});
    front_end.adopt(server);
    let mut served = EventLoop::new(front_end, Engine::new(device, sofar), spin).map_err(io::Error::other)?;
    let stopper = stop.try_clone()?;
    let probe = thread::spawn(move || {
        let round_trips = probe(client);
        stopper.ask();
        round_trips
    });
    served.run(&stop).map_err(io::Error::other)?;
    let mut round_trips = probe.join().map_err(|_| io::Error::other("the calibrating client panicked"))??;
    round_trips.sort_unstable();
    let in_server = served.engine.latencies().in_server_median();
    Ok(Calibration {
        transport: round_trips[round_trips.len() / 2].since(in_server),
        overshoot: (in_server + sofar.lead()).since(PROBE_LATENCY),
    })
}

fn pair(tcp: bool) -> io::Result<(Socket, Socket)> {
    let (server, client) = if tcp {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        client.set_nodelay(true)?;
        (Socket::Tcp(listener.accept()?.0), Socket::Tcp(client))
    } else {
        let (server, client) = UnixStream::pair()?;
        (Socket::Unix(server), Socket::Unix(client))
    };
    server.prepare()?;
    Ok((server, client))
}

/// A client at queue depth one; returns its round-trip times.
fn probe(socket: Socket) -> io::Result<Vec<Nanos>> {
    let mut socket = &socket;
    // Magic numbers and flags; the server is known.
    socket.read_exact(&mut [0; 18])?;
    let flags = HandshakeFlags::FIXED_NEWSTYLE | HandshakeFlags::NO_ZEROES;
    let option = OptionHeader { magic: IHAVEOPT.into(), option: opt::EXPORT_NAME.into(), length: 0.into() };
    let mut hello = flags.bits().to_be_bytes().to_vec();
    hello.extend_from_slice(option.as_bytes());
    socket.write_all(&hello)?;
    // Size and transmission flags.
    socket.read_exact(&mut [0; 10])?;
    let mut reply = vec![0; size_of::<SimpleReplyHeader>() + PROBE_BLOCK_BYTES as usize];
    let mut round_trips = Vec::with_capacity(PROBE_REQUESTS);
    for cookie in 0..PROBE_REQUESTS as u64 {
        let request = RequestHeader {
            magic: NBD_REQUEST_MAGIC.into(),
            flags: 0.into(),
            command: cmd::READ.into(),
            cookie: cookie.into(),
            offset: 0.into(),
            length: PROBE_BLOCK_BYTES.into(),
        };
        let sent = Instant::now();
        socket.write_all(request.as_bytes())?;
        // Asynchronous clients (libnbd, QEMU) wait for the descriptor first.
        wait_readable(socket)?;
        socket.read_exact(&mut reply)?;
        round_trips.push(Nanos(sent.elapsed().as_nanos() as u64));
    }
    Ok(round_trips)
}

fn wait_readable(socket: &Socket) -> io::Result<()> {
    let mut descriptor = libc::pollfd { fd: socket.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which outlives the call; its descriptor is open.
    match unsafe { libc::poll(&raw mut descriptor, 1, PROBE_TIMEOUT_MS) } {
        0 => Err(io::ErrorKind::TimedOut.into()),
        count if count < 0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
