//! The bound server: from an address to hosts that are answered.

use std::net::SocketAddr;

use ssd::Device;

use super::calibrate::measure;
use super::front_end::NvmeTcpFrontEnd;
use super::limits::Limits;
use super::listen::Listen;
use crate::calibration::Calibration;
use crate::error::ServeError;
use crate::run::{ServeOptions, ServeReport, serve};
use crate::socket::Listener;
use crate::stop::Stop;
use crate::subsystem::{Subsystem, SubsystemConfig};

/// A bound server.
pub struct Server {
    listener: Listener,
    address: SocketAddr,
    config: SubsystemConfig,
    limits: Limits,
}

impl Server {
    /// Binds the address, so that hosts can connect (and wait) from here on.
    ///
    /// # Errors
    ///
    /// When the address is taken or is not available; and when other machines can
    /// reach it while `config` lets every host connect.
    pub fn bind(listen: &Listen, config: SubsystemConfig) -> Result<Self, ServeError> {
        let listener = Listener::tcp(&listen.host, listen.port)?;
        if listener.is_remote() && !config.restricts_hosts() {
            return Err(ServeError::OpenToAll { address: listen.to_string() });
        }
        let address = listener.tcp_address().ok_or_else(|| ServeError::Bind {
            address: listen.to_string(),
            source: std::io::ErrorKind::AddrNotAvailable.into(),
        })?;
        Ok(Self { listener, address, config, limits: Limits::default() })
    }

    /// Sets other bounds on what hosts can make the server hold.
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The address, with the port the system chose.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// What a host needs to connect: address, port and NQN, in the words of
    /// `nvme connect`.
    pub fn address(&self) -> String {
        format!("nvme-tcp://{} ({})", self.address, self.config.nqn)
    }

    /// Serves `device` until somebody asks through `stop`: then nothing new is
    /// read, what is outstanding is answered, and the device is flushed.
    ///
    /// # Errors
    ///
    /// When NVMe cannot express the device, the loop itself fails, or the device
    /// fails its last flush. What a host does wrong is no error: it is dropped
    /// with a log line.
    pub fn run(self, device: Box<dyn Device>, options: &ServeOptions, stop: &Stop) -> Result<ServeReport, ServeError> {
        let address = self.address();
        let Self { listener, mut config, limits, .. } = self;
        config.read_only |= options.read_only;
        config.in_capsule_bytes = limits.in_capsule_bytes;
        let subsystem = Subsystem::new(config, device.identity(), Box::new(fill_random))?;
        let calibration = if options.calibrate { measure(options.spin)? } else { Calibration::default() };
        let front_end = NvmeTcpFrontEnd::new(subsystem, limits, Some(listener), &*options.log);
        serve(front_end, device, options, calibration, Some(&address), stop)
    }
}

/// Fills `bytes` from the system's random number generator.
pub(super) fn fill_random(bytes: &mut [u8]) {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            // Linux has had the call since 3.17, and it fails in no other way.
            Err(error) => unreachable!("getrandom: {error}"),
        }
    }
}
