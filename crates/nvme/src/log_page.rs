//! Get Log Page (Base 5.16) and the smaller log pages.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{CompletionStatus, NamespaceId, QueueId, SubmissionEntry};

/// Declares the log page identifiers with their conversion from a byte.
macro_rules! log_pages {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// Log Page Identifiers (LID; Base figure 202, ZNS figure 45).
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum LogPage {
            $($(#[$doc])* $name = $code,)*
        }

        impl LogPage {
            /// Every log page that this crate names, ascending.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The log page with this identifier.
            pub fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

log_pages! {
    /// Supported Log Pages.
    SupportedLogPages = 0x00,
    /// Error Information.
    ErrorInformation = 0x01,
    /// SMART / Health Information.
    Health = 0x02,
    /// Firmware Slot Information.
    FirmwareSlot = 0x03,
    /// Changed Namespace List.
    ChangedNamespaceList = 0x04,
    /// Commands Supported and Effects.
    CommandsSupportedAndEffects = 0x05,
    /// Feature Identifiers Supported and Effects.
    FeatureIdentifiers = 0x12,
    /// Discovery.
    Discovery = 0x70,
    /// Changed Zone List.
    ChangedZoneList = 0xbf,
}

/// A Get Log Page command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetLogPage {
    /// Log Page Identifier (LID), whether it is known or not.
    pub identifier: u8,
    /// Log Specific Field (LSP).
    pub specific: u8,
    /// Retain Asynchronous Event (RAE): reading does not clear the event.
    pub retain_event: bool,
    /// Bytes wanted (NUMD, which counts dwords and is zero-based).
    pub bytes: u64,
    /// First byte wanted (LPO); an index where `index_offset` is set.
    pub offset: u64,
    /// Offset Type (OT).
    pub index_offset: bool,
    /// Command Set Identifier (CSI).
    pub command_set: u8,
    /// Namespace.
    pub nsid: NamespaceId,
}

impl GetLogPage {
    /// Decodes the command.
    pub fn decode(entry: &SubmissionEntry) -> Self {
        let (cdw10, cdw11, cdw14) = (entry.cdw10.get(), entry.cdw11.get(), entry.cdw14.get());
        let dwords = u64::from(cdw10 >> 16) | u64::from(cdw11 & 0xffff) << 16;
        Self {
            identifier: cdw10 as u8,
            specific: (cdw10 >> 8) as u8 & 0x7f,
            retain_event: cdw10 & 1 << 15 != 0,
            bytes: (dwords + 1) * 4,
            offset: u64::from(entry.cdw12.get()) | u64::from(entry.cdw13.get()) << 32,
            index_offset: cdw14 & 1 << 23 != 0,
            command_set: (cdw14 >> 24) as u8,
            nsid: entry.namespace_id(),
        }
    }

    /// Encodes the command's dwords into `entry`. Sizes that are no multiple of 4
    /// are rounded up, and at most 2^34 bytes are asked for.
    pub fn encode(&self, entry: &mut SubmissionEntry) {
        let dwords = (self.bytes.div_ceil(4).clamp(1, 1 << 32) - 1) as u32;
        entry.opc = crate::AdminOpcode::GetLogPage as u8;
        entry.nsid = self.nsid.0.into();
        let flags = u32::from(self.specific & 0x7f) << 8 | u32::from(self.retain_event) << 15;
        entry.cdw10 = (u32::from(self.identifier) | flags | dwords << 16).into();
        entry.cdw11 = (dwords >> 16).into();
        entry.cdw12 = (self.offset as u32).into();
        entry.cdw13 = ((self.offset >> 32) as u32).into();
        entry.cdw14 = (u32::from(self.command_set) << 24 | u32::from(self.index_offset) << 23).into();
    }
}

/// Supported Log Pages (LID 00h; Base figure 204): a LID Supported and Effects
/// structure for each identifier.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct SupportedLogPages {
    /// Bit 0: supported; bit 1: index offsets are; bits 31:16 are the log page's own.
    pub lid_support: [U32; 256],
}

const _: () = assert!(size_of::<SupportedLogPages>() == 1024);

impl SupportedLogPages {
    /// The page of a controller with these log pages, none of which takes index offsets.
    pub fn of(pages: impl IntoIterator<Item = LogPage>) -> Self {
        let mut log = Self::new_zeroed();
        for page in pages {
            log.lid_support[usize::from(page as u8)] = 1.into();
        }
        log
    }
}

/// An entry of the Error Information log (LID 01h; Base figure 206).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ErrorLogEntry {
    /// Error Count: unique over the controller's life; 0 for an unused entry.
    pub error_count: U64,
    /// Submission Queue ID.
    pub sqid: U16,
    /// Command ID.
    pub cmdid: U16,
    /// Status Field in bits 15:1, Phase Tag in bit 0.
    pub status_field: U16,
    /// Parameter Error Location: byte in bits 7:0, bit in bits 10:8; FFFFh: unknown.
    pub parm_error_location: U16,
    /// LBA of the first block with the error.
    pub lba: U64,
    /// Namespace.
    pub nsid: U32,
    /// Vendor Specific Information Available.
    pub vs: u8,
    /// Transport Type (TRTYPE): 3 for TCP.
    pub trtype: u8,
    /// Reserved.
    pub rsvd30: [u8; 2],
    /// Command Specific Information.
    pub cs: U64,
    /// Transport Type Specific Information.
    pub trtype_spec_info: U16,
    /// Reserved.
    pub rsvd42: [u8; 22],
}

const _: () = assert!(size_of::<ErrorLogEntry>() == ErrorLogEntry::BYTES);

impl ErrorLogEntry {
    /// Its size on the wire.
    pub const BYTES: usize = 64;

    /// The entry number `count` for a command that failed over NVMe/TCP.
    pub fn new(count: u64, queue: QueueId, entry: &SubmissionEntry, status: CompletionStatus, lba: u64) -> Self {
        let mut log = Self::new_zeroed();
        log.error_count = count.into();
        log.sqid = queue.0.into();
        log.cmdid = entry.cid;
        log.status_field = u16::from(status).into();
        log.parm_error_location = 0xffff.into();
        log.lba = lba.into();
        log.nsid = entry.nsid;
        log.trtype = crate::TransportType::Tcp as u8;
        log
    }
}

/// Firmware Slot Information (LID 03h; Base figure 208).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct FirmwareSlotLog {
    /// Active Firmware Info (AFI): the active slot in bits 2:0.
    pub afi: u8,
    /// Reserved.
    pub rsvd1: [u8; 7],
    /// Firmware Revision for Slots 1 to 7.
    pub frs: [[u8; 8]; 7],
    /// Reserved.
    pub rsvd64: [u8; 448],
}

const _: () = assert!(size_of::<FirmwareSlotLog>() == 512);

impl FirmwareSlotLog {
    /// The page of a controller with one slot.
    pub fn of(revision: [u8; 8]) -> Self {
        let mut log = Self::new_zeroed();
        log.afi = 1;
        log.frs[0] = revision;
        log
    }
}

bitflags::bitflags! {
    /// A Commands Supported and Effects data structure (Base figure 210).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct CommandEffects: u32 {
        /// Command Supported (CSUPP).
        const SUPPORTED = 1 << 0;
        /// Logical Block Content Change (LBCC).
        const CONTENT_CHANGE = 1 << 1;
        /// Namespace Capability Change (NCC).
        const NAMESPACE_CAPABILITY_CHANGE = 1 << 2;
        /// Namespace Inventory Change (NIC).
        const NAMESPACE_INVENTORY_CHANGE = 1 << 3;
        /// Controller Capability Change (CCC).
        const CONTROLLER_CAPABILITY_CHANGE = 1 << 4;
    }
}

/// Commands Supported and Effects (LID 05h; Base figure 209).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct CommandEffectsLog {
    /// Admin commands, by opcode.
    pub acs: [U32; 256],
    /// I/O commands of the command set asked for, by opcode.
    pub iocs: [U32; 256],
    /// Reserved.
    pub rsvd2048: [u8; 2048],
}

const _: () = assert!(size_of::<CommandEffectsLog>() == 4096);

impl CommandEffectsLog {
    /// The page of a controller with these commands.
    pub fn of(
        admin: impl IntoIterator<Item = (crate::AdminOpcode, CommandEffects)>,
        io: impl IntoIterator<Item = (crate::IoOpcode, CommandEffects)>,
    ) -> Self {
        let mut log = Self::new_zeroed();
        for (opcode, effects) in admin {
            log.acs[usize::from(opcode as u8)] = (effects | CommandEffects::SUPPORTED).bits().into();
        }
        for (opcode, effects) in io {
            log.iocs[usize::from(opcode as u8)] = (effects | CommandEffects::SUPPORTED).bits().into();
        }
        log
    }
}
