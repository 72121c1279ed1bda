//! A zoned SSD: zones, their flash, and what managing them costs.
//!
//! `zones/` is the state machine of ZNS, without time. `device/` executes commands
//! against it: `firmware` processes them, a write goes to the `buffer` or straight to
//! `flash`, which books channels and arrays; `stripe` says where a zone lies, and
//! `mapping/` which flash it has. What a reset and a finish do to the flash are
//! designs: `reset/` and `finish/` hold one file each, which returns a plan.

mod buffer;
pub mod config;
mod device;
mod finish;
mod firmware;
mod flash;
mod mapping;
#[cfg(test)]
mod mutant;
#[cfg(test)]
mod naive;
mod reset;
mod sharing;
mod stripe;
#[cfg(test)]
mod verify;
pub(crate) mod zones;

pub use config::{ZonedConfig, ZonedError};
pub use device::Zoned;
pub use zones::ControllerEvent;

/// What happens; the identifier beside it says to which item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// A command reaches the processors.
    Arrived,
    /// The processors may be done with a command.
    Processed,
    /// A read's array operation ends: a part.
    ReadOut,
    /// A page of a unit is in the registers of its array.
    Loaded,
    /// An array's job may be over.
    ArrayEnd,
    /// A command completes.
    Complete,
    /// A zone's finish takes its next step.
    Pad,
    /// The reset under way takes its next step.
    Reset,
    /// Look whether the device has been idle long enough to erase.
    Idle,
}

impl crate::event::EventKind for Event {
    const KINDS: &'static [Self] = &[
        Self::Arrived,
        Self::Processed,
        Self::ReadOut,
        Self::Loaded,
        Self::ArrayEnd,
        Self::Complete,
        Self::Pad,
        Self::Reset,
        Self::Idle,
    ];
    fn code(self) -> u8 {
        self as u8
    }
}
