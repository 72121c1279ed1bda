//! In proportion to what the commit takes, by a factor that rises as room gets less: gently until the room is used up,
//! steeply behind.

use super::PacingLoad;
use crate::mutant::{Mutant, mutated};

/// Work for each byte of messages at first.
const LEAST: f64 = 4.0;

/// Twice that at this part of the room, three times at twice the part, and so on: all in all 36 times the messages
/// until the room is used up. Random inserts make two thirds of that.
const STEP: f64 = 1.0 / 16.0;

/// Behind it, twice as much with each further part of this size.
const DOUBLING: f64 = 1.0 / 16.0;

pub(super) fn quota_bytes(load: &PacingLoad) -> Option<u64> {
    if mutated(Mutant::DebtUnbounded) {
        return Some(0);
    }
    if load.filled >= 2.0 {
        return None;
    }
    let rise = 1.0 + load.filled.min(1.0) / STEP;
    let steep = 2f64.powf((load.filled - 1.0).max(0.0) / DOUBLING);
    Some((load.taken * load.memtable_bytes as f64 * LEAST * rise * steep) as u64)
}
