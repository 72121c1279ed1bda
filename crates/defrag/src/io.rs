//! One access to a file, as a trace has it.

use serde::{Deserialize, Serialize};

use crate::file::FileId;
use crate::range::ByteRange;

/// How a program came to the bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IoKind {
    /// Through the page cache.
    BufferedRead,
    /// Through the page cache, to be written back.
    BufferedWrite,
    /// Past the page cache.
    DirectRead,
    /// Past the page cache.
    DirectWrite,
    /// A page fault in a mapping.
    Mapped,
    /// What the kernel's readahead asked the device for: a request as it was sent,
    /// to which no rule about windows is to be applied.
    Readahead,
}

/// One access, or `count` equal ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// To which file.
    pub file: FileId,
    /// Which bytes.
    pub range: ByteRange,
    /// How.
    pub kind: IoKind,
    /// How often; at least one.
    pub count: u64,
}
