//! Small programs that studies of storage run: workloads as their papers define them, on real files.
//!
//! [`ace`] is the enumeration of short workloads with which file systems are searched for faults of crash consistency.
//! [`races`] are tasks on common files by a seed, for the same search where tasks meet.
//! [`programs`] are workloads that are measured, one file each over one [`engine`] of file sets, flows, threads and statistics.
//! [`processor`] times what the processor's work around files costs.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod ace;
pub mod engine;
pub mod processor;
pub mod programs;
pub mod races;
