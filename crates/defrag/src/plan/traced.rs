//! FragPicker proper: the windows of a trace.

use super::assumed::{Accesses, Candidate};
use crate::ByteRange;
use crate::analysis::Window;

/// The traced windows, cut to the file as it is now.
pub(super) fn candidates(windows: &[Window], size_bytes: u64) -> impl Iterator<Item = Candidate<'_>> {
    let whole = ByteRange { start: 0, end: size_bytes };
    windows.iter().filter_map(move |window| {
        let range = window.range.intersection(&whole)?;
        Some(Candidate { range, accesses: accesses(window) })
    })
}

/// Those of one window.
pub(super) fn accesses(window: &Window) -> Accesses<'_> {
    let longest_bytes = window.touches.iter().map(|touch| touch.range.len()).max().unwrap_or(0);
    Accesses::Listed { touches: &window.touches, longest_bytes }
}
