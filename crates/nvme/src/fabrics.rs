//! Fabrics commands (Base 6): opcode 7Fh, told apart by FCTYPE.

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{CommandId, QueueId, Status, SubmissionEntry};

/// Most bytes of an NVMe Qualified Name, without the zero byte at its end (Base 4.5).
pub const NQN_BYTES_MAX: usize = 223;

/// The NQN of every discovery subsystem (Base 4.5).
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// CNTLID in Connect data: the subsystem chooses a controller (Base 6.3).
pub const CNTLID_DYNAMIC: u16 = 0xffff;

/// CATTR bit 2: SQ flow control is disabled.
const DISABLE_SQ_FLOW_CONTROL: u8 = 1 << 2;

/// Fabrics Command Types (Base figure 375).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum FabricsType {
    /// Property Set.
    PropertySet = 0x00,
    /// Connect.
    Connect = 0x01,
    /// Property Get.
    PropertyGet = 0x04,
    /// Authentication Send.
    AuthenticationSend = 0x05,
    /// Authentication Receive.
    AuthenticationReceive = 0x06,
    /// Disconnect.
    Disconnect = 0x08,
}

/// A Fabrics command.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FabricsCommand {
    /// Property Set (Base 6.6).
    PropertySet {
        /// Offset of the property.
        offset: u32,
        /// Whether it is 8 bytes and not 4.
        wide: bool,
        /// Its new value.
        value: u64,
    },
    /// Connect (Base 6.3); the data is a [`ConnectData`].
    Connect {
        /// Record Format (RECFMT): 0.
        format: u16,
        /// The queue to create: 0 is the admin queue.
        queue: QueueId,
        /// Entries of the queue, zero-based (SQSIZE).
        size_zero_based: u16,
        /// SQ flow control is not wanted (CATTR bit 2).
        disable_flow_control: bool,
        /// Keep Alive Timeout (KATO) in milliseconds; 0: none. Admin queues only.
        keep_alive_ms: u32,
    },
    /// Property Get (Base 6.5).
    PropertyGet {
        /// Offset of the property.
        offset: u32,
        /// Whether it is 8 bytes and not 4.
        wide: bool,
    },
    /// Authentication Send (Base 6.2).
    AuthenticationSend(SecurityFields),
    /// Authentication Receive (Base 6.1).
    AuthenticationReceive(SecurityFields),
    /// Disconnect (Base 6.4).
    Disconnect {
        /// Record Format (RECFMT): 0.
        format: u16,
    },
}

/// What Authentication Send and Receive say about their data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SecurityFields {
    /// Security Protocol (SECP): E9h, NVM Express.
    pub protocol: u8,
    /// SP Specific (SPSP1 in the high byte, SPSP0 in the low one): 0101h.
    pub specific: u16,
    /// Transfer Length (TL) or Allocation Length (AL) in bytes.
    pub bytes: u32,
}

impl SecurityFields {
    /// Whether they name NVMe's own authentication protocol (Base 8.13.2).
    pub fn is_nvme(&self) -> bool {
        self.protocol == 0xe9 && self.specific == 0x0101
    }
}

impl FabricsCommand {
    /// Decodes a submission queue entry whose opcode is 7Fh.
    ///
    /// # Errors
    ///
    /// Invalid Command Opcode for a reserved FCTYPE, Invalid Field for a property
    /// of a reserved size.
    pub fn decode(entry: &SubmissionEntry) -> Result<Self, Status> {
        let (low, high) = (entry.cdw10.get(), entry.cdw11.get());
        let wide = |attributes: u32| match attributes & 0b111 {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Status::INVALID_FIELD),
        };
        // SECP, SPSP1 and SPSP0 are bytes 43 to 41; the length is CDW11.
        let security =
            SecurityFields { protocol: (low >> 24) as u8, specific: (low >> 8) as u16, bytes: entry.cdw11.get() };
        // FCTYPE is byte 4, where other commands have the NSID.
        match entry.nsid.get() as u8 {
            0x00 => Ok(Self::PropertySet {
                offset: high,
                wide: wide(low)?,
                value: u64::from(entry.cdw12.get()) | u64::from(entry.cdw13.get()) << 32,
            }),
            0x01 => Ok(Self::Connect {
                format: low as u16,
                queue: QueueId((low >> 16) as u16),
                size_zero_based: high as u16,
                disable_flow_control: (high >> 16) as u8 & DISABLE_SQ_FLOW_CONTROL != 0,
                keep_alive_ms: entry.cdw12.get(),
            }),
            0x04 => Ok(Self::PropertyGet { offset: high, wide: wide(low)? }),
            0x05 => Ok(Self::AuthenticationSend(security)),
            0x06 => Ok(Self::AuthenticationReceive(security)),
            0x08 => Ok(Self::Disconnect { format: low as u16 }),
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    /// Encodes the command with identifier `cid`, without its data pointer.
    pub fn encode(&self, cid: CommandId) -> SubmissionEntry {
        let (kind, low, high, value) = match *self {
            Self::PropertySet { offset, wide, value } => (FabricsType::PropertySet, u32::from(wide), offset, value),
            Self::Connect { format, queue, size_zero_based, disable_flow_control, keep_alive_ms } => {
                let attributes = if disable_flow_control { DISABLE_SQ_FLOW_CONTROL } else { 0 };
                (
                    FabricsType::Connect,
                    u32::from(format) | u32::from(queue.0) << 16,
                    u32::from(size_zero_based) | u32::from(attributes) << 16,
                    u64::from(keep_alive_ms),
                )
            }
            Self::PropertyGet { offset, wide } => (FabricsType::PropertyGet, u32::from(wide), offset, 0),
            Self::AuthenticationSend(fields) => (FabricsType::AuthenticationSend, fields.dword(), fields.bytes, 0),
            Self::AuthenticationReceive(fields) => {
                (FabricsType::AuthenticationReceive, fields.dword(), fields.bytes, 0)
            }
            Self::Disconnect { format } => (FabricsType::Disconnect, u32::from(format), 0, 0),
        };
        SubmissionEntry {
            opc: crate::AdminOpcode::Fabrics as u8,
            cid: cid.0.into(),
            nsid: (kind as u32).into(),
            cdw10: low.into(),
            cdw11: high.into(),
            cdw12: (value as u32).into(),
            cdw13: ((value >> 32) as u32).into(),
            ..SubmissionEntry::default()
        }
    }
}

impl SecurityFields {
    fn dword(&self) -> u32 {
        u32::from(self.protocol) << 24 | u32::from(self.specific) << 8
    }
}

/// Connect Command Data (Base figure 381).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ConnectData {
    /// Host Identifier (HOSTID).
    pub hostid: [u8; 16],
    /// Controller ID (CNTLID), [`CNTLID_DYNAMIC`] for an admin queue.
    pub cntlid: U16,
    /// Reserved.
    pub rsvd18: [u8; 238],
    /// NVM Subsystem NVMe Qualified Name (SUBNQN), terminated by a zero byte.
    pub subnqn: [u8; 256],
    /// Host NVMe Qualified Name (HOSTNQN), terminated by a zero byte.
    pub hostnqn: [u8; 256],
    /// Reserved.
    pub rsvd768: [u8; 256],
}

const _: () = assert!(size_of::<ConnectData>() == ConnectData::BYTES);

impl ConnectData {
    /// Its size on the wire.
    pub const BYTES: usize = 1024;
    /// Offset of SUBNQN, for the answer to an invalid one.
    pub const SUBNQN_OFFSET: u16 = 256;
    /// Offset of HOSTNQN.
    pub const HOSTNQN_OFFSET: u16 = 512;
    /// Offset of CNTLID.
    pub const CNTLID_OFFSET: u16 = 16;

    /// The data with these names, cut at [`NQN_BYTES_MAX`].
    pub fn new(hostid: [u8; 16], cntlid: u16, subnqn: &str, hostnqn: &str) -> Self {
        let mut data = Self::new_zeroed();
        data.hostid = hostid;
        data.cntlid = cntlid.into();
        for (field, name) in [(&mut data.subnqn, subnqn), (&mut data.hostnqn, hostnqn)] {
            let length = name.len().min(NQN_BYTES_MAX);
            field[..length].copy_from_slice(&name.as_bytes()[..length]);
        }
        data
    }
}

/// The NQN in a field of 256 bytes; `None` where it has no zero byte at its end, is
/// empty or too long, is not UTF-8, or does not begin `nqn.` (Base 4.5).
pub fn nqn_of(field: &[u8; 256]) -> Option<&str> {
    let length = field.iter().position(|byte| *byte == 0)?;
    let name = std::str::from_utf8(field.get(..length)?).ok()?;
    is_nqn(name).then_some(name)
}

/// Whether a name has the form of an NVMe Qualified Name (Base 4.5): it begins
/// `nqn.` and has at most [`NQN_BYTES_MAX`] bytes, none of them a control character.
pub fn is_nqn(name: &str) -> bool {
    name.starts_with("nqn.") && (5..=NQN_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// What Dword 0 of Connect's completion says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectResult {
    /// Success: the controller's identifier, and whether authentication is
    /// required (AUTHREQ.ATR).
    Connected {
        /// Controller ID.
        cntlid: u16,
        /// The host has to authenticate before anything else.
        authentication_required: bool,
    },
    /// Connect Invalid Parameters: where the first one is (IPO, IATTR).
    InvalidParameter {
        /// Offset in bytes.
        offset: u16,
        /// Whether it is in the data and not in the command.
        in_data: bool,
    },
}

impl ConnectResult {
    /// The dword (Base figures 382 and 383).
    pub fn dword(self) -> u32 {
        match self {
            Self::Connected { cntlid, authentication_required } => {
                u32::from(cntlid) | u32::from(authentication_required) << 17
            }
            Self::InvalidParameter { offset, in_data } => u32::from(offset) | u32::from(in_data) << 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let field = |name: &[u8]| {
            let mut field = [0; 256];
            field[..name.len()].copy_from_slice(name);
            field
        };
        assert_eq!(nqn_of(&field(DISCOVERY_NQN.as_bytes())), Some(DISCOVERY_NQN));
        assert_eq!(nqn_of(&field(b"")), None);
        assert_eq!(nqn_of(&field(b"nqn.")), None);
        assert_eq!(nqn_of(&field(b"iqn.2014-08.org.example")), None);
        assert_eq!(nqn_of(&field(b"nqn.2014-08.org\xff")), None);
        assert_eq!(nqn_of(&field(b"nqn.2014-08.org\n")), None);
        assert_eq!(nqn_of(&[b'n'; 256]), None);
        let longest = format!("nqn.{}", "x".repeat(NQN_BYTES_MAX - 4));
        assert_eq!(nqn_of(&field(longest.as_bytes())), Some(&*longest));
        assert_eq!(nqn_of(&field(format!("{longest}x").as_bytes())), None);
        let data = ConnectData::new([1; 16], 2, "nqn.s", &longest);
        assert_eq!((nqn_of(&data.subnqn), nqn_of(&data.hostnqn)), (Some("nqn.s"), Some(&*longest)));
    }
}
