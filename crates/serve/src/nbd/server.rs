//! The bound server: from an address to clients that are answered.

use ssd::Device;

use super::calibrate::measure;
use super::export::Exports;
use super::front_end::NbdFrontEnd;
use super::limits::Limits;
use super::listen::{Listen, uri};
use crate::calibration::Calibration;
use crate::error::ServeError;
use crate::run::{ServeOptions, ServeReport, serve};
use crate::socket::Listener;
use crate::stop::Stop;

/// A bound server.
pub struct Server {
    listener: Listener,
    limits: Limits,
}

impl Server {
    /// Binds the address, so that clients can connect (and wait) from here on.
    ///
    /// The socket file of a server that was killed is replaced; anything else
    /// in its place is an error. The file is removed when the server is dropped.
    ///
    /// # Errors
    ///
    /// When the address is taken or is not available.
    pub fn bind(listen: &Listen) -> Result<Self, ServeError> {
        Ok(Self { listener: listen.bind()?, limits: Limits::default() })
    }

    /// Sets other bounds on what clients can make the server hold.
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The address as an NBD URI (`nbdinfo URI`), with the port the system chose.
    pub fn uri(&self) -> String {
        uri(&self.listener)
    }

    /// Serves `device` until somebody asks through `stop`: then nothing new is
    /// read, what is outstanding is answered, and the device is flushed.
    ///
    /// # Errors
    ///
    /// When the device cannot be served over NBD, the loop itself fails, or the
    /// device fails its last flush. What a client does wrong is no error: it is
    /// dropped with a log line.
    pub fn run(self, device: Box<dyn Device>, options: &ServeOptions, stop: &Stop) -> Result<ServeReport, ServeError> {
        if self.listener.is_remote() {
            (options.log)(
                "warning: NBD has no authentication; every machine that reaches this port can read and write the device",
            );
        }
        let exports = Exports::of(device.identity(), options.read_only, self.limits.request_bytes)?;
        let calibration =
            if options.calibrate { measure(options.spin, self.listener.is_tcp())? } else { Calibration::default() };
        let address = self.uri();
        let front_end = NbdFrontEnd::new(exports, self.limits, Some(self.listener), &*options.log);
        serve(front_end, device, options, calibration, Some(&address), stop)
    }
}
