//! From PDUs to bytes.

use zerocopy::IntoBytes;

use super::common::{CommonHeader, PduFlags};
use super::digest::{Digests, digest};
use super::layout::Format;
use super::pdu::{Pdu, WireCommand, WireInitialize, WireResponse, WireTransfer};
use super::terminate::WireTerminate;

/// What follows an encoded header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EncodedData {
    /// Bytes of data to send.
    pub bytes: u32,
    /// Whether the data's digest is to follow it.
    pub digest: bool,
}

/// Appends the header, its digest and the padding before `data_bytes` of data,
/// and says what the caller has to send behind it: the data, and its digest (in
/// little-endian order) if so. `data_bytes` is that of in-capsule data or of the
/// header that a terminate request repeats; transfers have their own length.
pub fn encode(pdu: &Pdu, data_bytes: u32, format: &Format, out: &mut Vec<u8>) -> EncodedData {
    let kind = pdu.pdu_type();
    let bytes = match pdu {
        Pdu::H2cData(data) => data.length,
        Pdu::C2hData(data) => data.length,
        Pdu::CapsuleCommand(_) | Pdu::H2cTerminate(_) | Pdu::C2hTerminate(_) => data_bytes,
        _ => 0,
    };
    let has_data = bytes > 0 && kind.has_data();
    let header_bytes = format.header_bytes(kind);
    let header_digest = header_bytes > usize::from(kind.header_length());
    let data_digest = has_data && format.digests.contains(Digests::DATA);
    let data_offset = if has_data { format.data_offset(kind) } else { header_bytes };
    let mut flags = PduFlags::empty();
    flags.set(PduFlags::HEADER_DIGEST, header_digest);
    flags.set(PduFlags::DATA_DIGEST, data_digest);
    match pdu {
        Pdu::H2cData(data) => flags.set(PduFlags::LAST, data.last),
        Pdu::C2hData(data) => {
            flags.set(PduFlags::LAST, data.last);
            flags.set(PduFlags::SUCCESS, data.success);
        }
        _ => {}
    }
    let common = CommonHeader {
        pdu_type: kind as u8,
        flags: flags.bits(),
        hlen: kind.header_length(),
        // At most 128 bytes, the largest header with data being 76 bytes.
        pdo: if has_data { data_offset as u8 } else { 0 },
        plen: (data_offset as u32).saturating_add(bytes).saturating_add(if data_digest { 4 } else { 0 }).into(),
    };
    let start = out.len();
    push(pdu, common, out);
    if header_digest {
        let digest = digest(&out[start..]);
        out.extend_from_slice(&digest.to_le_bytes());
    }
    out.resize(start + data_offset, 0);
    EncodedData { bytes, digest: data_digest }
}

fn push(pdu: &Pdu, common: CommonHeader, out: &mut Vec<u8>) {
    let initialize = |pfv: u16, alignment: u8, digests: u8, limit: u32| WireInitialize {
        common,
        pfv: pfv.into(),
        alignment,
        digests,
        limit: limit.into(),
        rsvd16: [0; 112],
    };
    let transfer = |cccid: u16, ttag: u16, offset: u32, length: u32| WireTransfer {
        common,
        cccid: cccid.into(),
        ttag: ttag.into(),
        offset: offset.into(),
        length: length.into(),
        rsvd20: [0; 4],
    };
    match pdu {
        Pdu::InitializeRequest(request) => {
            let limit = request.max_r2t.saturating_sub(1);
            let wire = initialize(request.format_version, request.alignment.field(), request.digests.bits(), limit);
            out.extend_from_slice(wire.as_bytes());
        }
        Pdu::InitializeResponse(response) => {
            let limit = response.max_h2c_data_bytes;
            let wire = initialize(response.format_version, response.alignment.field(), response.digests.bits(), limit);
            out.extend_from_slice(wire.as_bytes());
        }
        Pdu::H2cTerminate(request) | Pdu::C2hTerminate(request) => {
            let (fes, fei) = (request.status.into(), request.information.into());
            out.extend_from_slice(WireTerminate { common, fes, fei, rsvd14: [0; 10] }.as_bytes());
        }
        Pdu::CapsuleCommand(sqe) => out.extend_from_slice(WireCommand { common, sqe: *sqe }.as_bytes()),
        Pdu::CapsuleResponse(cqe) => out.extend_from_slice(WireResponse { common, cqe: *cqe }.as_bytes()),
        Pdu::H2cData(data) => {
            let wire = transfer(data.command.0, data.transfer_tag, data.offset, data.length);
            out.extend_from_slice(wire.as_bytes());
        }
        Pdu::C2hData(data) => {
            out.extend_from_slice(transfer(data.command.0, 0, data.offset, data.length).as_bytes());
        }
        Pdu::ReadyToTransfer(r2t) => {
            let wire = transfer(r2t.command.0, r2t.transfer_tag, r2t.offset, r2t.length);
            out.extend_from_slice(wire.as_bytes());
        }
    }
}
