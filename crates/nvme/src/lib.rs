//! The NVM Express vocabulary, in the specification's own terms.
//!
//! [`Command`] and [`Status`] are what Plumb's layers pass to each other; the
//! wire structures beside them are what travels over a network. Section numbers
//! refer to the NVM Express Base Specification 2.0 and the NVM Command Set
//! Specification 1.0.

mod command;
mod status;

pub use command::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId};
pub use status::Status;
