//! What a finish does to the zone's flash: one file a design.
//!
//! A design looks at what the zone holds and returns a plan; the device executes
//! it. An empty zone has nothing to pad after, whatever the design.

mod blocking;
mod chunked;
mod measured;
mod metadata;

use units::Nanos;

use super::config::{FinishDesign, Management};

/// What happens to the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FinishPlan {
    /// The rest of the zone is programmed with padding, this many bytes at a time,
    /// each step when the one before has ended.
    Pad {
        /// Bytes of a step.
        step_bytes: u64,
    },
    /// What the buffer holds of the zone is programmed; nothing else.
    Note,
    /// After a time, padding takes units of the buffer in turn with writers.
    Share {
        /// The time before.
        base: Nanos,
    },
}

/// A design.
pub(super) trait FinishPolicy: Send {
    /// What to do with the flash of a zone that is not empty.
    fn plan(&self) -> FinishPlan;
}

/// The design that the configuration names.
pub(super) fn policy(management: &Management) -> Box<dyn FinishPolicy> {
    match management.finish {
        FinishDesign::Blocking => Box::new(blocking::Blocking),
        FinishDesign::Chunked => Box::new(chunked::Chunked { chunk_bytes: management.finish_chunk.0 }),
        FinishDesign::Metadata => Box::new(metadata::Metadata),
        FinishDesign::Measured => {
            let base = management.finish_law.as_ref().map_or(Nanos::ZERO, |law| law.base);
            Box::new(measured::Measured { base })
        }
    }
}
