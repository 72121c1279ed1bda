//! The bytes of a write.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes, or how many there were where they are not known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Data {
    /// These.
    Bytes(Vec<u8>),
    /// So many that could not be read.
    Unknown(u64),
}

impl Data {
    /// How many.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Unknown(len_bytes) => *len_bytes,
        }
    }

    /// Only the first ones.
    pub fn truncate(&mut self, to_bytes: u64) {
        match self {
            Self::Bytes(bytes) => bytes.truncate(usize::try_from(to_bytes).unwrap_or(usize::MAX)),
            Self::Unknown(len_bytes) => *len_bytes = to_bytes.min(*len_bytes),
        }
    }
}

/// As text: base64, or a number.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Text {
    Bytes(String),
    Unknown(u64),
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bytes(bytes) => Text::Bytes(STANDARD.encode(bytes)),
            Self::Unknown(len_bytes) => Text::Unknown(*len_bytes),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Text::deserialize(deserializer)? {
            Text::Bytes(text) => STANDARD.decode(text).map(Self::Bytes).map_err(serde::de::Error::custom),
            Text::Unknown(len_bytes) => Ok(Self::Unknown(len_bytes)),
        }
    }
}
