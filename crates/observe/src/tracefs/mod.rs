//! The kernel's tracepoints: what their records hold ([`Format`]), and what comes by, as text of a private instance
//! ([`Instance`], [`Record`]).

mod device;
mod error;
mod format;
mod instance;
mod record;

use std::path::{Path, PathBuf};

pub use device::{device_of_kernel, device_to_kernel};
pub use error::TracefsError;
pub use format::{Field, Format};
pub use instance::Instance;
pub use record::Record;

/// Where tracefs is mounted, if it is.
const MOUNT_POINTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Where tracefs is.
///
/// # Errors
/// [`TracefsError::Unavailable`] where it is not mounted or not to be seen.
pub fn root() -> Result<PathBuf, TracefsError> {
    let found = MOUNT_POINTS.iter().map(Path::new).find(|root| root.join("instances").is_dir());
    let missing = || TracefsError::Unavailable("no tracefs is mounted where this user sees it".into());
    found.map(Path::to_owned).ok_or_else(missing)
}
