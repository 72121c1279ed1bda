//! Static 1:1 mapping: zone n is physical zone n.
//!
//! No look-up and no choice: a zone that is reset often wears its own flash, and a
//! zone whose flash is not erased yet makes its writer wait. Modelled on ConfZNS and
//! on ConfZNS++ with `zns_vtable_mode=0`.

use super::{Mapping, Physical};

pub(super) struct Static;

impl Mapping for Static {
    fn initial(&self, zone: u32) -> u32 {
        zone
    }

    fn take(&mut self) -> u32 {
        unreachable!("a zone keeps its flash");
    }

    fn release(&mut self, id: u32, _: &Physical) -> u32 {
        id
    }

    fn changed(&mut self, _: u32, _: &Physical, _: &Physical) {}
}
