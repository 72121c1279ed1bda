//! From paths to a plan: walks files, folders and mounts, and looks at where each file lies.
//!
//! Memory is bounded by the plan's limits, whatever the number of files: nothing is kept of a file
//! with nothing to move but its count.

mod examine;
mod file_system;
mod scanner;
mod walk;

pub use examine::Opened;
pub use file_system::{FileSystem, Writes};
pub use scanner::{Counts, ScanError, ScanOptions, Scanner};
