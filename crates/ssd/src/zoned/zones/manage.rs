//! Zone Management Send (ZNS 3.4.3).

use std::ops::Range;

use nvme::{Lba, Status, ZoneAttributes, ZoneSendAction, ZoneState};

use super::Zones;
use super::table::{Operation, Outcome, rule, selected_by_all};

/// What happened to a zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Changed {
    /// Explicitly opened.
    Opened,
    /// Closed, by command or to make room.
    Closed,
    /// Made full by Finish Zone.
    Finished,
    /// Emptied.
    Reset,
    /// Taken offline.
    Offlined,
    /// Given a Zone Descriptor Extension.
    ExtensionSet,
    /// Blocks of its ZRWA are now behind the write pointer.
    Committed(Range<u64>),
}

/// A zone that a command changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Change {
    /// The zone's index.
    pub(crate) zone: u32,
    /// What happened.
    pub(crate) what: Changed,
    /// [`super::Zone::written_blocks`] before.
    pub(crate) written_blocks: u64,
    /// Its state before.
    pub(crate) was: ZoneState,
}

impl Zones {
    /// Does a Zone Send Action. `data` is the extension to set (`None`: zeroes,
    /// where data are not kept). Appends what changed to `changes`, in order; a
    /// zone that already was as asked is no change. A zone with a ZRWA that is
    /// finished is first committed up to its last written block.
    ///
    /// # Errors
    ///
    /// The status the command ends with; nothing has changed then.
    pub(crate) fn manage(
        &mut self,
        start: Lba,
        action: ZoneSendAction,
        all: bool,
        zrwa: bool,
        data: Option<&[u8]>,
        changes: &mut Vec<Change>,
    ) -> Result<(), Status> {
        let result = match action {
            _ if all => self.manage_all(action, zrwa, changes),
            ZoneSendAction::FlushZrwa => self.flush_zrwa(start, changes),
            ZoneSendAction::SetDescriptorExtension => self.set_extension(start, data, changes),
            ZoneSendAction::Open if zrwa => self.open_with_zrwa(start, changes),
            _ => self.manage_one(start, action, changes),
        };
        self.debug_check();
        result
    }

    fn manage_one(&mut self, start: Lba, action: ZoneSendAction, changes: &mut Vec<Change>) -> Result<(), Status> {
        let index = self.starting_at(start)?;
        let from = self.zones[index as usize].state;
        match rule(from, action.into()) {
            Outcome::Refuse(status) => return Err(status),
            Outcome::Stay => {}
            Outcome::To(to) => {
                if let Some(victim) = self.room_for(from, to)? {
                    self.close_for_room(victim, changes);
                }
                self.change(index, to, changes);
            }
        }
        Ok(())
    }

    /// Select All: each zone in a state that the action takes in. Opening all
    /// closed zones needs room for every one, or none is opened.
    fn manage_all(&mut self, action: ZoneSendAction, zrwa: bool, changes: &mut Vec<Change>) -> Result<(), Status> {
        let states = selected_by_all(action).ok_or(Status::INVALID_FIELD)?;
        if action == ZoneSendAction::Open {
            if zrwa {
                return Err(Status::INVALID_ZONE_OPERATION_REQUEST);
            }
            let closed = self.resources.active - self.resources.open;
            let explicitly_opened = self.resources.open - self.resources.implicitly_opened;
            if explicitly_opened + closed > self.resources.max_open {
                return Err(Status::TOO_MANY_OPEN_ZONES);
            }
        }
        let before = changes.len();
        for index in 0..self.zones.len() as u32 {
            let from = self.zones[index as usize].state;
            if !states.contains(&from) {
                continue;
            }
            let Outcome::To(to) = rule(from, action.into()) else {
                debug_assert!(false, "{action:?} of all takes in {from:?}, which it does not change");
                continue;
            };
            self.change(index, to, changes);
        }
        // Zones closed to make room were not closed when the command came: they
        // are chosen after the others were opened, and reported before them.
        let opened = changes.len();
        while self.resources.open > self.resources.max_open {
            self.close_for_room(self.resources.oldest, changes);
        }
        let made_room = changes.len() - opened;
        changes[before..].rotate_right(made_room);
        Ok(())
    }

    fn open_with_zrwa(&mut self, start: Lba, changes: &mut Vec<Change>) -> Result<(), Status> {
        let index = self.starting_at(start)?;
        let from = self.zones[index as usize].state;
        if let Outcome::Refuse(status) = rule(from, Operation::Open) {
            return Err(status);
        }
        let victim = self.room_for(from, ZoneState::ExplicitlyOpened)?;
        self.check_zrwa_allocation(from)?;
        if let Some(victim) = victim {
            self.close_for_room(victim, changes);
        }
        self.allocate_zrwa(index);
        self.change(index, ZoneState::ExplicitlyOpened, changes);
        Ok(())
    }

    fn set_extension(&mut self, start: Lba, data: Option<&[u8]>, changes: &mut Vec<Change>) -> Result<(), Status> {
        let bytes = self.extension_bytes;
        if bytes == 0 {
            return Err(Status::INVALID_FIELD);
        }
        let index = self.starting_at(start)?;
        let data = match data {
            Some(data) => Some(data.get(..bytes).ok_or(Status::DATA_TRANSFER_ERROR)?),
            None => None,
        };
        let from = self.zones[index as usize].state;
        if let Outcome::Refuse(status) = rule(from, Operation::SetExtension) {
            return Err(status);
        }
        self.room_for(from, ZoneState::Closed)?;
        let extension = &mut self.extensions[bytes * index as usize..][..bytes];
        match data {
            Some(data) => extension.copy_from_slice(data),
            None => extension.fill(0),
        }
        self.zones[index as usize].attributes.insert(ZoneAttributes::EXTENSION_VALID);
        self.set_state(index, ZoneState::Closed);
        changes.push(Change { zone: index, what: Changed::ExtensionSet, written_blocks: 0, was: from });
        Ok(())
    }

    /// The controller closes an implicitly opened zone (2.1.1.4.1).
    pub(super) fn close_for_room(&mut self, victim: u32, changes: &mut Vec<Change>) {
        debug_assert_eq!(self.zones[victim as usize].state, ZoneState::ImplicitlyOpened);
        self.change(victim, ZoneState::Closed, changes);
    }

    /// Takes a zone to `to`, with all that goes with it, and tells.
    fn change(&mut self, index: u32, to: ZoneState, changes: &mut Vec<Change>) {
        #[cfg(test)]
        if self.finish_forgets && to == ZoneState::Full {
            return;
        }
        let zone = &self.zones[index as usize];
        let (was, written_blocks) = (zone.state, zone.written_blocks);
        let uncommitted = zone.write_pointer_blocks..written_blocks;
        let what = match to {
            ZoneState::ExplicitlyOpened => Changed::Opened,
            ZoneState::Closed => Changed::Closed,
            ZoneState::Full => {
                if zone.has_zrwa() && !uncommitted.is_empty() {
                    changes.push(Change { zone: index, what: Changed::Committed(uncommitted), written_blocks, was });
                }
                self.release_zrwa(index);
                let zone = &mut self.zones[index as usize];
                zone.finished = true;
                zone.write_pointer_blocks = self.capacity_blocks;
                Changed::Finished
            }
            ZoneState::Empty => {
                self.release_zrwa(index);
                let zone = &mut self.zones[index as usize];
                zone.attributes = ZoneAttributes::empty();
                zone.finished = false;
                zone.write_pointer_blocks = 0;
                zone.written_blocks = 0;
                zone.reset_count = zone.reset_count.saturating_add(1);
                Changed::Reset
            }
            ZoneState::Offline => {
                self.zones[index as usize].attributes = ZoneAttributes::empty();
                Changed::Offlined
            }
            ZoneState::ImplicitlyOpened | ZoneState::ReadOnly => {
                debug_assert!(false, "no action leads to {to:?}");
                return;
            }
        };
        self.set_state(index, to);
        changes.push(Change { zone: index, what, written_blocks, was });
    }
}
