//! Unpacks the part of the kernel's source that User-Mode Linux is built from.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::source::Source;
use super::unused;
use crate::error::LinuxError;

/// Unpacks `source` so that `folder` is the top of the kernel's tree, whole or not at all.
pub(super) fn unpack(source: &Source, folder: &Path) -> Result<(), LinuxError> {
    let parent = folder.parent().unwrap_or(Path::new("/"));
    let cannot_write = |path: &Path| LinuxError::system(format!("cannot write {}", path.display()));
    let partial = tempfile::Builder::new().prefix("unpacking-").tempdir_in(parent).map_err(cannot_write(parent))?;
    let failed = |what: &str| LinuxError::NoSource { reason: format!("{} {what}", source.path().display()) };

    let mut children: Vec<(&str, Child)> = Vec::new();
    let mut start = |name: &'static str, command: &mut Command| {
        if let Some((_, before)) = children.last_mut() {
            command.stdin(before.stdout.take().map_or(Stdio::null(), Stdio::from));
        }
        let child = command.spawn().map_err(LinuxError::system(format!("cannot run {name}")))?;
        children.push((name, child));
        Ok::<(), LinuxError>(())
    };
    let piped = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        command
    };
    match source {
        Source::Archive(path) => start("xz", piped("xz", &["-dcT0", "--"]).arg(path))?,
        Source::Package(path) => {
            start("dpkg-deb", piped("dpkg-deb", &["--fsys-tarfile"]).arg(path))?;
            start("tar", &mut piped("tar", &["-xO", "--wildcards", "./usr/src/*.tar.xz"]))?;
            start("xz", &mut piped("xz", &["-dcT0"]))?;
        }
    }
    let mut tar = piped("tar", &["-x", "--strip-components=1"]);
    start("tar", tar.args(unused::tar_exclusions()).current_dir(partial.path()).stdout(Stdio::null()))?;

    let mut failure = None;
    for (name, mut child) in children {
        let status: ExitStatus = child.wait().map_err(LinuxError::system(format!("cannot wait for {name}")))?;
        if !status.success() {
            failure.get_or_insert_with(|| failed(&format!("cannot be unpacked: {name} ended with {status}")));
        }
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    if !partial.path().join("arch/um/Makefile").is_file() {
        return Err(failed("holds no kernel source"));
    }
    fs::rename(partial.keep(), folder).map_err(cannot_write(folder))
}

/// The release that a source tree's makefile names: `6.12.117`.
pub(super) fn release(folder: &Path) -> Result<String, LinuxError> {
    let path = folder.join("Makefile");
    let text = fs::read_to_string(&path).map_err(LinuxError::system(format!("cannot read {}", path.display())))?;
    release_in(&text).ok_or_else(|| LinuxError::NoSource { reason: format!("{} names no release", path.display()) })
}

fn release_in(makefile: &str) -> Option<String> {
    let value = |name: &str| {
        let line = makefile.lines().find(|line| line.split('=').next().is_some_and(|word| word.trim() == name))?;
        let number = line.split('=').nth(1)?.trim();
        number.parse::<u32>().ok()
    };
    Some(format!("{}.{}.{}", value("VERSION")?, value("PATCHLEVEL")?, value("SUBLEVEL")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_of_a_makefile() {
        let makefile = "# c\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\nEXTRAVERSION =\nVERSIONS = 9\n";
        assert_eq!(release_in(makefile).as_deref(), Some("6.12.117"));
        assert_eq!(release_in("VERSION = six\n"), None);
        assert_eq!(release_in(""), None);
    }

    #[test]
    fn an_archive_without_a_kernel_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("x.tar.xz");
        fs::write(&archive, "not xz").unwrap();
        let target = folder.path().join("tree");
        let error = unpack(&Source::Archive(archive), &target).unwrap_err().to_string();
        assert!(error.contains("cannot be unpacked"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
