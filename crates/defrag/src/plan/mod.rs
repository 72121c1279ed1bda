//! Which ranges to move, and what that would cost and save.
//!
//! Pure: extents and traced windows in, a [`Plan`] out. `run` carries it out.

mod assumed;
mod bypass;
mod dry_run;
mod file;
mod gain;
mod metadata;
mod mode;
mod planner;
mod room;
mod skip;
mod ties;
mod traced;
mod whole;
mod whole_extents;

pub use assumed::Assumed;
pub use dry_run::dry_run_text;
pub use file::{FileFacts, FilePlan, LeftAlone, Move, WholeCost};
pub use gain::{PlanOptions, plan_file};
pub use mode::{Mode, ParseModeError};
pub use planner::{MAX_MOVES, MAX_SKIPPED_FILES, Plan, Planner, Totals};
pub use room::{Reuse, Room};
pub use skip::{SkipReason, SkippedFile};
