//! Experiments: specs, sweeps, results, comparisons with published values, reports.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod adhoc;
pub mod calibrate;
pub mod commands;
pub mod device;
mod error;
mod experiment;
mod fill;
mod finished;
mod host;
pub mod interference;
pub mod metric;
pub mod outputs;
pub mod processor;
pub mod quantity;
mod remarks;
pub mod report;
pub mod results;
pub mod resume;
mod run;
pub mod spec;
pub mod summary;
pub mod truth;
pub mod validate;
mod value;
mod workload;

pub use error::{LabError, LinuxHostError, LiveHostError, ProgramError, StudyHostError};
pub use experiment::Experiment;
pub use host::Stand;
pub use run::{
    Batch, Inputs, Observer, PlannedRun, PoolOptions, PoolOutcome, Quiet, Shard, commands_of_run, execute, finished,
    plan,
};
pub use workload::Workload;
