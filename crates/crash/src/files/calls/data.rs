//! The bytes of a write.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::super::tree::SECTOR_BYTES;
use crate::log::digest;

/// Bytes, or how many there were where they are not known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Data {
    /// These.
    Bytes(Vec<u8>),
    /// Many, of which the file's whole sectors are known by their digests.
    Sectors(Sectors),
    /// So many zeroes.
    Zeroes(u64),
    /// So many that could not be read.
    Unknown(u64),
}

/// What takes less memory than the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sectors {
    /// Bytes before the first whole sector of the file.
    pub(in crate::files) head: Vec<u8>,
    /// Of each sector a digest; 0 for zeroes.
    pub(in crate::files) digests: Vec<u64>,
    /// Bytes behind the last.
    pub(in crate::files) tail: Vec<u8>,
}

impl Sectors {
    fn len_bytes(&self) -> u64 {
        (self.head.len() + self.tail.len()) as u64 + self.digests.len() as u64 * SECTOR_BYTES
    }
}

impl Data {
    /// How many.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Sectors(sectors) => sectors.len_bytes(),
            Self::Zeroes(len_bytes) | Self::Unknown(len_bytes) => *len_bytes,
        }
    }

    /// Only the first ones.
    pub fn truncate(&mut self, to_bytes: u64) {
        match self {
            Self::Bytes(bytes) => bytes.truncate(usize::try_from(to_bytes).unwrap_or(usize::MAX)),
            Self::Sectors(sectors) if sectors.len_bytes() > to_bytes => *self = Self::Unknown(to_bytes),
            Self::Sectors(_) => {}
            Self::Zeroes(len_bytes) | Self::Unknown(len_bytes) => *len_bytes = to_bytes.min(*len_bytes),
        }
    }

    /// The same, written to `offset_bytes` of a file, in less memory: bytes that are not all zero only by digests of whole sectors.
    pub fn by_sectors(self, offset_bytes: u64) -> Self {
        let Self::Bytes(bytes) = self else { return self };
        let first = ((SECTOR_BYTES - offset_bytes % SECTOR_BYTES) % SECTOR_BYTES) as usize;
        let (head, rest) = bytes.split_at(first.min(bytes.len()));
        let sectors = rest.chunks_exact(SECTOR_BYTES as usize);
        let tail = sectors.remainder().to_vec();
        Self::Sectors(Sectors { head: head.to_vec(), digests: sectors.map(digest).collect(), tail })
    }
}

/// As text: base64, or a number.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Text {
    Bytes(String),
    /// Digests of 8 bytes each, the lowest first.
    Sectors {
        head: String,
        digests: String,
        tail: String,
    },
    Zeroes {
        zeroes: u64,
    },
    Unknown(u64),
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bytes(bytes) => Text::Bytes(STANDARD.encode(bytes)),
            Self::Sectors(Sectors { head, digests, tail }) => {
                let digests: Vec<u8> = digests.iter().flat_map(|digest| digest.to_le_bytes()).collect();
                let [head, digests, tail] = [head, &digests, tail].map(|bytes| STANDARD.encode(bytes));
                Text::Sectors { head, digests, tail }
            }
            Self::Zeroes(zeroes) => Text::Zeroes { zeroes: *zeroes },
            Self::Unknown(len_bytes) => Text::Unknown(*len_bytes),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let decode = |text: String| STANDARD.decode(text).map_err(serde::de::Error::custom);
        match Text::deserialize(deserializer)? {
            Text::Bytes(text) => decode(text).map(Self::Bytes),
            Text::Sectors { head, digests, tail } => {
                let digests = decode(digests)?;
                let (digests, []) = digests.as_chunks() else {
                    return Err(serde::de::Error::custom("digests are of 8 bytes"));
                };
                let digests = digests.iter().map(|digest| u64::from_le_bytes(*digest)).collect();
                Ok(Self::Sectors(Sectors { head: decode(head)?, digests, tail: decode(tail)? }))
            }
            Text::Zeroes { zeroes } => Ok(Self::Zeroes(zeroes)),
            Text::Unknown(len_bytes) => Ok(Self::Unknown(len_bytes)),
        }
    }
}
