//! Experiment specs, sweeps, results and reports.

pub mod report;
