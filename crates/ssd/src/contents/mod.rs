//! The bytes behind a device, and which of them a power cut may take.
//!
//! A [`Store`] has two layers. *Durable* bytes are on the [`media`]: memory, an
//! image file, or nowhere (timing-only runs). *Volatile* writes were accepted
//! into the device's cache and not yet written to the media; each carries its
//! position in the order of acceptance. The device model decides when a write
//! moves from one layer to the other; the store keeps the two consistent
//! whatever order the model chooses.

mod extent_map;
mod failures;
mod media;
mod sparse;
mod store;

pub(crate) use extent_map::ExtentMap;
pub use failures::{FailureCount, StoreFailures};
pub use media::MediaError;
pub(crate) use store::WritePart;
pub use store::{Contents, Store};
