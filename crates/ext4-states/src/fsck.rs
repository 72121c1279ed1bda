//! What e2fsck makes of a state: it replays the journal by the kernel's own code for that, and then looks at everything.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::disk::{Disk, Id};
use crate::error::{OfflineError, system};

/// Where images lie in memory, if they can.
const MEMORY: &str = "/dev/shm";
/// Most of what it says that is kept.
const SAID_CHARACTERS_MAX: usize = 2000;

/// A folder that lies in memory, if there is one.
pub(crate) fn in_memory() -> std::io::Result<TempDir> {
    let memory = Path::new(MEMORY);
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
}

/// Where a program is, which may lie where not every user's path leads. By its name alone, with another path or environment, it would
/// be run from a copy of this process, and there is a lot of that.
pub(crate) fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/bin", "/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file()).unwrap_or_else(|| name.into())
}

/// An image in memory, and a program that looks at it.
pub(crate) struct Checker {
    folder: TempDir,
    e2fsck: PathBuf,
}

/// What it found.
pub(crate) struct Checked {
    /// The image after recovery.
    pub(crate) image: File,
    /// Why the state is bad.
    pub(crate) fault: Option<String>,
}

impl Checker {
    pub(crate) fn new() -> Result<Self, OfflineError> {
        let folder = in_memory().map_err(system("cannot make a folder for images"))?;
        Ok(Self { folder, e2fsck: program("e2fsck") })
    }

    /// Recovers the state on a copy as a mount does, journal and orphans, and looks for anything that is then not consistent.
    pub(crate) fn check(&self, disk: &Disk) -> Result<Checked, OfflineError> {
        let path = self.folder.path().join("state.img");
        let failed = || format!("cannot write {}", path.display());
        let image = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let image = image.map_err(system(failed()))?;
        let block_bytes = disk.block_bytes() as u64;
        image.set_len(u64::from(disk.blocks()) * block_bytes).map_err(system(failed()))?;
        for block in (0..disk.blocks()).filter(|block| disk.id(*block) != Id::ZEROES) {
            let bytes = disk.bytes(disk.id(block));
            image.write_all_at(&bytes[..], u64::from(block) * block_bytes).map_err(system(failed()))?;
        }
        // Without -f: the journal, orphans and counts, and then the rest only where the file system says that it has errors.
        let (status, said) = run(&self.e2fsck, &["-p"], &path)?;
        let mut fault = (status > 1).then(|| format!("e2fsck -p ended with status {status}:\n{said}"));
        if fault.is_none() && said.contains("ournal checksum error") {
            fault = Some(format!("e2fsck -p: {said}"));
        }
        if fault.is_none() {
            let (status, said) = run(&self.e2fsck, &["-f", "-n"], &path)?;
            fault = (status != 0).then(|| format!("e2fsck -fn ended with status {status}:\n{said}"));
        }
        Ok(Checked { image, fault })
    }
}

fn run(program: &Path, words: &[&str], path: &Path) -> Result<(i32, String), OfflineError> {
    let output = Command::new(program).args(words).arg(path).stdin(Stdio::null()).output();
    let output = output.map_err(system("cannot run e2fsck"))?;
    let said = [output.stdout, output.stderr].concat();
    let said: String = String::from_utf8_lossy(&said).trim().chars().take(SAID_CHARACTERS_MAX).collect();
    Ok((output.status.code().unwrap_or(i32::MAX), said))
}
