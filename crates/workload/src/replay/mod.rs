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
mod iolog_writer;
mod lines;
mod msr;
mod pace;
mod placement;
mod reader;
mod record;
mod report;
mod run;

use disk::Disk;

pub use blkparse::{BlkAction, ParseBlkActionError};
pub use error::{TraceError, TraceLine};
pub use format::{ParseTraceFormatError, TraceFormat};
pub use iolog::IologVersion;
pub use iolog_writer::{IologWriteError, IologWriter};
pub use pace::{Pace, Speed, SpeedError};
pub use placement::{Align, Fit, Placement, PlacementError};
pub use reader::{ReadOptions, TraceReader};
pub use record::{Record, TraceOp};
pub use report::{Backlog, ReplayCounts, ReplayReport};
pub use run::{Replay, ReplayError, ReplayOptions};
