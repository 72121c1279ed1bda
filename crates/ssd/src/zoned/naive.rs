//! A zoned namespace written down naively: what the specification says, one
//! sentence after the other, with everything counted anew each time. It shares
//! no code with the device; contents are stamps, one a block.

use nvme::{
    Command, Lba, Status, ZoneDescriptor, ZoneReceiveAction, ZoneReportFilter, ZoneReportHeader, ZoneSendAction,
    ZoneState,
};
use zerocopy::FromBytes;

use super::zones::ControllerEvent;

/// The stamp of a block that was never written or is deallocated.
pub const UNWRITTEN: u64 = 0;

/// The shape of the namespace.
#[derive(Clone, Debug)]
pub struct Shape {
    pub zones: u64,
    pub zone_blocks: u64,
    pub capacity: u64,
    pub max_open: Option<u32>,
    pub max_active: Option<u32>,
    pub append_limit_blocks: u64,
    /// MDTS.
    pub transfer_limit_blocks: u64,
    pub reads_across: bool,
    pub extension_bytes: usize,
    /// Size, granularity, count.
    pub zrwa: Option<(u64, u64, u32)>,
}

impl Shape {
    pub fn blocks(&self) -> u64 {
        self.zones * self.zone_blocks
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ModelZone {
    pub state: ZoneState,
    /// Next block to write; meaningless in Full, ReadOnly, Offline.
    pub pointer: u64,
    /// One past the last block written.
    pub high: u64,
    /// When it was last opened implicitly.
    pub opened_at: u64,
    pub has_zrwa: bool,
    pub extension: Option<Vec<u8>>,
    pub finished_by_controller: bool,
    pub finish_recommended: bool,
    pub reset_recommended: bool,
    /// A stamp for every block, capacity or not.
    pub stamps: Vec<u64>,
}

/// A command's good outcome.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Done,
    /// First block written.
    Appended(u64),
    /// A stamp for each block.
    Read(Vec<u64>),
    /// The bytes.
    Report(Vec<u8>),
}

#[derive(Clone, Debug)]
pub struct Model {
    pub shape: Shape,
    pub zones: Vec<ModelZone>,
    tick: u64,
}

const OPEN: [ZoneState; 2] = [ZoneState::ImplicitlyOpened, ZoneState::ExplicitlyOpened];
const ACTIVE: [ZoneState; 3] = [ZoneState::ImplicitlyOpened, ZoneState::ExplicitlyOpened, ZoneState::Closed];

impl Model {
    pub fn new(shape: Shape) -> Self {
        let zone = ModelZone {
            state: ZoneState::Empty,
            pointer: 0,
            high: 0,
            opened_at: 0,
            has_zrwa: false,
            extension: None,
            finished_by_controller: false,
            finish_recommended: false,
            reset_recommended: false,
            stamps: vec![UNWRITTEN; shape.zone_blocks as usize],
        };
        Self { zones: vec![zone; shape.zones as usize], shape, tick: 1 }
    }

    pub fn count(&self, states: &[ZoneState]) -> u32 {
        self.zones.iter().filter(|zone| states.contains(&zone.state)).count() as u32
    }

    pub fn open(&self) -> u32 {
        self.count(&OPEN)
    }

    pub fn active(&self) -> u32 {
        self.count(&ACTIVE)
    }

    /// Executes a command; `stamp` is what each written block then holds, `data`
    /// a Zone Descriptor Extension.
    pub fn execute(&mut self, command: &Command, stamp: u64, data: Option<&[u8]>) -> Result<Reply, Status> {
        self.tick += 1;
        let transfer = match *command {
            Command::Write { range, .. } => range.count,
            Command::ZoneAppend { blocks, .. } => blocks,
            _ => 0,
        };
        if u64::from(transfer) > self.shape.transfer_limit_blocks {
            return Err(Status::INVALID_FIELD);
        }
        match *command {
            Command::Flush { .. } => Ok(Reply::Done),
            Command::Read { .. } | Command::ZoneManagementReceive { .. } => self.look(command),
            Command::Write { range, .. } => self.write(range.start.0, range.count.into(), stamp).map(|()| Reply::Done),
            Command::WriteZeroes { range, .. } => {
                self.write(range.start.0, range.count.into(), UNWRITTEN).map(|()| Reply::Done)
            }
            Command::Deallocate { .. } => panic!("not modelled"),
            Command::ZoneAppend { zone, blocks, .. } => self.append(zone.0, blocks.into(), stamp).map(Reply::Appended),
            Command::ZoneManagementSend { start, action, all, zrwa, .. } => {
                self.send(start.0, action, all, zrwa, data).map(|()| Reply::Done)
            }
        }
    }

    /// What a read or report returns now.
    pub fn look(&self, command: &Command) -> Result<Reply, Status> {
        match *command {
            Command::Read { range, .. } if u64::from(range.count) > self.shape.transfer_limit_blocks => {
                Err(Status::INVALID_FIELD)
            }
            Command::Read { range, .. } => self.read(range.start.0, range.count.into()).map(Reply::Read),
            Command::ZoneManagementReceive { start, action, filter, partial, bytes, .. } => {
                self.report(start.0, action, filter, partial, bytes as usize).map(Reply::Report)
            }
            _ => panic!("{command:?} is more than a look"),
        }
    }

    fn read(&self, start: u64, count: u64) -> Result<Vec<u64>, Status> {
        let Some(end) = start.checked_add(count).filter(|end| *end <= self.shape.blocks()) else {
            return Err(Status::LBA_OUT_OF_RANGE);
        };
        if start >= self.shape.blocks() {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        if count == 0 {
            return Err(Status::INVALID_FIELD);
        }
        let size = self.shape.zone_blocks;
        if start / size != (end - 1) / size && !self.shape.reads_across {
            return Err(Status::ZONE_BOUNDARY_ERROR);
        }
        let zone_of = |block: u64| &self.zones[(block / size) as usize];
        if (start..end).any(|block| zone_of(block).state == ZoneState::Offline) {
            return Err(Status::ZONE_IS_OFFLINE);
        }
        Ok((start..end).map(|block| zone_of(block).stamps[(block % size) as usize]).collect())
    }

    fn writable(&self, zone: usize) -> Result<(), Status> {
        match self.zones[zone].state {
            ZoneState::Full => Err(Status::ZONE_IS_FULL),
            ZoneState::ReadOnly => Err(Status::ZONE_IS_READ_ONLY),
            ZoneState::Offline => Err(Status::ZONE_IS_OFFLINE),
            _ => Ok(()),
        }
    }

    fn write(&mut self, start: u64, count: u64, stamp: u64) -> Result<(), Status> {
        if start.checked_add(count).is_none_or(|end| end > self.shape.blocks()) || start >= self.shape.blocks() {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        if count == 0 {
            return Err(Status::INVALID_FIELD);
        }
        let index = (start / self.shape.zone_blocks) as usize;
        let first = start % self.shape.zone_blocks;
        let end = first + count;
        self.writable(index)?;
        let pointer = self.zones[index].pointer;
        match self.shape.zrwa.filter(|_| self.zones[index].has_zrwa) {
            Some((size, ..)) if first < pointer || end > pointer + size + size => {
                return Err(Status::ZONE_INVALID_WRITE);
            }
            None if first != pointer => return Err(Status::ZONE_INVALID_WRITE),
            _ => {}
        }
        if end > self.shape.capacity {
            return Err(Status::ZONE_BOUNDARY_ERROR);
        }
        self.open_for_writing(index)?;
        self.put(index, first, end, stamp);
        Ok(())
    }

    fn append(&mut self, start: u64, count: u64, stamp: u64) -> Result<u64, Status> {
        if start >= self.shape.blocks() {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        if !start.is_multiple_of(self.shape.zone_blocks) || count == 0 || count > self.shape.append_limit_blocks {
            return Err(Status::INVALID_FIELD);
        }
        let index = (start / self.shape.zone_blocks) as usize;
        if self.zones[index].has_zrwa {
            return Err(Status::INVALID_ZONE_OPERATION_REQUEST);
        }
        self.writable(index)?;
        let first = self.zones[index].pointer;
        if first + count > self.shape.capacity {
            return Err(Status::ZONE_BOUNDARY_ERROR);
        }
        self.open_for_writing(index)?;
        self.put(index, first, first + count, stamp);
        Ok(start + first)
    }

    fn put(&mut self, index: usize, first: u64, end: u64, stamp: u64) {
        let zone = &mut self.zones[index];
        for block in first..end {
            zone.stamps[block as usize] = stamp;
        }
        zone.high = zone.high.max(end);
        match self.shape.zrwa.filter(|_| zone.has_zrwa) {
            // Move the window by whole commits until it holds the last block.
            Some((size, granularity, _)) => {
                while end > zone.pointer + size {
                    zone.pointer += granularity;
                }
            }
            None => zone.pointer = end,
        }
        self.fill_up(index);
    }

    fn fill_up(&mut self, index: usize) {
        let zone = &mut self.zones[index];
        assert!(zone.pointer <= self.shape.capacity);
        zone.high = zone.high.max(zone.pointer);
        if zone.pointer == self.shape.capacity {
            zone.state = ZoneState::Full;
            zone.has_zrwa = false;
        }
    }

    fn open_for_writing(&mut self, index: usize) -> Result<(), Status> {
        if OPEN.contains(&self.zones[index].state) {
            return Ok(());
        }
        self.check_active(index)?;
        self.make_room(index)?;
        self.zones[index].state = ZoneState::ImplicitlyOpened;
        self.zones[index].opened_at = self.tick;
        Ok(())
    }

    fn check_active(&self, index: usize) -> Result<(), Status> {
        let needs = !ACTIVE.contains(&self.zones[index].state);
        if needs && self.shape.max_active.is_some_and(|limit| self.active() == limit) {
            return Err(Status::TOO_MANY_ACTIVE_ZONES);
        }
        Ok(())
    }

    /// Sees to it that one more zone may be open.
    fn make_room(&mut self, index: usize) -> Result<(), Status> {
        if OPEN.contains(&self.zones[index].state) || self.shape.max_open.is_none_or(|limit| self.open() < limit) {
            return Ok(());
        }
        self.close_oldest().ok_or(Status::TOO_MANY_OPEN_ZONES)
    }

    fn close_oldest(&mut self) -> Option<()> {
        let implicit = self.zones.iter_mut().filter(|zone| zone.state == ZoneState::ImplicitlyOpened);
        implicit.min_by_key(|zone| zone.opened_at)?.state = ZoneState::Closed;
        Some(())
    }

    fn send(
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

    fn finish(&mut self, index: usize) {
        let zone = &mut self.zones[index];
        zone.state = ZoneState::Full;
        zone.has_zrwa = false;
    }

    fn clear_attributes(&mut self, index: usize) {
        let zone = &mut self.zones[index];
        zone.has_zrwa = false;
        zone.extension = None;
        zone.finished_by_controller = false;
        zone.finish_recommended = false;
        zone.reset_recommended = false;
    }

    fn reset(&mut self, index: usize) {
        self.clear_attributes(index);
        let zone = &mut self.zones[index];
        zone.state = ZoneState::Empty;
        zone.pointer = 0;
        zone.high = 0;
        zone.stamps.fill(UNWRITTEN);
    }

    /// Something happens to a zone without a command; whether it can.
    pub fn event(&mut self, index: usize, event: ControllerEvent) -> bool {
        let state = self.zones[index].state;
        let active = ACTIVE.contains(&state);
        let can = match event {
            ControllerEvent::ReadOnly => state != ZoneState::ReadOnly && state != ZoneState::Offline,
            ControllerEvent::Offline => state != ZoneState::Offline,
            ControllerEvent::Finished | ControllerEvent::FinishRecommended => active,
            ControllerEvent::ResetRecommended => state == ZoneState::Full,
        };
        if !can {
            return false;
        }
        let zone = &mut self.zones[index];
        match event {
            ControllerEvent::ReadOnly => {
                zone.state = ZoneState::ReadOnly;
                zone.has_zrwa = false;
            }
            ControllerEvent::Offline => {
                zone.state = ZoneState::Offline;
                self.clear_attributes(index);
            }
            ControllerEvent::Finished => {
                self.finish(index);
                self.zones[index].finished_by_controller = true;
                self.zones[index].finish_recommended = false;
            }
            ControllerEvent::FinishRecommended => zone.finish_recommended = true,
            ControllerEvent::ResetRecommended => zone.reset_recommended = true,
        }
        true
    }

    /// The power goes, and what was acknowledged is still there.
    pub fn power_loss(&mut self) {
        for index in 0..self.zones.len() {
            self.settle(index);
        }
    }

    /// After a power loss: closed if it holds anything, else empty.
    pub fn settle(&mut self, index: usize) {
        let zone = &mut self.zones[index];
        if ACTIVE.contains(&zone.state) {
            zone.state = ZoneState::Closed;
            if zone.high == 0 && zone.extension.is_none() {
                self.reset(index);
            }
        }
    }

    fn report(
        &self,
        start: u64,
        action: ZoneReceiveAction,
        filter: ZoneReportFilter,
        partial: bool,
        bytes: usize,
    ) -> Result<Vec<u8>, Status> {
        if start >= self.shape.blocks() {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        let extended = action == ZoneReceiveAction::ExtendedReport;
        if extended && self.shape.extension_bytes == 0 {
            return Err(Status::INVALID_FIELD);
        }
        use ZoneState as S;
        let mut listed = Vec::new();
        for index in (start / self.shape.zone_blocks) as usize..self.zones.len() {
            let zone = &self.zones[index];
            let wanted = match filter {
                ZoneReportFilter::All => true,
                ZoneReportFilter::Empty => zone.state == S::Empty,
                ZoneReportFilter::ImplicitlyOpened => zone.state == S::ImplicitlyOpened,
                ZoneReportFilter::ExplicitlyOpened => zone.state == S::ExplicitlyOpened,
                ZoneReportFilter::Closed => zone.state == S::Closed,
                ZoneReportFilter::Full => zone.state == S::Full,
                ZoneReportFilter::ReadOnly => zone.state == S::ReadOnly,
                ZoneReportFilter::Offline => zone.state == S::Offline,
                ZoneReportFilter::AttributeSet => {
                    zone.finished_by_controller || zone.finish_recommended || zone.reset_recommended
                }
            };
            if wanted {
                listed.push(self.describe(index, extended));
            }
        }
        let each = 64 + if extended { self.shape.extension_bytes } else { 0 };
        let fit = listed.len().min(bytes.saturating_sub(64) / each);
        let number = if partial { fit } else { listed.len() } as u64;
        let mut report = [&number.to_le_bytes()[..], &[0; 56]].concat();
        report.extend(listed[..fit].concat());
        report.truncate(bytes);
        Ok(report)
    }

    /// A zone descriptor by the byte numbers of ZNS figure 37.
    fn describe(&self, index: usize, extended: bool) -> Vec<u8> {
        let zone = &self.zones[index];
        let start = index as u64 * self.shape.zone_blocks;
        let mut bytes = vec![0; 64];
        bytes[0] = 2;
        bytes[1] = match zone.state {
            ZoneState::Empty => 0x10,
            ZoneState::ImplicitlyOpened => 0x20,
            ZoneState::ExplicitlyOpened => 0x30,
            ZoneState::Closed => 0x40,
            ZoneState::ReadOnly => 0xd0,
            ZoneState::Full => 0xe0,
            ZoneState::Offline => 0xf0,
        };
        let flags = [
            (zone.finished_by_controller, 0x01),
            (zone.finish_recommended, 0x02),
            (zone.reset_recommended, 0x04),
            (zone.has_zrwa, 0x08),
            (zone.extension.is_some(), 0x80),
        ];
        bytes[2] = flags.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum();
        bytes[8..16].copy_from_slice(&self.shape.capacity.to_le_bytes());
        bytes[16..24].copy_from_slice(&start.to_le_bytes());
        let pointer = match zone.state {
            ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => u64::MAX,
            _ => start + zone.pointer,
        };
        bytes[24..32].copy_from_slice(&pointer.to_le_bytes());
        if extended {
            bytes.extend(zone.extension.clone().unwrap_or(vec![0; self.shape.extension_bytes]));
        }
        bytes
    }
}

/// The descriptors of a plain report.
pub fn descriptors(report: &[u8]) -> Vec<ZoneDescriptor> {
    let body = &report[ZoneReportHeader::BYTES..];
    body.chunks_exact(ZoneDescriptor::BYTES)
        .map(|bytes| ZoneDescriptor::read_from_bytes(bytes).expect("64 bytes"))
        .collect()
}

/// A Zone Management Send, short.
pub fn send(nsid: nvme::NamespaceId, start: u64, action: ZoneSendAction) -> Command {
    Command::ZoneManagementSend { nsid, start: Lba(start), action, all: false, zrwa: false }
}
