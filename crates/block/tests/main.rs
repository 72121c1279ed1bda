//! Everything that holds of the block layer, in one program: each file is a module. A program of its own
//! for each would be linked a dozen times over.
#![allow(clippy::unwrap_used)]

mod depth;
#[path = "../../ssd/tests/common/digest.rs"]
mod digest;
mod digits;
mod golden;
mod model;
mod order;
mod queues;
mod support;
mod zone_model;
mod zones;
