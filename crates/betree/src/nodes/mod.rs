//! Runs of blocks, and nodes of runs: values, wherever their blocks are.

pub(crate) mod node;
pub(crate) mod run;
