//! The modelled host held against a real kernel: `plumb validate host`.
//!
//! Each [`Case`] is a fio job that runs twice on the same device: under the
//! model, and under Linux in virtual time. What the device was asked for both
//! times ([`ssd::command_log`]) is compared command by command ([`compare`]):
//! opcode, blocks, flags, what waited for what, and the time in the device. A
//! difference that is in the list of known ones, with its cause, is told; any
//! other fails the validation.

mod case;
mod compare;
mod known;
mod replay;
mod run;
mod step;

pub use case::{Case, Comparing, cases};
pub use compare::{ClassLatency, Comparison, Difference, DifferenceKind, compare};
pub use known::{KnownDifference, known_differences};
pub use replay::{Mismatch, replay};
pub use run::{CaseOutcome, Options, TruthError, validate};
pub use step::Step;
