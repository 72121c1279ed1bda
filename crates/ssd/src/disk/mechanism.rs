//! The arm and the platter: where they are, and what a move costs.

use units::Nanos;

use super::config::{DiskConfig, DiskError};
use super::geometry::Geometry;
use super::seek::SeekCurve;

/// The arm's position over the turning platter.
#[derive(Debug)]
pub(super) struct Mechanism {
    geometry: Geometry,
    curve: SeekCurve,
    head_switch: Nanos,
    write_settle: Nanos,
    cylinder: u64,
    head: u64,
    block: u64,
}

/// What it takes until the first sector comes under the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Positioning {
    /// Arm movement or head switch.
    pub seek: Nanos,
    /// Rotational delay after it.
    pub rotation: Nanos,
}

impl Positioning {
    /// Both together.
    pub(super) fn total(self) -> Nanos {
        self.seek + self.rotation
    }
}

impl Mechanism {
    /// The arm at the outermost cylinder.
    pub(super) fn new(config: &DiskConfig) -> Result<Self, DiskError> {
        config.check()?;
        Ok(Self {
            geometry: Geometry::new(config),
            curve: SeekCurve::new(&config.seek)?,
            head_switch: config.seek.head_switch,
            write_settle: config.seek.write_settle,
            cylinder: 0,
            head: 0,
            block: 0,
        })
    }

    /// Where blocks lie.
    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The block after the last one transferred.
    pub(super) fn block(&self) -> u64 {
        self.block
    }

    /// The cost of getting to `block` from here, starting `now`.
    pub(super) fn positioning(&self, block: u64, write: bool, now: Nanos) -> Positioning {
        let place = self.geometry.locate(block);
        let seek = if place.cylinder != self.cylinder {
            let settle = if write { self.write_settle } else { Nanos::ZERO };
            self.curve.time(place.cylinder.abs_diff(self.cylinder), self.geometry.cylinders()) + settle
        } else if place.head != self.head {
            self.head_switch
        } else {
            Nanos::ZERO
        };
        Positioning { seek, rotation: self.geometry.rotation_wait(&place, now + seek) }
    }

    /// Leaves the arm where a transfer that ended before `block` left it.
    pub(super) fn move_to(&mut self, block: u64) {
        let place = self.geometry.locate(block.saturating_sub(1));
        (self.cylinder, self.head, self.block) = (place.cylinder, place.head, block);
    }
}
