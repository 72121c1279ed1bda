//! A zoned namespace written down naively: what the specification says, one
//! sentence after the other, with everything counted again each time. It shares
//! no code with the device; contents are stamps, one a block.

mod report;
mod send;

use nvme::{Command, Lba, Status, WriteCommand, ZoneSendAction, ZoneState};

use super::zones::ControllerEvent;

pub use report::descriptors;

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
            Command::Write(WriteCommand { range, .. }) => range.count,
            Command::ZoneAppend { blocks, .. } => blocks,
            _ => 0,
        };
        if u64::from(transfer) > self.shape.transfer_limit_blocks {
            return Err(Status::INVALID_FIELD);
        }
        match *command {
            Command::Flush { .. } => Ok(Reply::Done),
            Command::Read { .. } | Command::ZoneManagementReceive { .. } => self.look(command),
            Command::Write(WriteCommand { range, .. }) => {
                self.write(range.start.0, range.count.into(), stamp).map(|()| Reply::Done)
            }
            Command::WriteZeroes { range, .. } => {
                self.write(range.start.0, range.count.into(), UNWRITTEN).map(|()| Reply::Done)
            }
            Command::Deallocate { .. } | Command::StreamManagement { .. } => panic!("not modelled"),
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
}

/// A Zone Management Send, short.
pub fn send(nsid: nvme::NamespaceId, start: u64, action: ZoneSendAction) -> Command {
    Command::ZoneManagementSend { nsid, start: Lba(start), action, all: false, zrwa: false }
}
