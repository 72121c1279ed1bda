//! `mount -t fuse.plumb`: mount(8) starts `/sbin/mount.fuse.plumb`, a link to this program.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The name under which mount(8) looks for its helper.
const HELPER: &str = "mount.fuse.plumb";

/// The command line as it is meant: that of mount(8), `SOURCE DIR [-sfnv] [-o OPTIONS] [-t TYPE]`, becomes
/// `plumb fs mount SOURCE DIR --background -o OPTIONS`.
pub fn command_line(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut given: Vec<OsString> = given.collect();
    let is_helper = given.first().and_then(|name| Path::new(name).file_name()).is_some_and(|name| name == HELPER);
    if !is_helper {
        return given;
    }
    let mut line: Vec<OsString> = ["plumb", "fs", "mount", "--background"].map(OsString::from).into();
    let mut words = given.drain(1..);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("-o") => line.extend([Some(word), words.next()].into_iter().flatten()),
            Some("-t" | "-N") => drop(words.next()),
            Some(flags) if flags.starts_with('-') && is_of(flags, "sfnv") => {}
            _ => line.push(word),
        }
    }
    line
}

/// Whether all letters behind the dash are among these.
fn is_of(flags: &str, letters: &str) -> bool {
    OsStr::new(flags) != "-" && flags.chars().skip(1).all(|letter| letters.contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(line: &str) -> String {
        let line = command_line(line.split(' ').map(OsString::from));
        line.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn mounts_words_become_this_programs() {
        let line = "/sbin/mount.fuse.plumb /disk /mnt -sv -o rw,noatime -t fuse.plumb";
        assert_eq!(meant(line), "plumb fs mount --background /disk /mnt -o rw,noatime");
        assert_eq!(meant("plumb fs mount a b -t"), "plumb fs mount a b -t");
    }
}
