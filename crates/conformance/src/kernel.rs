//! Kernels to boot: the newest Debian package of a series, unpacked in the cache with its module index, or one that was built.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::apt::Apt;
use crate::{Error, host};

/// A series of kernels that Debian ships.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Series {
    /// 6.12: Debian 13, and Debian 12's security archive. Has `ublk_drv`, `nvme-loop` and in-band authentication.
    V6_12,
    /// 6.1: Debian 12.
    V6_1,
}

impl Series {
    /// Both, the newest first.
    pub const ALL: [Series; 2] = [Series::V6_12, Series::V6_1];

    fn prefix(self) -> &'static str {
        match self {
            Series::V6_12 => "linux-image-6.12.",
            Series::V6_1 => "linux-image-6.1.",
        }
    }
}

impl std::fmt::Display for Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Series::V6_12 => "6.12",
            Series::V6_1 => "6.1",
        })
    }
}

/// A kernel that can be booted.
#[derive(Debug, Clone)]
pub struct Kernel {
    release: String,
    image: PathBuf,
    /// Where all is in the image there are none.
    modules: Option<PathBuf>,
}

impl Kernel {
    /// The newest kernel of `series` that apt knows, fetched once (70 to 110 MB).
    pub fn fetch(series: Series) -> Result<Kernel, Error> {
        let cache = host::cache()?;
        let apt = Apt::new(&cache)?;
        let package = apt.newest(series.prefix(), stock)?;
        let folder = cache.join(package.name());
        apt.unpack(&package, &folder)?;
        let release = package.name().trim_start_matches("linux-image-").to_owned();
        let image = folder.join("boot").join(format!("vmlinuz-{release}"));
        let modules = ["lib/modules", "usr/lib/modules"]
            .map(|base| folder.join(base).join(&release))
            .into_iter()
            .find(|path| path.is_dir())
            .ok_or_else(|| Error::answer(package.name(), "has no folder of modules"))?;
        index(&folder, &modules, &release)?;
        Ok(Kernel { release, image, modules: Some(modules) })
    }

    /// One that was built without modules, and without code that is changed while it runs (jump labels, paravirtual calls): all
    /// processors of a guest run at the same time then.
    pub fn built(image: impl Into<PathBuf>, release: &str) -> Kernel {
        Kernel { release: release.to_owned(), image: image.into(), modules: None }
    }

    /// What `uname -r` says.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// The compressed kernel image that QEMU boots.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// The folder of modules, with `modules.dep`; none where all is in the image.
    pub fn modules(&self) -> Option<&Path> {
        self.modules.as_deref()
    }
}

/// Whether a package is the plain signed kernel: not debugging symbols, not for clouds, not real-time.
fn stock(name: &str) -> bool {
    let other = ["-dbg", "-unsigned", "-cloud-", "-rt-"].iter().any(|part| name.contains(part));
    name.ends_with("-amd64") && !other
}

/// Makes `modules.dep` and its companions, which Debian makes on installation.
fn index(folder: &Path, modules: &Path, release: &str) -> Result<(), Error> {
    if modules.join("modules.dep.bin").is_file() {
        return Ok(());
    }
    let depmod = host::require("depmod", "kmod")?;
    // depmod looks in lib/modules below its base folder.
    let base = if modules.starts_with(folder.join("usr")) { folder.join("usr") } else { folder.to_path_buf() };
    host::run(Command::new(depmod).arg("-b").arg(base).arg(release)).map(drop)
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_the_plain_kernel_is_taken() {
        assert!(super::stock("linux-image-6.12.117+deb12-amd64"));
        for other in ["-cloud-amd64", "-rt-amd64", "-amd64-dbg", "-amd64-unsigned"] {
            assert!(!super::stock(&format!("linux-image-6.12.117+deb12{other}")), "{other}");
        }
    }
}
