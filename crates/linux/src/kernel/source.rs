//! Where the kernel's source comes from: a file that is named, the installed package, or apt.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::BuildProgress;
use crate::error::LinuxError;

/// The Debian package, and the series of kernels that the patches are made for.
const PACKAGE: &str = "linux-source-6.12";

/// A file that holds the source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// A tar archive compressed with xz.
    Archive(PathBuf),
    /// A Debian package that holds such an archive.
    Package(PathBuf),
}

impl Source {
    /// By the file's name.
    fn of(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        if name.ends_with(".tar.xz") {
            Some(Self::Archive(path))
        } else if name.ends_with(".deb") {
            Some(Self::Package(path))
        } else {
            None
        }
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        let (Self::Archive(path) | Self::Package(path)) = self;
        path
    }
}

/// The file that the environment names.
pub(super) fn named() -> Option<PathBuf> {
    std::env::var_os("PLUMB_KERNEL_SOURCE").map(PathBuf::from)
}

/// Finds the source, or fetches it into `downloads`.
pub(super) fn find(downloads: &Path, progress: &mut dyn FnMut(BuildProgress)) -> Result<Source, LinuxError> {
    if let Some(path) = named() {
        let missing = || LinuxError::NoSource {
            reason: format!("PLUMB_KERNEL_SOURCE={} is not a .tar.xz or .deb file", path.display()),
        };
        return Source::of(path.clone()).filter(|_| path.is_file()).ok_or_else(missing);
    }
    let installed = PathBuf::from(format!("/usr/src/{PACKAGE}.tar.xz"));
    if installed.is_file() {
        return Ok(Source::Archive(installed));
    }
    if let Some(package) = downloaded(downloads) {
        return Ok(Source::Package(package));
    }
    progress(BuildProgress::Downloading);
    download(downloads)?;
    downloaded(downloads)
        .map(Source::Package)
        .ok_or_else(|| LinuxError::NoSource { reason: format!("apt-get fetched no package {PACKAGE}") })
}

fn downloaded(downloads: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(downloads).ok()?;
    let mut packages: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .collect();
    packages.sort();
    packages.pop()
}

/// Fetches the newest version that apt knows; apt checks its signature and needs no privilege for it.
fn download(downloads: &Path) -> Result<(), LinuxError> {
    fs::create_dir_all(downloads)
        .map_err(LinuxError::system(format!("cannot make the folder {}", downloads.display())))?;
    let output = Command::new("apt-get")
        .args(["download", PACKAGE])
        .current_dir(downloads)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| LinuxError::NoSource { reason: format!("apt-get does not run: {error}") })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    Err(LinuxError::NoSource {
        reason: format!("`apt-get download {PACKAGE}` failed ({last}; `apt-get update` may help)"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_by_name() {
        let of = |name: &str| Source::of(PathBuf::from(name));
        assert_eq!(of("/a/linux-source-6.12.tar.xz"), Some(Source::Archive("/a/linux-source-6.12.tar.xz".into())));
        assert_eq!(of("b.deb"), Some(Source::Package("b.deb".into())));
        assert_eq!(of("b.tar.gz"), None);
        assert_eq!(of("/"), None);
    }
}
