//! Faults on demand: what a failing device does, at the commands one chooses.
//!
//! [`FaultyDevice`] wraps any [`crate::Device`]. What goes wrong is a [`FaultPlan`],
//! of which the wrapper and whoever drives the test each hold a handle: faults are
//! added and taken back while commands are on their way. Everything is
//! deterministic: the same commands and the same plan fail in the same way.
//!
//! ```
//! use ssd::faults::{Effect, Fault, FaultPlan, FaultyDevice};
//!
//! let plan = FaultPlan::default();
//! let device = FaultyDevice::new(Box::new(ssd::NullDevice::new(1 << 20, 512, units::Nanos(1000))), plan.clone());
//! // The tenth command fails, once.
//! let fault = Fault { nth: 10, times: Some(1), ..Fault::new(Effect::error(nvme::Status::INTERNAL_ERROR)) };
//! let id = plan.inject(fault)?;
//! assert_eq!(plan.list()[0].hits, 0);
//! plan.clear(Some(id));
//! # drop(device);
//! # Ok::<(), ssd::faults::FaultError>(())
//! ```

mod device;
mod fault;
mod media;
mod plan;
mod status_text;
#[cfg(test)]
mod tests;

pub use device::FaultyDevice;
pub use fault::{Effect, Fault, FaultError, Operation};
pub use plan::{FaultId, FaultPlan, FaultReport};
pub use status_text::{ParseStatusError, parse_status, status_text};
