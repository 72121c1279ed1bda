//! Several tasks on few files, by a seed: workloads in which writeback, fsync and commits meet.
//!
//! All tasks have one file in common, of which each writes a part of its own: buffered, direct and through mappings, in pieces of one
//! block up to all of it, with writeback that is begun without waiting and syncs of the whole file. Each has files of its own as well,
//! which become longer and shorter, are preallocated, punched, collapsed and renamed, so that commits are under way when another task
//! syncs. Blocks are filled with task, step and number, so that none holds what another does.

mod run;
mod step;

pub use run::{RaceError, run};
pub use step::{Blocks, Change, File, Race, Step, steps};
