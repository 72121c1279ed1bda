//! The common header of every PDU (TCP 3.6.1).

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::error::{Direction, Field, PduError};

/// Size of the common header.
pub const HEADER_BYTES: usize = 8;

/// PDU types (TCP figure 15).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum PduType {
    /// Initialize Connection Request (ICReq).
    InitializeRequest = 0x00,
    /// Initialize Connection Response (ICResp).
    InitializeResponse = 0x01,
    /// Host to Controller Terminate Connection Request (H2CTermReq).
    H2cTerminate = 0x02,
    /// Controller to Host Terminate Connection Request (C2HTermReq).
    C2hTerminate = 0x03,
    /// Command Capsule (CapsuleCmd).
    CapsuleCommand = 0x04,
    /// Response Capsule (CapsuleResp).
    CapsuleResponse = 0x05,
    /// Host to Controller Data Transfer (H2CData).
    H2cData = 0x06,
    /// Controller to Host Data Transfer (C2HData).
    C2hData = 0x07,
    /// Ready to Transfer (R2T).
    ReadyToTransfer = 0x09,
}

impl PduType {
    /// Every type, ascending.
    pub const ALL: &[Self] = &[
        Self::InitializeRequest,
        Self::InitializeResponse,
        Self::H2cTerminate,
        Self::C2hTerminate,
        Self::CapsuleCommand,
        Self::CapsuleResponse,
        Self::H2cData,
        Self::C2hData,
        Self::ReadyToTransfer,
    ];

    /// Who sends it.
    pub fn direction(self) -> Direction {
        match self {
            Self::InitializeRequest | Self::H2cTerminate | Self::CapsuleCommand | Self::H2cData => {
                Direction::HostToController
            }
            Self::InitializeResponse
            | Self::C2hTerminate
            | Self::CapsuleResponse
            | Self::C2hData
            | Self::ReadyToTransfer => Direction::ControllerToHost,
        }
    }

    /// Header Length (HLEN), the same for every PDU of a type (TCP figures 17 to
    /// 26).
    pub fn header_length(self) -> u8 {
        match self {
            Self::InitializeRequest | Self::InitializeResponse => 128,
            Self::CapsuleCommand => 72,
            _ => 24,
        }
    }

    /// Whether it carries digests once they are negotiated: those that begin and
    /// end a connection do not.
    pub fn has_digests(self) -> bool {
        !matches!(self, Self::InitializeRequest | Self::InitializeResponse | Self::H2cTerminate | Self::C2hTerminate)
    }

    /// Whether it may carry data.
    pub fn has_data(self) -> bool {
        matches!(self, Self::CapsuleCommand | Self::H2cData | Self::C2hData)
    }

    /// The flags that it defines.
    pub fn flags(self) -> PduFlags {
        match self {
            Self::CapsuleCommand => PduFlags::HEADER_DIGEST | PduFlags::DATA_DIGEST,
            Self::CapsuleResponse | Self::ReadyToTransfer => PduFlags::HEADER_DIGEST,
            Self::H2cData => PduFlags::HEADER_DIGEST | PduFlags::DATA_DIGEST | PduFlags::LAST,
            Self::C2hData => PduFlags::all(),
            _ => PduFlags::empty(),
        }
    }
}

impl TryFrom<u8> for PduType {
    type Error = PduError;

    fn try_from(byte: u8) -> Result<Self, PduError> {
        Self::ALL
            .iter()
            .copied()
            .find(|known| *known as u8 == byte)
            .ok_or(PduError::Field { field: Field::Type, value: byte.into() })
    }
}

bitflags::bitflags! {
    /// FLAGS of the common header; which of them a type defines,
    /// [`PduType::flags`] says.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct PduFlags: u8 {
        /// HDGSTF: a header digest follows the header.
        const HEADER_DIGEST = 1 << 0;
        /// DDGSTF: a data digest follows the data.
        const DATA_DIGEST = 1 << 1;
        /// LAST_PDU: the last PDU of a data transfer.
        const LAST = 1 << 2;
        /// SUCCESS: the command succeeded and no response capsule follows.
        const SUCCESS = 1 << 3;
    }
}

/// The first 8 bytes of every PDU (TCP figure 14).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct CommonHeader {
    /// PDU-Type.
    pub pdu_type: u8,
    /// FLAGS.
    pub flags: u8,
    /// Header Length (HLEN) in bytes, without the header digest.
    pub hlen: u8,
    /// PDU Data Offset (PDO) in bytes from the start of the PDU; 0 without data.
    pub pdo: u8,
    /// PDU Length (PLEN) in bytes, everything included.
    pub plen: U32,
}

const _: () = assert!(size_of::<CommonHeader>() == HEADER_BYTES);
