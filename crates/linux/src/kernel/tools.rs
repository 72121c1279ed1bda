//! The programs that a build needs, and the Debian package of each.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::target::Target;
use crate::error::LinuxError;

const TOOLS: [(&str, &str); 11] = [
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("strip", "binutils"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("patch", "patch"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
    ("perl", "perl"),
];

/// A header that only the C library's development package holds.
const C_LIBRARY: &str = "/usr/include/stdio.h";

/// Whether all that a build needs is there.
pub(super) fn check(target: Target) -> Result<(), LinuxError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut missing: Vec<(&str, &str)> =
        TOOLS.into_iter().filter(|(program, _)| find(program, &path).is_none()).collect();
    if !Path::new(C_LIBRARY).exists() {
        missing.push(("stdio.h", "libc6-dev"));
    }
    missing.extend(target.header().filter(|(header, _)| !Path::new(header).exists()));
    if missing.is_empty() {
        return Ok(());
    }
    let programs = missing.iter().map(|(program, _)| (*program).to_owned()).collect();
    let mut packages: Vec<String> = missing.iter().map(|(_, package)| (*package).to_owned()).collect();
    packages.dedup();
    Err(LinuxError::MissingTools { programs, packages })
}

/// Where `program` lies on `path`, the value of `PATH`.
pub fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn found_on_the_path_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("bison"), "").unwrap();
        let path = std::env::join_paths([Path::new("/nowhere"), folder.path()]).unwrap();
        assert_eq!(find("bison", &path), Some(folder.path().join("bison")));
        assert_eq!(find("flex", &path), None);
        assert_eq!(find("bison", OsStr::new("")), None);
    }
}
