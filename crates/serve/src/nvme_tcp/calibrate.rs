//! What serving costs beyond the model over loopback TCP, measured at start on
//! this machine.

use std::io;
use std::net::{TcpListener, TcpStream};

use ssd::{Device, NullDevice};
use units::Nanos;

use super::front_end::NvmeTcpFrontEnd;
use super::limits::Limits;
use super::probe::round_trips;
use super::server::fill_random;
use crate::calibration::{Calibration, Probe, failed, rounds};
use crate::error::ServeError;
use crate::socket::Socket;
use crate::subsystem::{Subsystem, SubsystemConfig};

/// The device that is measured with: a long flash read, see [`crate::nbd`].
const PROBE_LATENCY: Nanos = Nanos::from_micros(200);
/// Requests of one round; with the probe's latency, about 60 ms.
const PROBE_REQUESTS: usize = 250;
const PROBE_BLOCK_BYTES: u32 = 4096;
const PROBE_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000000";

/// Measures over loopback TCP.
pub(super) fn measure(spin: Nanos) -> Result<Calibration, ServeError> {
    rounds(|sofar| round(spin, sofar))
}

/// One round that gives answers early by what `sofar` says.
fn round(spin: Nanos, sofar: Calibration) -> Result<Calibration, ServeError> {
    let ((server_admin, admin), (server_io, io)) = (pair().map_err(failed)?, pair().map_err(failed)?);
    let device = Box::new(NullDevice::new(1, PROBE_BLOCK_BYTES, PROBE_LATENCY));
    let config = SubsystemConfig::new(PROBE_NQN, "calibration");
    let subsystem = Subsystem::new(config, device.identity(), Box::new(fill_random))?;
    let mut front_end = NvmeTcpFrontEnd::new(subsystem, Limits::default(), None, &|_| {});
    front_end.adopt(server_admin);
    front_end.adopt(server_io);
    let host = move || round_trips(admin, io, PROBE_NQN, PROBE_BLOCK_BYTES, PROBE_REQUESTS);
    let probed = Probe { front_end, device, sofar, spin }.run(host, |_| {})?;
    Ok(probed.cost(probed.median(), PROBE_LATENCY))
}

fn pair() -> io::Result<(Socket, Socket)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    client.set_nodelay(true)?;
    let server = Socket::Tcp(listener.accept()?.0);
    server.prepare()?;
    Ok((server, Socket::Tcp(client)))
}
