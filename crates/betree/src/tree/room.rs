//! How much changed trees may take in memory, where several are changed at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::mutant::{Mutant, mutated};

/// Bytes of changed nodes: those of trees as everybody sees them, and those of changes in flight.
#[derive(Default, Debug)]
pub(crate) struct FreshBytes {
    seen: AtomicI64,
    in_flight: AtomicI64,
}

impl FreshBytes {
    pub fn of(seen_bytes: i64) -> Arc<Self> {
        Arc::new(Self { seen: AtomicI64::new(seen_bytes), in_flight: AtomicI64::new(0) })
    }

    /// Of what everybody sees.
    pub fn seen(&self) -> i64 {
        self.seen.load(Ordering::Acquire)
    }

    /// With what is in flight, as far as it has been told.
    pub fn all(&self) -> i64 {
        self.seen() + self.in_flight.load(Ordering::Acquire)
    }

    pub fn add(&self, bytes: i64) {
        self.seen.fetch_add(bytes, Ordering::AcqRel);
    }

    pub fn set(&self, bytes: i64) {
        self.seen.store(bytes, Ordering::Release);
    }
}

/// What a change may add to them, together with all others.
#[derive(Debug)]
pub(crate) struct Room {
    fresh: Arc<FreshBytes>,
    /// How many there may be.
    most: i64,
    /// What this change has added.
    own: i64,
}

impl Room {
    /// So many bytes more than everybody sees now.
    pub fn of(fresh: &Arc<FreshBytes>, budget_bytes: i64) -> Self {
        Self { fresh: Arc::clone(fresh), most: budget_bytes.saturating_add(fresh.seen()), own: 0 }
    }

    pub fn none() -> Self {
        Self::of(&Arc::default(), 0)
    }

    /// Bytes that are left, when this change has added so many.
    pub fn left_bytes(&mut self, own: i64) -> i64 {
        if !mutated(Mutant::RoomOfEach) {
            self.fresh.in_flight.fetch_add(own - self.own, Ordering::AcqRel);
            self.own = own;
            return self.most - self.fresh.all();
        }
        self.most - self.fresh.seen() - own
    }
}

impl Drop for Room {
    /// What it added is seen by then, or was given up.
    fn drop(&mut self) {
        self.fresh.in_flight.fetch_sub(self.own, Ordering::AcqRel);
    }
}

/// Two changes together add no more than one may.
#[cfg(test)]
pub(crate) fn is_shared() -> Result<(), String> {
    let fresh = FreshBytes::of(100);
    let (mut one, mut other) = (Room::of(&fresh, 50), Room::of(&fresh, 50));
    let begun = (one.left_bytes(20), other.left_bytes(10), one.left_bytes(5), fresh.all());
    fresh.add(5);
    drop(one);
    let seen = (other.left_bytes(10), fresh.seen(), fresh.all());
    drop(other);
    let told = (begun, seen, fresh.all());
    if told == ((30, 20, 35, 115), (35, 105, 115), 105) { Ok(()) } else { Err(format!("{told:?}")) }
}

#[test]
fn changes_share_what_is_left() {
    is_shared().unwrap();
}
