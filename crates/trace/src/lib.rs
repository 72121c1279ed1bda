//! One trace for every layer: what was busy, with which request, from when to when.
//!
//! A layer holds a [`Recorder`] (a cheap handle; off by default) and records
//! [`Span`]s on the run's clock. Sinks turn the spans into files people open:
//! [`write_table`] for scripts (and [`read_table`] to have them back), [`write_perfetto`] for eyes. [`follow`] tells
//! what one request went through, [`TypicalRequests`] which one is worth telling.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod follow;
mod lanes;
mod perfetto;
mod protobuf;
mod read_table;
mod recorder;
mod span;
mod table;
mod typical;

pub use follow::{Hop, Path, follow, median_request};
pub use perfetto::write_perfetto;
pub use read_table::{ReadTableError, read_table};
pub use recorder::Recorder;
pub use span::{Layer, RequestId, Span, Step, Track};
pub use table::write_table;
pub use typical::TypicalRequests;
