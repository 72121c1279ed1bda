//! Which commands a device refuses before it does anything.

use nvme::{Command, LbaRange, NamespaceId, Status, WriteCommand};

use crate::Identity;

/// Ranges that one Dataset Management command can carry (NVM 3.2.1).
const MAX_RANGES: usize = 256;

/// Whether `command`, with `data_bytes` of data if any, is one that a device
/// so described can execute; otherwise the status it completes with.
pub(crate) fn check_command(identity: &Identity, command: &Command, data_bytes: Option<usize>) -> Result<(), Status> {
    let nsid = command.nsid();
    if let Command::Flush { .. } = command
        && nsid == NamespaceId::ALL
    {
        return Ok(());
    }
    let blocks = (nsid.0 as usize).checked_sub(1).and_then(|index| identity.namespace_blocks.get(index));
    let &blocks = blocks.ok_or(Status::INVALID_NAMESPACE)?;
    let inside = |range: &LbaRange| range.end().0 <= blocks;
    match command {
        Command::Flush { .. } => Ok(()),
        Command::Write(WriteCommand { order, .. }) if order.is_barrier() => Err(Status::INVALID_FIELD),
        Command::Read { range, .. } | Command::Write(WriteCommand { range, .. }) => {
            let bytes = u64::from(range.count) * u64::from(identity.lba_bytes);
            if range.count == 0 || bytes > u64::from(identity.max_transfer_bytes) {
                return Err(Status::INVALID_FIELD);
            }
            if matches!(command, Command::Write(_)) && data_bytes.is_some_and(|given| given as u64 != bytes) {
                return Err(Status::INVALID_FIELD);
            }
            if inside(range) { Ok(()) } else { Err(Status::LBA_OUT_OF_RANGE) }
        }
        Command::WriteZeroes { range, .. } => {
            if range.count == 0 {
                return Err(Status::INVALID_FIELD);
            }
            if inside(range) { Ok(()) } else { Err(Status::LBA_OUT_OF_RANGE) }
        }
        Command::Deallocate { ranges, .. } => {
            if !identity.supports_deallocate {
                return Err(Status::INVALID_OPCODE);
            }
            if ranges.is_empty() || ranges.len() > MAX_RANGES {
                return Err(Status::INVALID_FIELD);
            }
            if ranges.iter().all(inside) { Ok(()) } else { Err(Status::LBA_OUT_OF_RANGE) }
        }
        // This checks devices without zones and without order.
        Command::ZoneAppend { .. }
        | Command::ZoneManagementSend { .. }
        | Command::ZoneManagementReceive { .. }
        | Command::StreamManagement { .. } => Err(Status::INVALID_OPCODE),
    }
}
