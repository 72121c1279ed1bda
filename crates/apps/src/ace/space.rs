//! The bounds: which files and folders there are, and which ranges of a file operations are about.

/// Files, each with two neighbours at most in its folder. Operations on contents take one of a kind: [`CONTENTS`].
pub const FILES: [&str; 7] = ["foo", "bar", "A/foo", "A/bar", "B/foo", "A/C/foo", "A/C/bar"];
/// Folders, outer ones first.
pub const FOLDERS: [&str; 3] = ["A", "B", "A/C"];
/// The files that operations on contents use: one at the top, one in a folder.
pub const CONTENTS: [&str; 2] = ["foo", "A/foo"];
/// The files that get another name.
pub const SOURCES: [&str; 3] = ["foo", "A/foo", "A/C/foo"];
/// A file that is there has so many bytes: four pages, and a part of one.
pub const FILE_BYTES: u64 = 4 * 4096 + 100;
/// What one operation changes.
pub const RANGE_BYTES: u64 = 4096;

/// The folder that a name is in, empty for the workload's own.
pub fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(parent, _)| parent)
}
