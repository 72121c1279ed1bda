//! File systems that are made for a round, mounted, and gone after it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use file_systems::{FileSystem, Tools};

use super::rows::Scale;
use crate::failure::Failure;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// This program's.
    Plumb,
    /// The same through `/dev/fuse` where it would take rings.
    PlumbDevice,
    /// This program's server with everything in memory.
    Memory,
    /// One of the kernel's, on a loop device.
    Kernel(FileSystem),
}

impl System {
    pub fn name(self) -> &'static str {
        match self {
            Self::Plumb => "plumb",
            Self::PlumbDevice => "plumb-device",
            Self::Memory => "memory",
            Self::Kernel(file_system) => file_system.name(),
        }
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        match given {
            "plumb" => Ok(Self::Plumb),
            "plumb-device" => Ok(Self::PlumbDevice),
            "memory" => Ok(Self::Memory),
            given => match given.parse() {
                Ok(kernel @ (FileSystem::Ext4 | FileSystem::Xfs | FileSystem::Btrfs | FileSystem::F2fs)) => {
                    Ok(Self::Kernel(kernel))
                }
                _ => Err(format!("{given}: none of plumb, plumb-device, memory, ext4, xfs, btrfs, f2fs")),
            },
        }
    }
}

/// One of them, mounted.
pub struct Made {
    system: System,
    image: PathBuf,
    folder: PathBuf,
    /// `/dev/loopN`.
    device: Option<String>,
    is_mounted: bool,
}

impl Made {
    /// Makes and mounts it.
    pub fn new(system: System, dir: &Path, scale: &Scale) -> Result<Self, Failure> {
        let own = dir.join(format!("plumb-fs-bench-{}", std::process::id()));
        let (image, folder) = (own.join("image"), own.join("mnt"));
        fs::create_dir_all(&folder).map_err(|error| Failure::Machine(format!("{}: {error}", own.display())))?;
        let mut made = Self { system, image, folder, device: None, is_mounted: false };
        let bytes = scale.image_bytes();
        match system {
            System::Memory => {}
            System::Plumb | System::PlumbDevice => {
                made.plumb(&[
                    OsStr::new("mkfs"),
                    made.image.as_os_str(),
                    OsStr::new("--size"),
                    bytes.to_string().as_ref(),
                ])?;
            }
            System::Kernel(file_system) => {
                let file = fs::File::create(&made.image);
                let made_long = file.and_then(|file| file.set_len(bytes));
                made_long.map_err(|error| Failure::Machine(format!("{}: {error}", made.image.display())))?;
                let mut attach = Command::new("losetup");
                let said = run(attach.args(["--find", "--show", "--direct-io=on"]).arg(&made.image))?;
                made.device = Some(said.trim().to_owned());
                let tools = Tools::of(file_system).ok_or_else(|| Failure::input("nothing makes this file system"))?;
                run(tools.maker(Path::new("plumb")).arg(said.trim()))?;
            }
        }
        made.mount()?;
        Ok(made)
    }

    /// Where it is mounted.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn plumb(&self, arguments: &[&OsStr]) -> Result<(), Failure> {
        let program = std::env::current_exe().map_err(|error| Failure::Machine(error.to_string()))?;
        // A server goes on with this one's standard error, whose end is not waited for.
        run(Command::new(program).arg("fs").args(arguments).stderr(Stdio::inherit())).map(drop)
    }

    fn mount(&mut self) -> Result<(), Failure> {
        let (folder, words) = (self.folder.as_os_str(), |word: &'static str| OsStr::new(word));
        match self.system {
            System::Kernel(file_system) => {
                let device = self.device.as_deref().unwrap_or_default();
                let kind = file_system.mount_type().unwrap_or_default();
                run(Command::new("mount").args(["-t", kind, device]).arg(folder))?;
            }
            System::Memory => self.plumb(&[words("mount"), words(":memory:"), folder, words("--background")])?,
            System::Plumb => self.plumb(&[words("mount"), self.image.as_os_str(), folder, words("--background")])?,
            System::PlumbDevice => {
                let device = [words("--background"), words("--transport"), words("device")];
                self.plumb(&[&[words("mount"), self.image.as_os_str(), folder], &device[..]].concat())?;
            }
        }
        self.is_mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), Failure> {
        run(Command::new("umount").arg(&self.folder))?;
        self.is_mounted = false;
        Ok(())
    }

    /// Nothing of it is in memory afterwards. What is in memory alone stays.
    pub fn cool(&mut self) -> Result<(), Failure> {
        run(Command::new("sync").arg("-f").arg(&self.folder))?;
        if self.system != System::Memory {
            self.unmount()?;
            self.mount()?;
        }
        fs::write("/proc/sys/vm/drop_caches", "3")
            .map_err(|error| Failure::Machine(format!("caches cannot be dropped: {error}; this must be run by root")))
    }

    /// Unmounts it, and removes it.
    pub fn end(mut self) -> Result<(), Failure> {
        self.unmount()
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = run(Command::new("umount").arg("-l").arg(&self.folder));
        }
        if let Some(device) = &self.device {
            let _ = run(Command::new("losetup").args(["-d", device]));
        }
        let _ = fs::remove_file(&self.image);
        let _ = fs::remove_dir(&self.folder);
        if let Some(own) = self.folder.parent() {
            let _ = fs::remove_dir(own);
        }
    }
}

/// Runs a program, which must succeed; what it says.
pub fn run(command: &mut Command) -> Result<String, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Failure::Machine(format!("{program}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Machine(format!("{program}: {}: {}", output.status, said.trim())))
}
