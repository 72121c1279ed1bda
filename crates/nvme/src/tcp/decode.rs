//! From bytes to PDUs.

use zerocopy::FromBytes;

use super::common::{CommonHeader, HEADER_BYTES, PduFlags, PduType};
use super::digest::{DIGEST_BYTES, Digests, digest};
use super::error::{Direction, Field, PduError};
use super::layout::{Alignment, Format, Layout};
use super::pdu::{
    C2hData, H2cData, InitializeRequest, InitializeResponse, Pdu, ReadyToTransfer, WireCommand, WireInitialize,
    WireResponse, WireTransfer,
};
use super::terminate::{TerminateRequest, WireTerminate};
use super::{MIN_MAX_H2C_DATA_BYTES, PDU_FORMAT_VERSION};

/// How many bytes of a PDU that goes in `direction` make up its header and header
/// digest; `None` while fewer than 8 bytes have come.
///
/// # Errors
///
/// A PDU-Type that is reserved or goes the other way, or an HLEN that is not the
/// type's.
pub fn header_bytes(bytes: &[u8], direction: Direction, format: &Format) -> Result<Option<usize>, PduError> {
    match CommonHeader::ref_from_prefix(bytes) {
        Ok((header, _)) => Ok(Some(format.header_bytes(pdu_type(header, direction)?))),
        Err(_) => Ok(None),
    }
}

fn pdu_type(header: &CommonHeader, direction: Direction) -> Result<PduType, PduError> {
    let pdu = PduType::try_from(header.pdu_type)?;
    if pdu.direction() != direction {
        return Err(PduError::Field { field: Field::Type, value: header.pdu_type.into() });
    }
    if header.hlen != pdu.header_length() {
        return Err(PduError::Field { field: Field::HeaderLength, value: header.hlen.into() });
    }
    Ok(pdu)
}

/// Decodes the header of a PDU that goes in `direction`, from at least as many
/// bytes as [`header_bytes`] says; `None` when there are fewer. Its data is where
/// the layout says, and not looked at.
///
/// Reserved fields are ignored.
///
/// # Errors
///
/// Those of [`header_bytes`]; then a header digest that does not fit; then a
/// field that contradicts others or what was agreed on.
pub fn decode(bytes: &[u8], direction: Direction, format: &Format) -> Result<Option<(Pdu, Layout)>, PduError> {
    let Ok((common, _)) = CommonHeader::ref_from_prefix(bytes) else { return Ok(None) };
    let pdu = pdu_type(common, direction)?;
    let Some(header) = bytes.get(..format.header_bytes(pdu)) else { return Ok(None) };
    let (header, received) = header.split_at(usize::from(pdu.header_length()));
    // The digest first: with a wrong one, no field can be blamed.
    if let Ok(received) = <[u8; DIGEST_BYTES]>::try_from(received) {
        let (received, computed) = (u32::from_le_bytes(received), digest(header));
        if received != computed {
            return Err(PduError::HeaderDigest { received, computed });
        }
    }
    let layout = Layout::check(pdu, common, format)?;
    Ok(fields(pdu, header, common, &layout)?.map(|decoded| (decoded, layout)))
}

/// The fields of a header of the right length; `None` cannot happen.
fn fields(pdu: PduType, header: &[u8], common: &CommonHeader, layout: &Layout) -> Result<Option<Pdu>, PduError> {
    debug_assert!(header.len() >= HEADER_BYTES);
    Ok(match pdu {
        PduType::InitializeRequest => {
            let Ok(wire) = WireInitialize::ref_from_bytes(header) else { return Ok(None) };
            Some(Pdu::InitializeRequest(InitializeRequest {
                format_version: version(wire)?,
                alignment: alignment(wire)?,
                digests: Digests::from_bits_truncate(wire.digests),
                max_r2t: wire.limit.get().saturating_add(1),
            }))
        }
        PduType::InitializeResponse => {
            let Ok(wire) = WireInitialize::ref_from_bytes(header) else { return Ok(None) };
            let max_h2c_data_bytes = wire.limit.get();
            if max_h2c_data_bytes < MIN_MAX_H2C_DATA_BYTES || max_h2c_data_bytes % 4 != 0 {
                return Err(PduError::Field { field: Field::MaxH2cData, value: max_h2c_data_bytes });
            }
            Some(Pdu::InitializeResponse(InitializeResponse {
                format_version: version(wire)?,
                alignment: alignment(wire)?,
                digests: Digests::from_bits_truncate(wire.digests),
                max_h2c_data_bytes,
            }))
        }
        PduType::H2cTerminate | PduType::C2hTerminate => {
            let Ok(wire) = WireTerminate::ref_from_bytes(header) else { return Ok(None) };
            let request = TerminateRequest { status: wire.fes.get(), information: wire.fei.get() };
            Some(if pdu == PduType::H2cTerminate { Pdu::H2cTerminate(request) } else { Pdu::C2hTerminate(request) })
        }
        PduType::CapsuleCommand => WireCommand::ref_from_bytes(header).ok().map(|wire| Pdu::CapsuleCommand(wire.sqe)),
        PduType::CapsuleResponse => {
            WireResponse::ref_from_bytes(header).ok().map(|wire| Pdu::CapsuleResponse(wire.cqe))
        }
        PduType::H2cData | PduType::C2hData | PduType::ReadyToTransfer => {
            let Ok(wire) = WireTransfer::ref_from_bytes(header) else { return Ok(None) };
            Some(transfer(pdu, wire, common, layout)?)
        }
    })
}

fn version(wire: &WireInitialize) -> Result<u16, PduError> {
    match wire.pfv.get() {
        PDU_FORMAT_VERSION => Ok(PDU_FORMAT_VERSION),
        other => Err(PduError::Unsupported { field: Field::FormatVersion, value: other.into() }),
    }
}

fn alignment(wire: &WireInitialize) -> Result<Alignment, PduError> {
    Alignment::from_field(wire.alignment)
        .ok_or(PduError::Field { field: Field::Alignment, value: wire.alignment.into() })
}

fn transfer(pdu: PduType, wire: &WireTransfer, common: &CommonHeader, layout: &Layout) -> Result<Pdu, PduError> {
    let (offset, length) = (wire.offset.get(), wire.length.get());
    let flags = PduFlags::from_bits_truncate(common.flags);
    let (last, success) = (flags.contains(PduFlags::LAST), flags.contains(PduFlags::SUCCESS));
    let command = crate::CommandId(wire.cccid.get());
    let transfer_tag = wire.ttag.get();
    // Offsets and lengths of transfers are whole dwords (TCP 3.3.2.1).
    if offset % 4 != 0 {
        return Err(PduError::Field { field: Field::TransferOffset, value: offset });
    }
    let announced = pdu == PduType::ReadyToTransfer || length == layout.data_bytes;
    if length == 0 || length % 4 != 0 || !announced || offset.checked_add(length).is_none() {
        return Err(PduError::Field { field: Field::TransferLength, value: length });
    }
    if pdu == PduType::C2hData && success && !last {
        return Err(PduError::Field { field: Field::Flags, value: common.flags.into() });
    }
    Ok(match pdu {
        PduType::H2cData => Pdu::H2cData(H2cData { command, transfer_tag, offset, length, last }),
        PduType::C2hData => Pdu::C2hData(C2hData { command, offset, length, last, success }),
        _ => Pdu::ReadyToTransfer(ReadyToTransfer { command, transfer_tag, offset, length }),
    })
}
