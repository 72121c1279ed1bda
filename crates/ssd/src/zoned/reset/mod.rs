//! What a reset does to the zone's flash: one file a design.
//!
//! A design looks at what the zone held and returns a plan; the device executes it.

mod background;
mod full;
mod lazy;
mod measured;
mod partial;

use units::Nanos;

use super::config::{Management, ResetDesign};

/// A zone that is reset, as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResetZone {
    /// Blocks that the host wrote.
    pub written_blocks: u64,
    /// Blocks programmed from the zone's start, padding included.
    pub programmed_blocks: u64,
    /// Its capacity.
    pub capacity_blocks: u64,
    /// Blocks of flash on each of its arrays.
    pub rows: u32,
    /// Whether a command finished it before its end.
    pub finished: bool,
}

impl ResetZone {
    /// Rows of flash blocks that hold anything.
    pub fn programmed_rows(&self) -> u32 {
        let rows = (self.programmed_blocks * u64::from(self.rows)).div_ceil(self.capacity_blocks);
        debug_assert!(rows <= self.rows.into());
        rows as u32
    }
}

/// What happens to the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResetPlan {
    /// This many blocks of each array are erased, then the command completes.
    Erase {
        /// Blocks of each array.
        rows: u32,
    },
    /// The command completes; the next writer that gets the flash erases it first.
    Leave,
    /// The command completes; the flash is erased when the device is idle, or by
    /// a writer that needs it earlier.
    WhenIdle,
    /// The command takes this long, after those before it in the device.
    Timed {
        /// First, while programs go on.
        ungated: Nanos,
        /// Then, once the programs in flight have ended, while no other begins.
        gated: Nanos,
        /// Arrays that erase at a time during the latter.
        erasing_arrays: u32,
    },
}

/// A design.
pub(super) trait ResetPolicy: Send {
    /// What to do with a zone's flash.
    fn plan(&self, zone: &ResetZone) -> ResetPlan;
}

/// The design that the configuration names.
pub(super) fn policy(management: &Management) -> Box<dyn ResetPolicy> {
    match (management.reset, &management.reset_law) {
        (ResetDesign::Partial, _) => Box::new(partial::Partial),
        (ResetDesign::Lazy, _) => Box::new(lazy::Lazy),
        (ResetDesign::Background, _) => Box::new(background::Background),
        (ResetDesign::Measured, Some(law)) => Box::new(measured::Measured(law.clone())),
        // A measured reset without its law does not pass the check.
        (ResetDesign::Full | ResetDesign::Measured, _) => Box::new(full::Full),
    }
}
