//! Open and active resources (ZNS 2.1.1.4), and which zone makes room.
//!
//! Every change of a zone's state goes through [`Zones::set_state`], the one
//! place that counts. All of it is O(1).

use nvme::{Status, ZoneState};

use super::zone::NONE;
use super::{Zones, table};

/// The limits and what is in use.
#[derive(Clone, Debug)]
pub(super) struct Resources {
    /// MOR, `u32::MAX` for no limit.
    pub(super) max_open: u32,
    /// MAR, `u32::MAX` for no limit.
    pub(super) max_active: u32,
    pub(super) open: u32,
    pub(super) active: u32,
    /// Zones in the list below.
    pub(super) implicitly_opened: u32,
    /// The implicitly opened zones in the order in which they were opened.
    pub(super) oldest: u32,
    newest: u32,
    /// ZRWAs not in use.
    pub(super) free_zrwas: u32,
}

impl Resources {
    pub(super) fn new(max_open: Option<u32>, max_active: Option<u32>, zrwas: u32) -> Self {
        let max_active = max_active.unwrap_or(u32::MAX);
        Self {
            max_open: max_open.unwrap_or(u32::MAX).min(max_active),
            max_active,
            open: 0,
            active: 0,
            implicitly_opened: 0,
            oldest: NONE,
            newest: NONE,
            free_zrwas: zrwas,
        }
    }
}

impl Zones {
    /// Whether a zone in state `from` may go to `to` with the resources there
    /// are (2.1.1.4.1). The value is the implicitly opened zone that the
    /// controller has to close first, if any: the one opened longest ago.
    /// Explicitly opened zones are never closed to make room.
    ///
    /// # Errors
    ///
    /// Too Many Active Zones, Too Many Open Zones; active resources are looked
    /// at first, since with MAR equal to MOR only the former may be reported.
    pub(super) fn room_for(&self, from: ZoneState, to: ZoneState) -> Result<Option<u32>, Status> {
        let Resources { max_open, max_active, open, active, oldest, .. } = self.resources;
        if table::is_active(to) && !table::is_active(from) && active >= max_active {
            return Err(Status::TOO_MANY_ACTIVE_ZONES);
        }
        if table::is_open(to) && !table::is_open(from) && open >= max_open {
            return if oldest == NONE { Err(Status::TOO_MANY_OPEN_ZONES) } else { Ok(Some(oldest)) };
        }
        Ok(None)
    }

    /// Puts a zone into a state and counts its resources (2.1.1.4.1 a to g).
    pub(super) fn set_state(&mut self, index: u32, to: ZoneState) {
        let from = self.zones[index as usize].state;
        if from == to {
            return;
        }
        let resources = &mut self.resources;
        resources.open = resources.open - u32::from(table::is_open(from)) + u32::from(table::is_open(to));
        resources.active = resources.active - u32::from(table::is_active(from)) + u32::from(table::is_active(to));
        if from == ZoneState::ImplicitlyOpened {
            self.unlink(index);
        }
        if to == ZoneState::ImplicitlyOpened {
            self.link_newest(index);
        }
        self.zones[index as usize].state = to;
    }

    fn link_newest(&mut self, index: u32) {
        let previous = self.resources.newest;
        self.zones[index as usize].previous = previous;
        self.zones[index as usize].next = NONE;
        match self.zones.get_mut(previous as usize) {
            Some(zone) => zone.next = index,
            None => self.resources.oldest = index,
        }
        self.resources.newest = index;
        self.resources.implicitly_opened += 1;
    }

    fn unlink(&mut self, index: u32) {
        let (previous, next) = (self.zones[index as usize].previous, self.zones[index as usize].next);
        match self.zones.get_mut(previous as usize) {
            Some(zone) => zone.next = next,
            None => self.resources.oldest = next,
        }
        match self.zones.get_mut(next as usize) {
            Some(zone) => zone.previous = previous,
            None => self.resources.newest = previous,
        }
        self.resources.implicitly_opened -= 1;
    }

    /// What holds after every call.
    pub(super) fn debug_check(&self) {
        let Resources { max_open, max_active, open, active, implicitly_opened, .. } = self.resources;
        debug_assert!(open <= max_open && active <= max_active && open <= active && implicitly_opened <= open);
    }
}
