//! The page-mapped flash translation layer.
//!
//! [`translation`] owns its state: where data is ([`map`]), what state blocks
//! are in ([`blocks`]), what a power cut would take back ([`journal`]), and which
//! block to collect ([`gc`]). What moves data (destaging, collection, journal
//! pages) is in `controller`.

pub(crate) mod blocks;
mod gc;
pub(crate) mod journal;
pub(crate) mod map;
mod table;
pub(crate) mod translation;
