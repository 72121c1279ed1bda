//! The device's initial contents, computed.
//!
//! Nothing is stored per unit: where a unit lies that was never touched follows
//! from a formula, forwards and backwards. A unit gets a map entry when it is
//! first written or moved.

mod layout;
mod overwritten;
mod permutation;
mod steady;

pub(crate) use layout::InitialLayout;
