//! The page-mapped flash translation layer.
//!
//! [`translation`] owns its state: where data is ([`map`]), what state blocks
//! are in ([`blocks`]), what a power cut would take back ([`journal`]), when a
//! programmed unit may be mapped ([`order`]), and which block to collect ([`gc`]); for tests of power cuts, also what flash itself
//! holds ([`flash_contents`]). What moves data (destaging, collection, journal pages) is in `controller`.

pub(crate) mod blocks;
mod delayed;
pub(crate) mod flash_contents;
mod gc;
pub(crate) mod journal;
pub(crate) mod map;
pub(crate) mod order;
mod table;
pub(crate) mod translation;
