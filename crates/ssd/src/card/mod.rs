//! A flash card (SD, MicroSD, eMMC without its cache).
//!
//! One command at a time, one flash stripe at a time, little memory: the card
//! maps the addresses of an allocation unit together and keeps only a few such
//! units open. Streams that fill stripes run at the flash's rate; scattered
//! small writes pay for reading, merging and reprogramming what they touch.

mod config;
mod device;
mod units;

pub use config::{CardBus, CardConfig, CardController, CardError, CardFlash, CardMapping};
pub use device::Card;
