//! Carries a plan out.
//!
//! Files are moved in the order of the plan, each by [`FileMover`](crate::migrate::FileMover) with one donor; each
//! range is looked at again before it is moved, so that a plan that has aged does no harm. A [`Journal`] keeps what is
//! done, so that a run that was killed goes on where it was. [`Limits`] hold it back.

mod attempts;
mod carry_out;
mod io_class;
mod journal;
mod limits;
mod origin;
mod pressure;
mod report;
mod suspend;

pub use attempts::{Attempt, Attempts, layout_of};
pub use carry_out::{Event, RunError, RunOptions, carry_out};
pub use io_class::IoClassError;
pub use journal::{Journal, JournalError, Start};
pub use limits::{Cancel, Limits};
pub use origin::{Origin, TraceOrigin, absolute};
pub use pressure::io_pressure_percent;
pub use report::{FileOutcome, FileReport, Report};
