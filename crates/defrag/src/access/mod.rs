//! Which ranges of which files are read and written.
//!
//! A [`Trace`] comes from the running kernel ([`Recording`], by one of the
//! [`SourceKind`]s), from the output of `strace` ([`strace::parse`]), from an fio
//! iolog ([`iolog::parse`]), or from a file ([`Trace::load`]). However it came, it
//! is a list of distinct accesses with counts, in the order of their first
//! appearance, and the files that they are to.
//!
//! What the kernel's page cache was asked for (`BufferedRead`, `Mapped`) and what
//! its readahead then sent to the device for it (`Readahead`) are both in a trace
//! of the kernel. A file that was cached already has only the former.

mod bpf;
mod error;
mod events;
mod fanotify;
mod filter;
mod fold;
pub mod iolog;
mod merge;
mod model;
mod parsed;
mod recorder;
mod recording;
mod resolve;
mod source;
mod store;
pub mod strace;
mod subvolumes;
mod sys;
mod tracefs;

pub use error::TraceError;
pub use filter::Filters;
pub use model::Trace;
pub use parsed::Parsed;
pub use recording::{Progress, Recording};
pub use resolve::{Located, locate};
pub use source::SourceKind;
