//! Where the parts of a PDU are.

use super::common::{CommonHeader, PduFlags, PduType};
use super::digest::{DIGEST_BYTES, Digests};
use super::error::{Field, PduError};

/// Data alignment of one direction: HPDA or CPDA, in dwords and zero-based (TCP
/// 3.3.1.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Alignment(u8);

impl Alignment {
    /// The largest field value.
    pub const MAX: u8 = 31;

    /// Of a field; `None` beyond [`Alignment::MAX`].
    pub fn from_field(field: u8) -> Option<Self> {
        (field <= Self::MAX).then_some(Self(field))
    }

    /// The field.
    pub fn field(self) -> u8 {
        self.0
    }

    /// In bytes: 4 to 128.
    pub fn bytes(self) -> usize {
        (usize::from(self.0) + 1) * 4
    }
}

/// What two ends agreed on, for the PDUs of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Format {
    /// The digests in use.
    pub digests: Digests,
    /// What the PDU Data Offset is a multiple of.
    pub alignment: Alignment,
}

impl Format {
    /// Header and header digest of a PDU type, in bytes.
    pub fn header_bytes(&self, pdu: PduType) -> usize {
        let digest = pdu.has_digests() && self.digests.contains(Digests::HEADER);
        usize::from(pdu.header_length()) + if digest { DIGEST_BYTES } else { 0 }
    }

    /// Where data begins in a PDU of this type that carries some.
    pub fn data_offset(&self, pdu: PduType) -> usize {
        self.header_bytes(pdu).next_multiple_of(self.alignment.bytes())
    }
}

/// The parts of one PDU, in bytes from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Its type.
    pub pdu_type: PduType,
    /// Header and header digest.
    pub header_bytes: usize,
    /// Where the data begins; the end of the header where there is none. What
    /// lies between is padding.
    pub data_offset: usize,
    /// The data; 0 where there is none.
    pub data_bytes: u32,
    /// Whether a data digest follows the data.
    pub data_digest: bool,
}

impl Layout {
    /// Checks FLAGS, PDO and PLEN of a header against each other and against what
    /// was agreed on. Type and HLEN are those of `pdu`.
    pub(super) fn check(pdu: PduType, header: &CommonHeader, format: &Format) -> Result<Self, PduError> {
        let invalid = |field, value| Err(PduError::Field { field, value });
        let plen = header.plen.get();
        let flags = PduFlags::from_bits_truncate(header.flags) & pdu.flags();
        let header_bytes = format.header_bytes(pdu);
        let header_digest = header_bytes > usize::from(pdu.header_length());
        if flags.contains(PduFlags::HEADER_DIGEST) != header_digest {
            return invalid(Field::Flags, header.flags.into());
        }
        // Bounded by HLEN and a digest, so it fits.
        let Some(rest) = plen.checked_sub(header_bytes as u32) else { return invalid(Field::Length, plen) };
        let plain = Self { pdu_type: pdu, header_bytes, data_offset: header_bytes, data_bytes: 0, data_digest: false };
        if rest == 0 || !pdu.has_data() {
            return match pdu {
                // Their rest is the header of the PDU they complain about.
                PduType::H2cTerminate | PduType::C2hTerminate if rest as usize <= super::MAX_OFFENDING_BYTES => {
                    Ok(Self { data_bytes: rest, ..plain })
                }
                PduType::H2cData | PduType::C2hData => invalid(Field::Length, plen),
                _ if rest > 0 => invalid(Field::Length, plen),
                _ if flags.contains(PduFlags::DATA_DIGEST) => invalid(Field::Flags, header.flags.into()),
                _ => Ok(plain),
            };
        }
        if flags.contains(PduFlags::DATA_DIGEST) != format.digests.contains(Digests::DATA) {
            return invalid(Field::Flags, header.flags.into());
        }
        let data_offset = usize::from(header.pdo);
        if data_offset < header_bytes || !data_offset.is_multiple_of(format.alignment.bytes()) {
            return invalid(Field::DataOffset, header.pdo.into());
        }
        let data_digest = flags.contains(PduFlags::DATA_DIGEST);
        let around = data_offset + if data_digest { DIGEST_BYTES } else { 0 };
        match plen.checked_sub(around as u32) {
            Some(data_bytes @ 1..) => Ok(Self { data_offset, data_bytes, data_digest, ..plain }),
            _ => invalid(Field::Length, plen),
        }
    }

    /// The whole PDU (PLEN).
    pub fn pdu_bytes(&self) -> u64 {
        self.data_offset as u64 + u64::from(self.data_bytes) + if self.data_digest { DIGEST_BYTES as u64 } else { 0 }
    }
}
