//! The page-mapped flash translation layer's tables and policies.
//!
//! What moves data (destaging, collection, the map journal) is in
//! `controller`; here is where data is ([`map`]), what state blocks are in
//! ([`blocks`]) and which block to collect ([`gc`]).

pub(crate) mod blocks;
pub(crate) mod gc;
pub(crate) mod map;
mod table;
