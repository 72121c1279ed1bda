//! The Linux multi-queue block layer (blk-mq), in the model.
//!
//! Bios go in, NVMe commands come out: plugging, merging, splitting, software
//! and hardware queues with tags, I/O schedulers, and the flush state machine.

mod bio;

pub use bio::{Bio, BioFlags, BioOp, BioResult, Sector};
