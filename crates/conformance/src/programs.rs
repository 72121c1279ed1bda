//! Programs of the host that a guest uses, with the shared libraries they are linked against.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use file_systems::{FileSystem, Tools};

use crate::{Error, host};

/// Programs of every guest besides those of file systems, and the Debian packages that have them.
pub const PROGRAMS: [(&str, &[&str]); 10] = [
    ("bash", &["bash"]),
    ("busybox-static", &["busybox"]),
    ("kmod", &["modprobe"]),
    (
        "coreutils",
        &[
            "cat",
            "cut",
            "date",
            "dd",
            "df",
            "echo",
            "head",
            "ls",
            "mkdir",
            "mktemp",
            "od",
            "realpath",
            "rm",
            "sha256sum",
            "sleep",
            "sort",
            "stat",
            "sync",
            "tail",
            "tee",
            "timeout",
            "touch",
            "tr",
            "truncate",
            "uname",
            "wc",
        ],
    ),
    ("grep", &["grep"]),
    ("sed", &["sed"]),
    ("diffutils", &["cmp"]),
    (
        "util-linux",
        &[
            "blkdiscard",
            "blkzone",
            "blockdev",
            "dmesg",
            "findmnt",
            "getopt",
            "losetup",
            "lsblk",
            "mount",
            "mountpoint",
            "umount",
        ],
    ),
    ("nvme-cli", &["nvme"]),
    ("fio", &["fio"]),
];

/// A file of the host and where the guest sees it.
pub type Copy = (PathBuf, PathBuf);

/// Every program of [`PROGRAMS`], of the file systems and `extra`, with their libraries.
pub fn collect(extra: &[PathBuf]) -> Result<Vec<Copy>, Error> {
    let mut programs = Vec::new();
    for (package, names) in PROGRAMS {
        for name in names {
            programs.push(host::require(name, package)?);
        }
    }
    for tools in FileSystem::ALL.into_iter().filter_map(|(file_system, _)| Tools::of(file_system)) {
        // Plumb itself is among what a caller adds.
        for tool in [tools.make, tools.check].into_iter().filter(|tool| !tool.is_own()) {
            programs.push(host::require(tool.program, tool.package)?);
        }
    }
    programs.extend(extra.iter().cloned());
    let mut copies = BTreeSet::new();
    let libraries = libraries(&programs)?;
    for program in programs {
        let name = program.file_name().unwrap_or(program.as_os_str()).to_owned();
        copies.insert((program.clone(), Path::new("/bin").join(name)));
    }
    for library in libraries {
        copies.insert((library.clone(), library));
    }
    Ok(copies.into_iter().collect())
}

/// The shared libraries of programs, as the host's loader finds them; none for a static program.
pub fn libraries(programs: &[PathBuf]) -> Result<BTreeSet<PathBuf>, Error> {
    let ldd = host::require("ldd", "libc-bin")?;
    // A static program makes ldd fail and says so; what the others need is printed all the same.
    let output = Command::new(ldd).args(programs).output().map_err(Error::file(Path::new("ldd")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(lost) = text.lines().find(|line| line.contains("not found")) {
        return Err(Error::missing(format!("a shared library: {}", lost.trim()), "install it"));
    }
    Ok(text.lines().filter_map(library).collect())
}

/// `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)` or `/lib64/ld-linux-x86-64.so.2 (0x…)`.
fn library(line: &str) -> Option<PathBuf> {
    let line = line.trim();
    let path = line.split_once("=>").map_or(line, |(_, path)| path.trim());
    let path = path.split_once(" (0x")?.0;
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_library_line_are_read() {
        assert_eq!(library("\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f)"), Some("/lib/x/libc.so.6".into()));
        assert_eq!(library("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)"), Some("/lib64/ld-linux-x86-64.so.2".into()));
        assert_eq!(library("\tlinux-vdso.so.1 (0x00007f)"), None);
        assert_eq!(library("\tnot a dynamic executable"), None);
        assert_eq!(library("/bin/bash:"), None);
    }
}
