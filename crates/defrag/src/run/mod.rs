//! Carries a plan out.
//!
//! Files are moved in the order of the plan, each by [`FileMover`](crate::migrate::FileMover) with one donor; each
//! range is looked at anew before it is moved, so that a plan that has aged does no harm. A [`Journal`] keeps what is
//! done, so that a run that was killed goes on where it was. [`Limits`] hold it back.

mod carry_out;
mod io_class;
mod journal;
mod limits;
mod pressure;
mod report;

pub use carry_out::{Event, RunError, RunOptions, carry_out};
pub use io_class::IoClassError;
pub use journal::{Journal, JournalError};
pub use limits::{Cancel, Limits};
pub use pressure::io_pressure_percent;
pub use report::{FileOutcome, FileReport, Report};
