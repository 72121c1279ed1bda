//! A rotating disk.
//!
//! The arm, the platter's angle and the zones are modelled; electronics are a
//! cost per command and a link rate. Everything a person knows of disks follows
//! from these: random reads pay seek and half a turn, sequential ones the media
//! rate of their zone, reordering shortens positioning, cached writes are fast
//! until the cache is full, and a flush takes as long as the cache is dirty.

mod config;
mod device;
mod dirty;
mod geometry;
mod mechanism;
mod read_cache;
mod schedule;
mod seek;

pub use config::{DiskCache, DiskConfig, DiskController, DiskError, DiskGeometry, DiskLink, DiskScheduler, DiskSeek};
pub use device::Disk;
