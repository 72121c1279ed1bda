//! The operations of a zoned device that can disturb and be disturbed.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Random reads.
    Read,
    /// Writes at the write pointer.
    Write,
    /// Zone appends.
    Append,
    /// Zone resets.
    Reset,
    /// Zone finishes.
    Finish,
}

/// A word that is no operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an operation; write read, write, append, reset or finish")]
pub struct UnknownOperation(String);

impl Operation {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Append, Self::Reset, Self::Finish];

    /// Its name, as tables and options have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Append => "append",
            Self::Reset => "reset",
            Self::Finish => "finish",
        }
    }

    /// Whether it manages a zone and moves no data of the host's.
    pub const fn is_management(self) -> bool {
        matches!(self, Self::Reset | Self::Finish)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(text: &str) -> Result<Self, UnknownOperation> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.name() == text)
            .ok_or_else(|| UnknownOperation(text.to_owned()))
    }
}
