//! What the programs share: sets of files, flows of operations on them, threads, statistics.
//!
//! A program states a [`ProgramPlan`]: the sets of files that are prepared ([`fileset`]), and what its threads do ([`Role`]). [`prepare`]
//! makes the files, [`run()`] lets the threads work and measures them. Most threads follow a [`Flow`]; those of a program that
//! needs more bring a [`Work`] of their own.
//!
//! What a thread does follows from the seed and its number alone, not from what the others have done by then: it has its own
//! share of each set, every n-th file, and its own random numbers.

pub mod fileset;

mod error;
mod flow;
mod operation;
mod plan;
mod prepare;
mod report;
mod run;
mod semaphore;
mod statistics;
mod worker;

pub use error::AppError;
pub use flow::{Flow, Step};
pub use operation::Operation;
pub use plan::{ProgramPlan, Role, Work};
pub use prepare::{Prepared, check_prepared, prepare, settle};
pub use report::{OperationReport, Report};
pub use run::{Limits, run};
pub use semaphore::Semaphore;
pub use statistics::Statistics;
pub use worker::{Halt, Worker};
