//! Which I/O is assumed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How the ranges are chosen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// FragPicker: the windows that a trace touched (SOSP '21, section 4).
    Traced,
    /// FragPicker in bypass (FP-B): every file as if it were read from end to end in windows of the
    /// readahead's size.
    Bypass,
    /// Every byte of every fragmented file, as conventional tools do; for comparison.
    Whole,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Traced, Self::Bypass, Self::Whole];

    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Traced => "traced",
            Self::Bypass => "bypass",
            Self::Whole => "whole",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Not the name of a mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no mode; there are traced, bypass and whole")]
pub struct ParseModeError {
    text: String,
}

impl FromStr for Mode {
    type Err = ParseModeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| ParseModeError { text: text.to_owned() })
    }
}
