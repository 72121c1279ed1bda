//! What happens to zones without a command, and the log that tells the host.
//!
//! The model's flash does not fail by itself: whoever drives the device says when a
//! zone becomes read only or goes offline, or when the controller would rather have
//! it finished or reset.

use nvme::{ChangedZoneList, NamespaceId};

use super::Zoned;
use crate::zoned::zones::ControllerEvent;

impl Zoned {
    /// Something happens to zone `zone` of a namespace now. Returns whether it
    /// applies to the zone in its state (ZNS 2.1.1.2); if so the zone is on the
    /// namespace's Changed Zone List.
    pub fn zone_event(&mut self, nsid: NamespaceId, zone: u32, event: ControllerEvent) -> bool {
        let index = (nsid.0 as usize).wrapping_sub(1);
        let exists = self.config.namespaces.get(index).is_some_and(|zones| zone < *zones);
        exists && self.namespaces[index].controller_event(zone, event)
    }

    /// The Changed Zone List log page (BFh) of a namespace, if there is such; reading
    /// it empties it unless `retain` (Retain Asynchronous Event) is set.
    pub fn changed_zone_list(&mut self, nsid: NamespaceId, retain: bool) -> Option<ChangedZoneList> {
        let index = (nsid.0 as usize).wrapping_sub(1);
        self.namespaces.get_mut(index).map(|zones| zones.changed_zone_list(retain))
    }
}
