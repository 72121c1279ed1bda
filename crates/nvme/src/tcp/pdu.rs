//! The PDUs, decoded.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::common::{CommonHeader, PduType};
use super::digest::Digests;
use super::layout::Alignment;
use super::terminate::TerminateRequest;
use crate::{CommandId, CompletionEntry, SubmissionEntry};

/// A PDU without its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pdu {
    /// ICReq.
    InitializeRequest(InitializeRequest),
    /// ICResp.
    InitializeResponse(InitializeResponse),
    /// H2CTermReq; the header it complains about is its data.
    H2cTerminate(TerminateRequest),
    /// C2HTermReq; the header it complains about is its data.
    C2hTerminate(TerminateRequest),
    /// CapsuleCmd; in-capsule data is its data.
    CapsuleCommand(SubmissionEntry),
    /// CapsuleResp.
    CapsuleResponse(CompletionEntry),
    /// H2CData.
    H2cData(H2cData),
    /// C2HData.
    C2hData(C2hData),
    /// R2T.
    ReadyToTransfer(ReadyToTransfer),
}

impl Pdu {
    /// Its type.
    pub fn pdu_type(&self) -> PduType {
        match self {
            Self::InitializeRequest(_) => PduType::InitializeRequest,
            Self::InitializeResponse(_) => PduType::InitializeResponse,
            Self::H2cTerminate(_) => PduType::H2cTerminate,
            Self::C2hTerminate(_) => PduType::C2hTerminate,
            Self::CapsuleCommand(_) => PduType::CapsuleCommand,
            Self::CapsuleResponse(_) => PduType::CapsuleResponse,
            Self::H2cData(_) => PduType::H2cData,
            Self::C2hData(_) => PduType::C2hData,
            Self::ReadyToTransfer(_) => PduType::ReadyToTransfer,
        }
    }

    /// The specification's name of it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::InitializeRequest(_) => "ICReq",
            Self::InitializeResponse(_) => "ICResp",
            Self::H2cTerminate(_) => "H2CTermReq",
            Self::C2hTerminate(_) => "C2HTermReq",
            Self::CapsuleCommand(_) => "CapsuleCmd",
            Self::CapsuleResponse(_) => "CapsuleResp",
            Self::H2cData(_) => "H2CData",
            Self::C2hData(_) => "C2HData",
            Self::ReadyToTransfer(_) => "R2T",
        }
    }
}

/// Initialize Connection Request (TCP figure 17).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InitializeRequest {
    /// PDU Format Version (PFV).
    pub format_version: u16,
    /// Host PDU Data Alignment (HPDA), of data that the controller sends.
    pub alignment: Alignment,
    /// Digests that the host can use.
    pub digests: Digests,
    /// Most R2T PDUs outstanding for one command; MAXR2T is this, zero-based.
    pub max_r2t: u32,
}

/// Initialize Connection Response (TCP figure 18).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InitializeResponse {
    /// PDU Format Version (PFV).
    pub format_version: u16,
    /// Controller PDU Data Alignment (CPDA), of data that the host sends.
    pub alignment: Alignment,
    /// Digests in use, of those that the host can use.
    pub digests: Digests,
    /// Most data in one H2CData PDU (MAXH2CDATA), in bytes.
    pub max_h2c_data_bytes: u32,
}

/// Host to Controller Data Transfer (TCP figure 25). Its data is as long as
/// `length`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct H2cData {
    /// Command Capsule CID (CCCID).
    pub command: CommandId,
    /// Transfer Tag (TTAG), of the R2T that asked for it.
    pub transfer_tag: u16,
    /// Data Offset (DATAO) in the command's data, in bytes.
    pub offset: u32,
    /// Data Length (DATAL) in bytes.
    pub length: u32,
    /// LAST_PDU: ends what the R2T asked for.
    pub last: bool,
}

/// Controller to Host Data Transfer (TCP figure 26).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct C2hData {
    /// Command Capsule CID (CCCID).
    pub command: CommandId,
    /// Data Offset (DATAO) in the command's data, in bytes.
    pub offset: u32,
    /// Data Length (DATAL) in bytes.
    pub length: u32,
    /// LAST_PDU: ends the command's data.
    pub last: bool,
    /// SUCCESS: the command succeeded, and no response capsule follows.
    pub success: bool,
}

/// Ready to Transfer (TCP figure 27).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadyToTransfer {
    /// Command Capsule CID (CCCID).
    pub command: CommandId,
    /// Transfer Tag (TTAG): the controller's name for the request.
    pub transfer_tag: u16,
    /// Offset of the data asked for (R2TO), in bytes.
    pub offset: u32,
    /// Its length (R2TL) in bytes.
    pub length: u32,
}

/// ICReq and ICResp on the wire.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct WireInitialize {
    pub(super) common: CommonHeader,
    /// PFV.
    pub(super) pfv: U16,
    /// HPDA or CPDA.
    pub(super) alignment: u8,
    /// DGST.
    pub(super) digests: u8,
    /// MAXR2T or MAXH2CDATA.
    pub(super) limit: U32,
    pub(super) rsvd16: [u8; 112],
}

/// H2CData, C2HData and R2T on the wire.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct WireTransfer {
    pub(super) common: CommonHeader,
    /// CCCID.
    pub(super) cccid: U16,
    /// TTAG; reserved in C2HData.
    pub(super) ttag: U16,
    /// DATAO or R2TO.
    pub(super) offset: U32,
    /// DATAL or R2TL.
    pub(super) length: U32,
    pub(super) rsvd20: [u8; 4],
}

/// CapsuleCmd on the wire.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct WireCommand {
    pub(super) common: CommonHeader,
    pub(super) sqe: SubmissionEntry,
}

/// CapsuleResp on the wire.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct WireResponse {
    pub(super) common: CommonHeader,
    pub(super) cqe: CompletionEntry,
}

const _: () = assert!(
    size_of::<WireInitialize>() == 128
        && size_of::<WireTransfer>() == 24
        && size_of::<WireCommand>() == 72
        && size_of::<WireResponse>() == 24
);
