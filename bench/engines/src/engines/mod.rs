//! The engines: one file each.

pub mod betree;
pub mod fjall;
pub mod redb;
pub mod rocksdb;
pub mod sqlite;
