//! Zone Management Send.

use nvme::{Status, ZoneSendAction, ZoneState};

use super::{ACTIVE, Model, OPEN, UNWRITTEN};

impl Model {
    pub(super) fn send(
        &mut self,
        start: u64,
        action: ZoneSendAction,
        all: bool,
        zrwa: bool,
        data: Option<&[u8]>,
    ) -> Result<(), Status> {
        if all {
            return self.send_all(action, zrwa);
        }
        if action == ZoneSendAction::SetDescriptorExtension && self.shape.extension_bytes == 0 {
            return Err(Status::INVALID_FIELD);
        }
        if start >= self.shape.blocks() {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        let index = (start / self.shape.zone_blocks) as usize;
        if action == ZoneSendAction::FlushZrwa {
            return self.flush_zrwa(index, start % self.shape.zone_blocks);
        }
        if !start.is_multiple_of(self.shape.zone_blocks) {
            return Err(Status::INVALID_FIELD);
        }
        let state = self.zones[index].state;
        let bad = Err(Status::INVALID_ZONE_STATE_TRANSITION);
        use ZoneState as S;
        match (action, state) {
            (ZoneSendAction::Close, S::ImplicitlyOpened | S::ExplicitlyOpened) => self.zones[index].state = S::Closed,
            (ZoneSendAction::Close, S::Closed) => {}
            (ZoneSendAction::Close, _) => return bad,
            (ZoneSendAction::Finish, S::ReadOnly | S::Offline) => return bad,
            (ZoneSendAction::Finish, S::Full) => {}
            (ZoneSendAction::Finish, _) => self.finish(index),
            (ZoneSendAction::Open, S::Full | S::ReadOnly | S::Offline) => return bad,
            (ZoneSendAction::Open, _) => return self.open_by_command(index, zrwa),
            (ZoneSendAction::Reset, S::ReadOnly | S::Offline) => return bad,
            (ZoneSendAction::Reset, S::Empty) => {}
            (ZoneSendAction::Reset, _) => self.reset(index),
            (ZoneSendAction::Offline, S::ReadOnly) => {
                self.zones[index].state = S::Offline;
                self.clear_attributes(index);
            }
            (ZoneSendAction::Offline, S::Offline) => {}
            (ZoneSendAction::Offline, _) => return bad,
            (ZoneSendAction::SetDescriptorExtension, state) => {
                let bytes = self.shape.extension_bytes;
                let data = data.map_or(Some(vec![0; bytes]), |data| data.get(..bytes).map(<[u8]>::to_vec));
                let data = data.ok_or(Status::DATA_TRANSFER_ERROR)?;
                if state != S::Empty {
                    return bad;
                }
                self.check_active(index)?;
                self.zones[index].extension = Some(data);
                self.zones[index].state = S::Closed;
            }
            (ZoneSendAction::FlushZrwa, _) => unreachable!(),
        }
        Ok(())
    }

    fn open_by_command(&mut self, index: usize, zrwa: bool) -> Result<(), Status> {
        self.check_active(index)?;
        let before = self.zones.clone();
        self.make_room(index)?;
        if zrwa {
            let status = match self.shape.zrwa {
                None => Some(Status::INVALID_ZONE_OPERATION_REQUEST),
                Some(_) if self.zones[index].state != ZoneState::Empty => Some(Status::INVALID_ZONE_OPERATION_REQUEST),
                Some((.., count)) if self.zones.iter().filter(|zone| zone.has_zrwa).count() as u32 == count => {
                    Some(Status::ZRWA_RESOURCES_UNAVAILABLE)
                }
                Some(_) => None,
            };
            if let Some(status) = status {
                self.zones = before;
                return Err(status);
            }
            self.zones[index].has_zrwa = true;
        }
        self.zones[index].state = ZoneState::ExplicitlyOpened;
        Ok(())
    }

    fn send_all(&mut self, action: ZoneSendAction, zrwa: bool) -> Result<(), Status> {
        use ZoneState as S;
        let indices = |model: &Self, states: &[ZoneState]| -> Vec<usize> {
            (0..model.zones.len()).filter(|&index| states.contains(&model.zones[index].state)).collect()
        };
        match action {
            ZoneSendAction::Close => {
                for index in indices(self, &OPEN) {
                    self.zones[index].state = S::Closed;
                }
            }
            ZoneSendAction::Finish => {
                for index in indices(self, &ACTIVE) {
                    self.finish(index);
                }
            }
            ZoneSendAction::Open if zrwa => return Err(Status::INVALID_ZONE_OPERATION_REQUEST),
            ZoneSendAction::Open => {
                let closed = indices(self, &[S::Closed]);
                let wanted = closed.len() as u32 + self.count(&[S::ExplicitlyOpened]);
                if self.shape.max_open.is_some_and(|limit| wanted > limit) {
                    return Err(Status::TOO_MANY_OPEN_ZONES);
                }
                for index in closed {
                    self.zones[index].state = S::ExplicitlyOpened;
                }
                while self.shape.max_open.is_some_and(|limit| self.open() > limit) {
                    self.close_oldest().expect("an implicitly opened zone");
                }
            }
            ZoneSendAction::Reset => {
                for index in indices(self, &[S::ImplicitlyOpened, S::ExplicitlyOpened, S::Closed, S::Full]) {
                    self.reset(index);
                }
            }
            ZoneSendAction::Offline => {
                for index in indices(self, &[S::ReadOnly]) {
                    self.zones[index].state = S::Offline;
                    self.clear_attributes(index);
                }
            }
            ZoneSendAction::SetDescriptorExtension | ZoneSendAction::FlushZrwa => return Err(Status::INVALID_FIELD),
        }
        Ok(())
    }

    fn flush_zrwa(&mut self, index: usize, last: u64) -> Result<(), Status> {
        let zone = &self.zones[index];
        let Some((size, granularity, _)) = self.shape.zrwa.filter(|_| zone.has_zrwa) else {
            return Err(Status::INVALID_ZONE_OPERATION_REQUEST);
        };
        let end = last + 1;
        let reach = (zone.pointer + size).min(self.shape.capacity);
        let whole =
            end == self.shape.capacity || (zone.pointer..=end).step_by(granularity as usize).any(|at| at == end);
        if last < zone.pointer || end > reach || !whole {
            return Err(Status::INVALID_ZONE_OPERATION_REQUEST);
        }
        self.open_for_writing(index)?;
        self.zones[index].pointer = end;
        self.fill_up(index);
        Ok(())
    }

    pub(super) fn finish(&mut self, index: usize) {
        let zone = &mut self.zones[index];
        zone.state = ZoneState::Full;
        zone.has_zrwa = false;
    }

    pub(super) fn clear_attributes(&mut self, index: usize) {
        let zone = &mut self.zones[index];
        zone.has_zrwa = false;
        zone.extension = None;
        zone.finished_by_controller = false;
        zone.finish_recommended = false;
        zone.reset_recommended = false;
    }

    pub(super) fn reset(&mut self, index: usize) {
        self.clear_attributes(index);
        let zone = &mut self.zones[index];
        zone.state = ZoneState::Empty;
        zone.pointer = 0;
        zone.high = 0;
        zone.stamps.fill(UNWRITTEN);
    }
}
