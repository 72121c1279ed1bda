//! Block traces: read, written, and replayed on the modelled stack.
//!
//! docs/trace-formats.md describes the formats and names their sources.

mod alibaba;
mod blkparse;
mod disk;
mod error;
mod fields;
mod format;
mod iolog;
mod lines;
mod msr;
mod reader;
mod record;

use disk::Disk;

pub use blkparse::{BlkAction, ParseBlkActionError};
pub use error::{Place, TraceError};
pub use format::{ParseTraceFormatError, TraceFormat};
pub use iolog::IologVersion;
pub use reader::{ReadOptions, TraceReader};
pub use record::{Record, TraceOp};
