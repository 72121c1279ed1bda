//! What happens to zones without a command, and the log that tells the host.
//!
//! The model's flash does not fail by itself: whoever drives the device says when a
//! zone becomes read only or goes offline, or when the controller would rather have
//! it finished or reset.

use nvme::{ChangedZoneList, NamespaceId};
use units::Nanos;

use super::Zoned;
use crate::slab::NONE;
use crate::zoned::zones::ControllerEvent;

impl Zoned {
    /// Something happens to zone `zone` of a namespace at `now`, which is no earlier
    /// than any time given before. Returns whether it applies to the zone in its state
    /// (ZNS 2.1.1.2); if so the zone is on the namespace's Changed Zone List. What the
    /// write buffer holds of a zone that takes no more writes goes to flash.
    pub fn zone_event(&mut self, now: Nanos, nsid: NamespaceId, zone: u32, event: ControllerEvent) -> bool {
        let index = (nsid.0 as usize).wrapping_sub(1);
        let exists = self.config.namespaces.get(index).is_some_and(|zones| zone < *zones);
        if !exists || !self.namespaces[index].controller_event(zone, event) {
            return false;
        }
        match event {
            ControllerEvent::ReadOnly | ControllerEvent::Offline | ControllerEvent::Finished => {
                let zone = self.zone_of(index, zone);
                self.close_off(now, zone);
            }
            ControllerEvent::FinishRecommended | ControllerEvent::ResetRecommended => {}
        }
        true
    }

    /// Sends what the buffer holds of a zone that takes no more writes to flash: once
    /// the writes it took before are in the buffer, and if no finish pads it anyway.
    pub(super) fn close_off(&mut self, now: Nanos, zone: u32) {
        let (namespace, index) = self.in_namespace(zone);
        let writable = self.namespaces[namespace].zone(index).valid_write_pointer().is_some();
        let flash = &self.zones[zone as usize];
        if !writable && flash.unit != NONE && flash.waiting.is_empty() && flash.finishing.is_none() {
            self.pad_open_unit(now, zone);
        }
    }

    /// The Changed Zone List log page (BFh) of a namespace, if there is such; reading
    /// it empties it unless `retain` (Retain Asynchronous Event) is set.
    pub fn changed_zone_list(&mut self, nsid: NamespaceId, retain: bool) -> Option<ChangedZoneList> {
        let index = (nsid.0 as usize).wrapping_sub(1);
        self.namespaces.get_mut(index).map(|zones| zones.changed_zone_list(retain))
    }
}
