//! Experiments: specs, sweeps, results, comparisons with published values, reports.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod adhoc;
pub mod calibrate;
pub mod commands;
pub mod device;
mod fill;
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

pub use run::{
    Batch, LabError, LinuxHostError, LiveHostError, Observer, PlannedRun, PoolOptions, PoolOutcome, Quiet, Shard,
    StudyHostError, commands_of_run, execute, finished, plan,
};
