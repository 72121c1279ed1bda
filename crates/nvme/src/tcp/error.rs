//! Fatal errors of the transport (TCP 3.5.2 and figures 19 to 22).

/// Which way a PDU goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// From host to controller.
    HostToController,
    /// From controller to host.
    ControllerToHost,
}

/// Fatal Error Status (FES) of a terminate request (TCP figures 20 and 22).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u16)]
pub enum FatalErrorStatus {
    /// Invalid PDU Header Field; FEI is the byte offset of the field.
    InvalidHeaderField = 0x01,
    /// PDU Sequence Error: a PDU that is not expected in this state.
    SequenceError = 0x02,
    /// Header Digest Error; FEI is the digest received.
    HeaderDigestError = 0x03,
    /// Data Transfer Out of Range: beyond what the R2T or the command asked for.
    DataTransferOutOfRange = 0x04,
    /// Data Transfer Limit Exceeded (from a controller: more than MAXH2CDATA) or
    /// R2T Limit Exceeded (from a host: more than MAXR2T).
    LimitExceeded = 0x05,
    /// Unsupported Parameter; FEI is the byte offset of the field.
    UnsupportedParameter = 0x06,
}

impl FatalErrorStatus {
    /// Every status, ascending.
    pub const ALL: &[Self] = &[
        Self::InvalidHeaderField,
        Self::SequenceError,
        Self::HeaderDigestError,
        Self::DataTransferOutOfRange,
        Self::LimitExceeded,
        Self::UnsupportedParameter,
    ];

    /// The status of a code; `None` where that is reserved.
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|status| *status as u16 == code)
    }
}

/// A field of a PDU header, by its name in the specification.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Field {
    /// PDU-Type.
    Type,
    /// FLAGS.
    Flags,
    /// HLEN.
    HeaderLength,
    /// PDO.
    DataOffset,
    /// PLEN.
    Length,
    /// PFV of ICReq and ICResp.
    FormatVersion,
    /// HPDA of ICReq, CPDA of ICResp.
    Alignment,
    /// MAXH2CDATA of ICResp.
    MaxH2cData,
    /// CCCID of H2CData, C2HData and R2T.
    CommandId,
    /// TTAG of H2CData and R2T.
    TransferTag,
    /// DATAO of H2CData and C2HData, R2TO of R2T.
    TransferOffset,
    /// DATAL of H2CData and C2HData, R2TL of R2T.
    TransferLength,
}

impl Field {
    /// Where it begins, in bytes from the start of the PDU.
    pub fn offset(self) -> u32 {
        match self {
            Self::Type => 0,
            Self::Flags => 1,
            Self::HeaderLength => 2,
            Self::DataOffset => 3,
            Self::Length => 4,
            Self::FormatVersion | Self::CommandId => 8,
            Self::Alignment | Self::TransferTag => 10,
            Self::MaxH2cData | Self::TransferOffset => 12,
            Self::TransferLength => 16,
        }
    }

    /// The specification's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Type => "PDU-Type",
            Self::Flags => "FLAGS",
            Self::HeaderLength => "HLEN",
            Self::DataOffset => "PDO",
            Self::Length => "PLEN",
            Self::FormatVersion => "PFV",
            Self::Alignment => "HPDA or CPDA",
            Self::MaxH2cData => "MAXH2CDATA",
            Self::CommandId => "CCCID",
            Self::TransferTag => "TTAG",
            Self::TransferOffset => "DATAO or R2TO",
            Self::TransferLength => "DATAL or R2TL",
        }
    }
}

/// What is wrong with a PDU. Each ends the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PduError {
    /// A header field has a value that it cannot have.
    #[error("{} (byte {} of the PDU) cannot be {value:#x}", .field.name(), .field.offset())]
    Field {
        /// The field.
        field: Field,
        /// Its value.
        value: u32,
    },
    /// A field asks for something that is not supported.
    #[error("{} (byte {} of the PDU) of {value:#x} is not supported", .field.name(), .field.offset())]
    Unsupported {
        /// The field.
        field: Field,
        /// Its value.
        value: u32,
    },
    /// The header digest does not fit the header.
    #[error("header digest {received:#010x} for a header with the digest {computed:#010x}")]
    HeaderDigest {
        /// HDGST as received.
        received: u32,
        /// The digest of the header as received.
        computed: u32,
    },
    /// A PDU that may not come now.
    #[error("{pdu} is not expected {state}")]
    Sequence {
        /// The PDU's name.
        pdu: &'static str,
        /// What the connection is doing instead.
        state: &'static str,
    },
    /// Data beyond what was asked for.
    #[error("{length} bytes of data at offset {offset} lie outside of the transfer, which ends at {end}")]
    OutOfRange {
        /// DATAO.
        offset: u32,
        /// DATAL.
        length: u32,
        /// End of what was asked for.
        end: u32,
    },
    /// More data in one PDU than MAXH2CDATA.
    #[error("{length} bytes of data in one PDU, more than MAXH2CDATA, {limit}")]
    DataLimit {
        /// DATAL.
        length: u32,
        /// MAXH2CDATA.
        limit: u32,
    },
    /// More R2T PDUs than MAXR2T.
    #[error("more than {limit} R2T PDUs outstanding for one command")]
    ReadyToTransferLimit {
        /// MAXR2T, not zero-based.
        limit: u32,
    },
}

impl PduError {
    /// The Fatal Error Status to report.
    pub fn status(&self) -> FatalErrorStatus {
        match self {
            Self::Field { .. } => FatalErrorStatus::InvalidHeaderField,
            Self::Unsupported { .. } => FatalErrorStatus::UnsupportedParameter,
            Self::HeaderDigest { .. } => FatalErrorStatus::HeaderDigestError,
            Self::Sequence { .. } => FatalErrorStatus::SequenceError,
            Self::OutOfRange { .. } => FatalErrorStatus::DataTransferOutOfRange,
            Self::DataLimit { .. } | Self::ReadyToTransferLimit { .. } => FatalErrorStatus::LimitExceeded,
        }
    }

    /// Fatal Error Information (FEI) that goes with the status; 0 where the
    /// status has none.
    pub fn information(&self) -> u32 {
        match self {
            Self::Field { field, .. } | Self::Unsupported { field, .. } => field.offset(),
            Self::HeaderDigest { received, .. } => *received,
            _ => 0,
        }
    }
}
