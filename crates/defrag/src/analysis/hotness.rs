//! The hottest windows of a file.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use super::window::Window;

/// Per cent of a file's windows to keep, 0 to 100.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Hotness(u8);

impl Hotness {
    /// Every window, which the published measurements use.
    pub const ALL: Self = Self(100);

    /// The number.
    pub fn percent(self) -> u8 {
        self.0
    }
}

impl Default for Hotness {
    fn default() -> Self {
        Self::ALL
    }
}

impl fmt::Display for Hotness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Not a whole number from 0 to 100.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a hotness; give the per cent of windows to keep, a whole number from 0 to 100")]
pub struct ParseHotnessError {
    text: String,
}

impl FromStr for Hotness {
    type Err = ParseHotnessError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let percent = text.trim().trim_end_matches('%').parse().ok().filter(|percent| *percent <= 100);
        percent.map(Self).ok_or_else(|| ParseHotnessError { text: text.to_owned() })
    }
}

/// The `hotness` per cent of `windows` with the greatest counts, rounded down, in the order of the file.
///
/// Per cent are of the number of windows, not of their bytes, as published. Of windows
/// with the same count the earlier in the file go first; the artifact leaves that to the order of text.
pub fn hottest(mut windows: Vec<Window>, hotness: Hotness) -> Vec<Window> {
    // A count of windows fits 128 bits a hundred times over, and the quotient is no more than it was.
    let kept = windows.len() as u128 * u128::from(hotness.0) / 100;
    windows.sort_by_key(|window| (Reverse(window.count), window.range.start));
    windows.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
    windows.sort_by_key(|window| window.range.start);
    windows
}
