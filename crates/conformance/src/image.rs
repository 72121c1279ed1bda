//! The first root file system of a guest: programs, libraries, modules, and the first process.

use std::fs;
use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::kernel::Kernel;
use crate::{Error, cpio, modules, programs};

const INIT: &[u8] = include_bytes!("../guest/init");

/// Writes the archive for `kernel` to `target`; `extra` programs appear in `/bin` beside those of [`programs::PROGRAMS`].
pub fn write(kernel: &Kernel, extra: &[PathBuf], target: &Path) -> Result<(), Error> {
    let file = fs::File::create(target).map_err(Error::file(target))?;
    let mut writer = cpio::Writer::new(BufWriter::new(file));
    let mut put = |from: &Path, to: &Path| -> Result<(), Error> {
        let contents = fs::read(from).map_err(Error::file(from))?;
        let mode = fs::metadata(from).map_err(Error::file(from))?.permissions().mode() & 0o777;
        writer.file(to, mode, &contents).map_err(Error::file(target))
    };
    for (from, to) in programs::collect(extra)? {
        put(&from, &to)?;
    }
    if let Some(modules) = kernel.modules() {
        let target = Path::new("/lib/modules").join(kernel.release());
        for module in modules::select(modules)? {
            put(&modules.join(&module), &target.join(&module))?;
        }
    }
    let mut rest = || -> std::io::Result<()> {
        writer.file(Path::new("/init"), 0o755, INIT)?;
        for folder in
            ["dev", "proc", "sys", "tmp", "run", "share", "mnt", "bin/busybox.d", "root", "etc/nvme", "var/lib"]
        {
            writer.folder(Path::new(folder))?;
        }
        // The kernel opens its console before anything is mounted.
        writer.character_device(Path::new("/dev/console"), 5, 1)?;
        writer.character_device(Path::new("/dev/null"), 1, 3)?;
        // The kernel calls this path to load what a file system or a cipher asks for.
        writer.link(Path::new("/sbin/modprobe"), "/bin/modprobe")?;
        writer.link(Path::new("/usr/bin"), "/bin")?;
        writer.link(Path::new("/etc/mtab"), "/proc/self/mounts")?;
        writer.file(Path::new("/etc/passwd"), 0o644, b"root:x:0:0:root:/root:/bin/bash\n")?;
        writer.file(Path::new("/etc/group"), 0o644, b"root:x:0:\n")?;
        writer.file(Path::new("/etc/nvme/hostnqn"), 0o644, format!("{HOST_NQN}\n").as_bytes())?;
        writer.file(Path::new("/etc/nvme/hostid"), 0o644, format!("{HOST_ID}\n").as_bytes())
    };
    rest().map_err(Error::file(target))?;
    writer.finish().map(drop).map_err(Error::file(target))
}

/// The name by which a guest presents itself to NVMe subsystems (NVMe Base 2.0, section 4.5: a UUID-based NQN).
pub const HOST_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:6d1b4c0e-6f0f-4f0e-9a3b-2b9c5d7e8f10";

/// The host identifier that goes with [`HOST_NQN`].
pub const HOST_ID: &str = "6d1b4c0e-6f0f-4f0e-9a3b-2b9c5d7e8f10";
