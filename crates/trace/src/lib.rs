//! One trace for every layer: what was busy, with which request, from when to when.
//!
//! A layer holds a [`Recorder`] (a cheap handle; off by default) and records
//! [`Span`]s on the run's clock. Sinks turn the spans into files people open.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod follow;
mod recorder;
mod span;

pub use follow::{Hop, Path, follow};
pub use recorder::Recorder;
pub use span::{Layer, RequestId, Span, Step, Track};
