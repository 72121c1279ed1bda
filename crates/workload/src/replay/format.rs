//! Trace formats by name and by content.

use std::fmt;
use std::str::FromStr;

use super::{IologVersion, alibaba, blkparse, msr};

/// A trace format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TraceFormat {
    /// fio's I/O log.
    Iolog(IologVersion),
    /// Text of blkparse in its default form.
    Blkparse,
    /// CSV of MSR Cambridge.
    Msr,
    /// CSV of Alibaba's block traces.
    Alibaba,
}

impl TraceFormat {
    /// All formats.
    pub const ALL: [Self; 5] =
        [Self::Iolog(IologVersion::V2), Self::Iolog(IologVersion::V3), Self::Blkparse, Self::Msr, Self::Alibaba];

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Iolog(IologVersion::V2) => "iolog2",
            Self::Iolog(IologVersion::V3) => "iolog3",
            Self::Blkparse => "blkparse",
            Self::Msr => "msr",
            Self::Alibaba => "alibaba",
        }
    }

    /// What it is, in a line.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Iolog(IologVersion::V2) => "fio I/O log version 2 (--write_iolog of fio before 3.31)",
            Self::Iolog(IologVersion::V3) => "fio I/O log version 3, with timestamps (--write_iolog since fio 3.31)",
            Self::Blkparse => "text of blkparse in its default form",
            Self::Msr => "CSV of MSR Cambridge (SNIA IOTTA)",
            Self::Alibaba => "CSV of Alibaba's block traces",
        }
    }

    /// The names of all formats.
    pub fn names() -> Vec<&'static str> {
        Self::ALL.map(Self::name).into()
    }

    /// The format whose traces can begin with `line`; each line fits one at most.
    pub(super) fn detect(line: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|format| match format {
            Self::Iolog(version) => line == version.header().as_bytes(),
            Self::Blkparse => blkparse::recognises(line),
            Self::Msr => format.is_header(line) || msr::recognises(line),
            Self::Alibaba => format.is_header(line) || alibaba::recognises(line),
        })
    }

    /// Whether `line` names the columns, as some people's copies do.
    pub(super) fn is_header(self, line: &[u8]) -> bool {
        match self {
            Self::Iolog(_) | Self::Blkparse => false,
            Self::Msr => line.eq_ignore_ascii_case(msr::HEADER.as_bytes()),
            Self::Alibaba => line.eq_ignore_ascii_case(alibaba::HEADER.as_bytes()),
        }
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a text is not a format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a trace format; known are {}", TraceFormat::names().join(", "))]
pub struct ParseTraceFormatError {
    name: String,
}

impl FromStr for TraceFormat {
    type Err = ParseTraceFormatError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or_else(|| ParseTraceFormatError { name: name.to_owned() })
    }
}
