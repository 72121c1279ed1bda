//! What the processors do with a command: they take it in, and, done with it, see to
//! it that what it asks for begins.

use nvme::{Command, NamespaceId, Status, WriteCommand};
use trace::{Step, Track};
use units::Nanos;

use super::Zoned;
use crate::zoned::config::CommandCost;

impl Zoned {
    /// A command has arrived: the processors take it in.
    pub(super) fn arrived(&mut self, now: Nanos, id: u32) {
        use nvme::ZoneSendAction as Action;
        if self.is_caught(id) {
            return;
        }
        let controller = &self.config.controller;
        let cmd = &self.commands[id];
        let blocks = match cmd.command {
            Command::Read { range, .. } | Command::Write(WriteCommand { range, .. }) => range.count,
            Command::ZoneAppend { blocks, .. } => blocks,
            _ => 0,
        };
        let cost = match cmd.command {
            Command::Read { .. } => &controller.read,
            Command::Write(_) | Command::WriteZeroes { .. } => &controller.write,
            Command::ZoneAppend { .. } => &controller.append,
            Command::Flush { .. } => &controller.flush,
            Command::ZoneManagementSend { action, .. } => match action {
                Action::Open => &controller.open,
                Action::Close => &controller.close,
                Action::Finish => &controller.finish,
                Action::Reset => &controller.reset,
                Action::Offline | Action::SetDescriptorExtension | Action::FlushZrwa => &controller.manage,
            },
            Command::ZoneManagementReceive { .. } => &controller.report,
            Command::Deallocate { .. } | Command::StreamManagement { .. } => &CommandCost::default(),
        };
        let bytes = u64::from(blocks) * self.layout.lba_bytes;
        let service = self.beside_padding(cost.service_of(bytes));
        let order = self.order(id);
        self.commands[id].since = now;
        self.firmware.enter(now, id, order, service, &mut self.events);
    }

    /// What commands have in common that the processors must keep in order: the zone
    /// that they write or manage; where processors are not shared, every command.
    pub(super) fn order(&self, id: u32) -> Option<u64> {
        if self.config.controller.sharing == 1 {
            return Some(u64::MAX);
        }
        let (nsid, at) = match self.commands[id].command {
            Command::Write(WriteCommand { nsid, range, .. }) | Command::WriteZeroes { nsid, range, .. } => {
                (nsid, range.start)
            }
            Command::ZoneAppend { nsid, zone, .. } => (nsid, zone),
            Command::ZoneManagementSend { nsid, start, .. } => (nsid, start),
            _ => return None,
        };
        Some(u64::from(nsid.0) << 32 | (at.0 / self.layout.zone_blocks) & 0xffff_ffff)
    }

    /// The processors may be done with commands.
    pub(super) fn processors_done(&mut self, now: Nanos) {
        while let Some(id) = self.firmware.done(now, &mut self.events) {
            let cmd = &self.commands[id];
            self.record(cmd.since, now, Track::Controller, Step::Process, cmd.request, 0);
            self.processed(now, id);
        }
    }

    fn processed(&mut self, now: Nanos, id: u32) {
        let nsid = self.commands[id].command.nsid();
        let index = (nsid.0 as usize).wrapping_sub(1);
        if index >= self.namespaces.len() && !(nsid == NamespaceId::ALL && self.is_flush(id)) {
            return self.fail(now, id, Status::INVALID_NAMESPACE);
        }
        match self.commands[id].command {
            Command::Read { range, .. } => self.read(now, id, index, range),
            Command::Write(WriteCommand { order, .. }) if order.is_barrier() => {
                self.fail(now, id, Status::INVALID_FIELD);
            }
            Command::Write(WriteCommand { range, .. }) | Command::WriteZeroes { range, .. } => {
                self.write(now, id, index, range)
            }
            Command::ZoneAppend { zone, blocks, .. } => self.append(now, id, index, zone, blocks),
            Command::Flush { .. } => self.flush(now, id, index),
            Command::ZoneManagementSend { start, action, all, zrwa, .. } => {
                self.manage(now, id, index, start, action, all, zrwa);
            }
            Command::ZoneManagementReceive { start, action, filter, partial, bytes, .. } => {
                let mut report = Vec::new();
                match self.namespaces[index].report(start, action, filter, partial, bytes, &mut report) {
                    Ok(()) => {
                        self.commands[id].data = Some(report.into_boxed_slice());
                        let delay = self.config.controller.report.delay;
                        self.record_some(now, delay, Track::Controller, Step::Firmware, id);
                        self.complete(now + delay, id);
                    }
                    Err(status) => self.fail(now, id, status),
                }
            }
            Command::Deallocate { .. } | Command::StreamManagement { .. } => {
                self.fail(now, id, Status::INVALID_OPCODE);
            }
        }
    }

    fn is_flush(&self, id: u32) -> bool {
        matches!(self.commands[id].command, Command::Flush { .. })
    }
}
