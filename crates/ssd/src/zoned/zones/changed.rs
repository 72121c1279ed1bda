//! What the controller itself does to zones, and the Changed Zone List that
//! tells the host (ZNS 4.1.4.1, figure 42).

use nvme::{ChangedZoneList, Lba, ZoneAttributes, ZoneState};

use super::{Zones, table};

/// A change that no command asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerEvent {
    /// The zone can only be read from now on.
    ReadOnly,
    /// The zone is lost.
    Offline,
    /// A Zone Active Excursion: the controller finishes the zone (5.6).
    Finished,
    /// Finish Zone Recommended (5.5).
    FinishRecommended,
    /// Reset Zone Recommended (5.4).
    ResetRecommended,
}

impl ControllerEvent {
    /// Every event.
    pub const ALL: &[Self] =
        &[Self::ReadOnly, Self::Offline, Self::Finished, Self::FinishRecommended, Self::ResetRecommended];
}

/// The zones of the log page: at most [`ChangedZoneList::ENTRIES`], ascending.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedZones {
    zones: Vec<u32>,
    overflown: bool,
}

impl ChangedZones {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn insert(&mut self, index: u32) {
        let Err(place) = self.zones.binary_search(&index) else { return };
        if self.zones.len() == ChangedZoneList::ENTRIES {
            self.overflown = true;
        } else {
            self.zones.insert(place, index);
        }
    }
}

impl Zones {
    /// Something happens to a zone without a command. Returns whether it applies
    /// to the zone in its state; if so the zone is on the Changed Zone List.
    pub(crate) fn controller_event(&mut self, index: u32, event: ControllerEvent) -> bool {
        let zone = &mut self.zones[index as usize];
        let state = zone.state;
        let applies = match event {
            ControllerEvent::ReadOnly => !matches!(state, ZoneState::ReadOnly | ZoneState::Offline),
            ControllerEvent::Offline => state != ZoneState::Offline,
            ControllerEvent::Finished | ControllerEvent::FinishRecommended => table::is_active(state),
            ControllerEvent::ResetRecommended => state == ZoneState::Full,
        };
        if !applies {
            return false;
        }
        match event {
            ControllerEvent::FinishRecommended => zone.attributes.insert(ZoneAttributes::FINISH_RECOMMENDED),
            ControllerEvent::ResetRecommended => zone.attributes.insert(ZoneAttributes::RESET_RECOMMENDED),
            ControllerEvent::Finished => {
                zone.attributes.remove(ZoneAttributes::FINISH_RECOMMENDED);
                zone.attributes.insert(ZoneAttributes::FINISHED_BY_CONTROLLER);
                zone.finished = true;
                zone.write_pointer_blocks = self.capacity_blocks;
                self.release_zrwa(index);
                self.set_state(index, ZoneState::Full);
            }
            ControllerEvent::ReadOnly => {
                self.release_zrwa(index);
                self.set_state(index, ZoneState::ReadOnly);
            }
            ControllerEvent::Offline => {
                self.release_zrwa(index);
                self.zones[index as usize].attributes = ZoneAttributes::empty();
                self.set_state(index, ZoneState::Offline);
            }
        }
        self.changed.insert(index);
        self.debug_check();
        true
    }

    /// Whether the Changed Zone List has entries.
    pub(crate) fn has_changed(&self) -> bool {
        self.changed.overflown || !self.changed.zones.is_empty()
    }

    /// The Changed Zone List log page; reading it without `retain` (the Retain
    /// Asynchronous Event bit) empties it.
    pub(crate) fn changed_zone_list(&mut self, retain: bool) -> ChangedZoneList {
        let list = if self.changed.overflown {
            ChangedZoneList::overflown()
        } else {
            let zone_blocks = self.zone_blocks;
            ChangedZoneList::of(self.changed.zones.iter().map(|&index| Lba(u64::from(index) * zone_blocks)))
        };
        if !retain {
            self.changed.clear();
        }
        list
    }
}
