//! Experiment specs, sweeps, results and reports.
