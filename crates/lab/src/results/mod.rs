//! What runs leave behind: tables, files, and the store that makes a sweep resumable.

mod csv;
mod file;
mod fio_log;
mod log;
mod parquet;
mod record;
mod records;
mod store;
mod swept;
mod table;
mod tables;

pub(crate) use csv::field as csv_field;
pub(crate) use record::repeats_of;
pub use record::{CommandClass, DirectionResult, Interval, JobResult, Latency, RunResult, Series, StoryRecord};
pub use store::{ResultError, Store, write_whole};
pub use swept::Swept;
pub use table::{Cell, Column, Kind, Table};
pub use tables::{Optional, Tables};
