//! Storage devices as sans-IO values.
//!
//! A [`Device`] owns no thread, no clock and no randomness: the caller submits
//! commands, asks for the next event, and moves time. The virtual-time runner,
//! the NBD server and the crash checker drive the same value.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bucket_queue;
pub mod card;
mod check;
pub mod command_log;
pub mod config;
mod contents;
mod controller;
mod device;
pub mod disk;
mod event;
pub mod faults;
mod flash;
mod ftl;
mod link;
mod live;
mod null;
pub mod profile;
mod slab;
mod state;
mod wrapper;
pub mod zoned;

pub use card::{Card, CardConfig};
pub use config::{ConfigError, SsdConfig};
pub use contents::{Contents, FailureCount, MediaError, Store, StoreFailures};
pub use controller::Ssd;
pub use device::{
    Completion, Device, Identity, OrderingIdentity, Payload, PowerCut, Submission, VolatileWrite, ZoneStatus,
    ZonedIdentity, ZrwaIdentity,
};
pub use disk::{Disk, DiskConfig};
pub use live::{GarbageCollectionState, LiveState, WriteCacheState, ZoneSummary};
pub use null::NullDevice;
pub use wrapper::Wrapper;
pub use zoned::{ControllerEvent, Zoned, ZonedConfig};
