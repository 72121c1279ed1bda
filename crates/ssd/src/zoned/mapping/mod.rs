//! Which physical zone a zone gets: one file a design.

mod on_demand;
mod static_mapping;

use super::config::{MappingDesign, ZonedLayout};

/// The flash of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Physical {
    /// Times it was erased, as the sum over its rows of blocks.
    pub erased_rows: u32,
    /// Rows that must be erased before it is written.
    pub dirty_rows: u32,
}

/// "No physical zone".
pub(super) const UNMAPPED: u32 = u32::MAX;

/// A design.
pub(super) trait Mapping: Send {
    /// The physical zone that a zone has before its first write.
    fn initial(&self, zone: u32) -> u32;
    /// Takes a physical zone for a zone that has none.
    fn take(&mut self) -> u32;
    /// What a zone has after its reset: itself again, or nothing, `id` then being
    /// free in the state `physical`.
    fn release(&mut self, id: u32, physical: &Physical) -> u32;
    /// A free physical zone is in another state now; one in use is left alone.
    fn changed(&mut self, id: u32, before: &Physical, after: &Physical);
}

/// The design that the configuration names.
pub(super) fn policy(design: MappingDesign, layout: &ZonedLayout) -> Box<dyn Mapping> {
    match design {
        MappingDesign::Static => Box::new(static_mapping::Static),
        MappingDesign::OnDemand => Box::new(on_demand::OnDemand::new(layout.physical_zones)),
    }
}
