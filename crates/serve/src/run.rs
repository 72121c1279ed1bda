//! Serving a device through any front-end: what is common to them.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Value, json};
use ssd::Device;
use ssd::faults::{FaultPlan, FaultyDevice};
use units::Nanos;

use crate::calibration::Calibration;
use crate::control::ControlServer;
use crate::engine::Engine;
use crate::error::ServeError;
use crate::event_loop::{CONTROL, EventLoop};
use crate::front_end::{Clients, FrontEnd};
use crate::latency::LatencySummary;
use crate::log::LineWriter;
use crate::stop::Stop;

/// How to serve, whatever the front-end.
pub struct ServeOptions {
    /// Refuse everything that changes the device.
    pub read_only: bool,
    /// How long before an answer is due the server stops sleeping and watches
    /// the clock. Zero sleeps always; calibration makes up for the median
    /// delay of waking up, and only its spread remains.
    pub spin: Nanos,
    /// Whether to measure the cost of serving first, for about half a second, and
    /// give answers early by as much. What a client does to the machine meanwhile
    /// spoils the measurement: start it when the log says that the server is ready.
    pub calibrate: bool,
    /// Where the control socket is to be: power cuts, faults, statistics and live
    /// state.
    pub control: Option<PathBuf>,
    /// Most memory that contents may take; a write that needs more is answered as by a full disk. `None` bounds
    /// nothing. It is of no account where contents are in an image.
    pub memory_limit_bytes: Option<u64>,
    /// Takes one line for each thing an operator should know: that calibration
    /// is over and clients are answered, warnings, and clients dropped. The loop waits
    /// for it: give one that returns at once, as [`LineWriter`](crate::LineWriter) does.
    pub log: Box<dyn Fn(&str)>,
}

impl Default for ServeOptions {
    /// Read and write, no spinning, calibrated, no control socket, memory without
    /// bound, log lines to standard error.
    fn default() -> Self {
        // Without a thread or descriptor left there is nobody to tell.
        let stderr = LineWriter::stderr().ok();
        Self {
            memory_limit_bytes: None,
            read_only: false,
            spin: Nanos::ZERO,
            calibrate: true,
            control: None,
            log: Box::new(move |line| {
                if let Some(stderr) = &stderr {
                    stderr.line(line);
                }
            }),
        }
    }
}

/// What was served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeReport {
    /// Clients, as the front-end counts them.
    pub clients: Clients,
    /// Requests that clients made.
    pub requests: u64,
    /// Bytes read by clients.
    pub read_bytes: u64,
    /// Bytes written by clients.
    pub written_bytes: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Modelled latency, and how far serving was off.
    pub latency: LatencySummary,
    /// What answers were given early by.
    pub calibration: Calibration,
    /// The device's counters.
    pub counters: Vec<(String, u64)>,
    /// When serving began, on CLOCK_MONOTONIC: time zero of what a recorder in the
    /// device holds.
    pub started_at: Nanos,
}

impl ServeReport {
    /// The report as a JSON object; the unit ends a name.
    pub fn to_json(&self) -> Value {
        let counters: serde_json::Map<String, Value> =
            self.counters.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({
            "clients": self.clients,
            "requests": self.requests,
            "read_bytes": self.read_bytes,
            "written_bytes": self.written_bytes,
            "errors": self.errors,
            "latency": self.latency,
            "calibration": {
                "transport_ns": self.calibration.transport.0,
                "overshoot_ns": self.calibration.overshoot.0,
            },
            "started_at_ns": self.started_at.0,
            "counters": counters,
        })
    }
}

impl fmt::Display for ServeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Clients { accepted, dropped, .. } = self.clients;
        writeln!(
            f,
            "served {accepted} connections ({dropped} dropped), {} bytes read, {} bytes written, {} errors",
            self.read_bytes, self.written_bytes, self.errors
        )?;
        writeln!(f, "{}", self.latency)?;
        write!(f, "  {}", self.calibration)
    }
}

/// Serves `device` through `front_end` until somebody asks through `stop`: then
/// nothing new is taken, what is outstanding is answered, and the device is
/// flushed. Logs the line that begins `ready at` with `address`; a front-end whose
/// address is known only once it is served gives `None` and logs it itself.
///
/// # Errors
///
/// When the loop or the control socket fails, or the device fails its last flush.
/// What a client does wrong is no error: it is dropped with a log line.
pub(crate) fn serve<F: FrontEnd>(
    front_end: F,
    device: Box<dyn Device>,
    options: &ServeOptions,
    calibration: Calibration,
    address: Option<&str>,
    stop: &Stop,
) -> Result<ServeReport, ServeError> {
    if !device.identity().keeps_contents {
        (options.log)("warning: the device keeps no contents; everything reads as zeroes");
    }
    let faults = FaultPlan::default();
    let device = match &options.control {
        Some(_) => Box::new(FaultyDevice::new(device, faults.clone())),
        None => device,
    };
    let mut event_loop = EventLoop::new(front_end, Engine::new(device, calibration), options.spin)?;
    event_loop.engine.limit_memory(options.memory_limit_bytes);
    event_loop.tell(&*options.log);
    if let Some(path) = &options.control {
        event_loop.control(ControlServer::bind(path, CONTROL)?, faults);
        (options.log)(&format!("control socket at unix:{}", path.display()));
    }
    if let Some(address) = address {
        (options.log)(&format!("ready at {address}; {calibration}"));
    }
    event_loop.run(stop)?;
    event_loop.shut_down()?;
    Ok(event_loop.report())
}
