//! I/O commands: what they transfer, what is refused before the device sees them,
//! and what the device is asked to do.

use nvme::{
    Command, CommandSet, IoOpcode, Lba, LbaRange, NamespaceId, Status, SubmissionEntry, WriteCommand, WriteOrder,
    ZoneSendAction,
};

use super::Transfer;
use super::facts::Facts;

/// CDW12: Force Unit Access.
const FUA: u32 = 1 << 30;
/// Size of a Dataset Management range.
const RANGE_BYTES: u32 = 16;

/// What an I/O command asks of the device.
pub(super) struct IoPlan {
    pub(super) command: Command,
    pub(super) data: Option<Box<[u8]>>,
    pub(super) then: Then,
}

/// What is done once the device has carried the command out.
pub(super) enum Then {
    /// The command is complete, with at most so many bytes for the host.
    Complete {
        /// Bytes that a successful command gives the host.
        bytes: u32,
    },
    /// The cache is to be committed: FUA on a device without it.
    Flush {
        /// The namespace.
        nsid: NamespaceId,
        /// Bytes that were written.
        written_bytes: u32,
    },
    /// What was read is to be compared with this.
    Compare {
        /// The host's data.
        data: Box<[u8]>,
    },
    /// A write of so many bytes is complete.
    Written {
        /// Bytes that were written.
        bytes: u32,
    },
}

/// The opcode, where the device has the command.
fn supported(facts: &Facts, opcode: u8) -> Result<IoOpcode, Status> {
    let opcode = IoOpcode::try_from(opcode)?;
    let there = match opcode {
        IoOpcode::Flush | IoOpcode::Read | IoOpcode::Write | IoOpcode::Compare | IoOpcode::WriteZeroes => true,
        IoOpcode::DatasetManagement => facts.identity.supports_deallocate,
        IoOpcode::ZoneAppend | IoOpcode::ZoneManagementSend | IoOpcode::ZoneManagementReceive => {
            facts.identity.zoned.is_some()
        }
        IoOpcode::StreamManagement => facts.identity.ordering.is_some(),
        _ => false,
    };
    if there { Ok(opcode) } else { Err(Status::INVALID_OPCODE) }
}

/// The order that a write asks for, and the device keeps.
pub(super) fn order(facts: &Facts, entry: &SubmissionEntry) -> Option<WriteOrder> {
    let is_write = facts.identity.ordering.is_some() && entry.opc == IoOpcode::Write as u8;
    is_write.then(|| WriteOrder::of(entry)).filter(|order| *order != WriteOrder::NONE)
}

/// Bytes of the blocks that a command names (NLB is zero-based).
fn block_bytes(facts: &Facts, entry: &SubmissionEntry) -> u64 {
    (u64::from(entry.cdw12.get() & 0xffff) + 1) * u64::from(facts.identity.lba_bytes)
}

/// What a command of an I/O queue transfers. A command that asks for more than the
/// controller takes (MDTS) transfers nothing; it will be refused.
pub(super) fn transfer(facts: &Facts, entry: &SubmissionEntry) -> Transfer {
    let limited = |bytes: u64, direction: fn(u32) -> Transfer| match u32::try_from(bytes) {
        Ok(bytes) if bytes <= facts.max_transfer_bytes && bytes > 0 => direction(bytes),
        _ => Transfer::None,
    };
    let to_controller = |bytes| Transfer::HostToController { bytes };
    let to_host = |bytes| Transfer::ControllerToHost { bytes };
    match supported(facts, entry.opc) {
        Ok(IoOpcode::Read) => limited(block_bytes(facts, entry), to_host),
        Ok(IoOpcode::Write | IoOpcode::Compare | IoOpcode::ZoneAppend) => {
            limited(block_bytes(facts, entry), to_controller)
        }
        Ok(IoOpcode::DatasetManagement) => {
            limited(u64::from((entry.cdw10.get() & 0xff) + 1) * u64::from(RANGE_BYTES), to_controller)
        }
        Ok(IoOpcode::ZoneManagementSend) => {
            let action = ZoneSendAction::from_code(entry.cdw13.get() as u8);
            let extension = facts.identity.zoned.as_ref().map_or(0, |zoned| zoned.descriptor_extension_bytes);
            match action {
                Some(ZoneSendAction::SetDescriptorExtension) => limited(extension.into(), to_controller),
                _ => Transfer::None,
            }
        }
        Ok(IoOpcode::ZoneManagementReceive) => limited((u64::from(entry.cdw12.get()) + 1) * 4, to_host),
        _ => Transfer::None,
    }
}

/// What the device is to do for an I/O command. `all_command_sets`: the controller
/// was enabled with CC.CSS 110b, and not for the NVM Command Set alone.
///
/// # Errors
///
/// The status of a command that the controller refuses.
pub(super) fn plan(
    facts: &Facts,
    all_command_sets: bool,
    entry: &SubmissionEntry,
    data: Box<[u8]>,
) -> Result<IoPlan, Status> {
    let opcode = supported(facts, entry.opc)?;
    let nsid = entry.namespace_id();
    let blocks = match facts.blocks(nsid) {
        Some(blocks) => blocks,
        // Flush takes the broadcast value (NVM 3.2.3), and a stream is of all namespaces.
        None if matches!(opcode, IoOpcode::Flush | IoOpcode::StreamManagement) && nsid == NamespaceId::ALL => 0,
        None => return Err(Status::INVALID_NAMESPACE),
    };
    if facts.command_set() != CommandSet::Nvm && !all_command_sets {
        return Err(Status::COMMAND_SET_NOT_ENABLED);
    }
    if facts.read_only && changes_media(opcode) {
        return Err(Status::NAMESPACE_WRITE_PROTECTED);
    }
    // A barrier where it is a reserved bit: ignoring it would lose an order that the host counts on.
    let has_barrier = match opcode {
        IoOpcode::Write => facts.identity.ordering.is_some(),
        IoOpcode::ZoneAppend => false,
        _ => true,
    };
    if !has_barrier && WriteOrder::of(entry).is_barrier() {
        return Err(Status::INVALID_FIELD);
    }
    let inside = |range: &LbaRange| range.start.0.checked_add(range.count.into()).is_some_and(|end| end <= blocks);
    let range = LbaRange { start: Lba(entry.slba()), count: (entry.cdw12.get() & 0xffff) + 1 };
    let whole = block_bytes(facts, entry);
    if opcode == IoOpcode::Compare {
        if entry.fuse() != 0 || entry.psdt() == 0b11 {
            return Err(Status::INVALID_FIELD);
        }
        // The controller compares; the device only reads.
        let fua = entry.cdw12.get() & FUA != 0;
        check_transfer(facts, whole, Some(&data))?;
        if !inside(&range) {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        let then = Then::Compare { data: exactly(data, whole)? };
        return Ok(IoPlan { command: Command::Read { nsid, range, fua }, data: None, then });
    }
    let mut command = Command::decode(entry, &data)?;
    let complete = Then::Complete { bytes: 0 };
    match &mut command {
        Command::Flush { .. } | Command::StreamManagement { .. } => Ok(IoPlan { command, data: None, then: complete }),
        Command::Read { range, .. } => {
            check_transfer(facts, whole, None)?;
            if !inside(range) {
                return Err(Status::LBA_OUT_OF_RANGE);
            }
            Ok(IoPlan { command, data: None, then: Then::Complete { bytes: whole as u32 } })
        }
        Command::Write(WriteCommand { fua, .. }) | Command::ZoneAppend { fua, .. } => {
            check_transfer(facts, whole, Some(&data))?;
            let written_bytes = whole as u32;
            let then = then_durable(facts, fua, nsid, written_bytes);
            if matches!(command, Command::Write(_)) && !inside(&range) {
                return Err(Status::LBA_OUT_OF_RANGE);
            }
            let data = exactly(data, whole)?;
            Ok(IoPlan { command, data: Some(data), then })
        }
        Command::WriteZeroes { range, fua, .. } => {
            if !inside(range) {
                return Err(Status::LBA_OUT_OF_RANGE);
            }
            // Write Zeroes counts no data units (Base figure 207).
            let then = then_durable(facts, fua, nsid, 0);
            Ok(IoPlan { command, data: None, then })
        }
        Command::Deallocate { ranges, .. } => {
            if !ranges.iter().all(inside) {
                return Err(Status::LBA_OUT_OF_RANGE);
            }
            Ok(IoPlan { command, data: None, then: complete })
        }
        Command::ZoneManagementSend { action, .. } => {
            let extension = facts.identity.zoned.as_ref().map_or(0, |zoned| zoned.descriptor_extension_bytes);
            let data = match action {
                ZoneSendAction::SetDescriptorExtension => {
                    // Without extensions there is nothing to set (ZNS 3.4.3.1.7).
                    let bytes = data.get(..extension as usize).filter(|bytes| !bytes.is_empty());
                    Some(bytes.ok_or(Status::INVALID_FIELD)?.into())
                }
                _ => None,
            };
            Ok(IoPlan { command, data, then: complete })
        }
        Command::ZoneManagementReceive { bytes, .. } => {
            let bytes = *bytes;
            check_transfer(facts, bytes.into(), None)?;
            Ok(IoPlan { command, data: None, then: Then::Complete { bytes } })
        }
    }
}

/// Whether a command changes the media, so that a read-only namespace refuses it.
fn changes_media(opcode: IoOpcode) -> bool {
    matches!(
        opcode,
        IoOpcode::Write
            | IoOpcode::WriteUncorrectable
            | IoOpcode::WriteZeroes
            | IoOpcode::DatasetManagement
            | IoOpcode::Copy
            | IoOpcode::ZoneManagementSend
            | IoOpcode::ZoneAppend
    )
}

/// Whether the transfer is within MDTS, and all of a host's data has come.
fn check_transfer(facts: &Facts, bytes: u64, data: Option<&[u8]>) -> Result<(), Status> {
    if bytes > facts.max_transfer_bytes.into() {
        return Err(Status::INVALID_FIELD);
    }
    match data {
        Some(data) if (data.len() as u64) < bytes => Err(Status::DATA_TRANSFER_ERROR),
        _ => Ok(()),
    }
}

/// The command's data, without what a host may have sent beyond its blocks.
fn exactly(data: Box<[u8]>, bytes: u64) -> Result<Box<[u8]>, Status> {
    if data.len() as u64 == bytes {
        return Ok(data);
    }
    let bytes = usize::try_from(bytes).ok().and_then(|bytes| data.get(..bytes));
    Ok(bytes.ok_or(Status::DATA_TRANSFER_ERROR)?.into())
}

/// FUA that the device does itself, or a flush behind the write where it cannot.
fn then_durable(facts: &Facts, fua: &mut bool, nsid: NamespaceId, written_bytes: u32) -> Then {
    if !*fua || facts.identity.supports_fua {
        return Then::Written { bytes: written_bytes };
    }
    *fua = false;
    match facts.identity.volatile_write_cache {
        true => Then::Flush { nsid, written_bytes },
        false => Then::Written { bytes: written_bytes },
    }
}
