//! What serving costs beyond the model over a Unix socket or loopback TCP,
//! measured at start on this machine.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
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
use crate::calibration::{Calibration, Probe, failed, rounds};
use crate::error::ServeError;
use crate::socket::Socket;

/// The device that is measured with. A process that sleeps longer wakes up into
/// colder caches and a deeper idle state, so this is a long flash read rather
/// than a short one: answering slightly early is the smaller error.
const PROBE_LATENCY: Nanos = Nanos::from_micros(200);
/// Requests of one round; with the probe's latency, about 60 ms.
const PROBE_REQUESTS: usize = 250;
const PROBE_BLOCK_BYTES: u32 = 4096;
/// A client that gets no answer for so long is on a machine too busy to
/// calibrate on.
const PROBE_TIMEOUT_MS: libc::c_int = 5_000;

/// Measures over a Unix socket pair, or over loopback TCP.
pub(crate) fn measure(spin: Nanos, tcp: bool) -> Result<Calibration, ServeError> {
    rounds(|sofar| round(spin, sofar, tcp))
}

/// One round that gives answers early by what `sofar` says.
fn round(spin: Nanos, sofar: Calibration, tcp: bool) -> Result<Calibration, ServeError> {
    let (server, client) = pair(tcp).map_err(failed)?;
    let device = Box::new(NullDevice::new(1, PROBE_BLOCK_BYTES, PROBE_LATENCY));
    let limits = Limits::default();
    let exports = Exports::of(device.identity(), true, limits.request_bytes)?;
    let mut front_end = NbdFrontEnd::new(exports, limits, None, &|_| {});
    front_end.adopt(server);
    let probed = Probe { front_end, device, sofar, spin }.run(move || probe(client), |_| {})?;
    Ok(probed.cost(probed.median(), PROBE_LATENCY))
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
