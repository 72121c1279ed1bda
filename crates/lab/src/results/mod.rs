//! What runs leave behind: tables, files, and the store that makes a sweep resumable.

mod csv;
mod parquet;
mod record;
mod store;
mod table;
mod tables;

pub use record::{CommandClass, DirectionResult, JobResult, Latency, RunResult, Series, StoryRecord};
pub use store::{ResultError, Store, write_whole};
pub use table::{Cell, Column, Kind, Table};
pub use tables::{counters, latency, runs};
