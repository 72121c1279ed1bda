//! A loop device with a file system, mounted.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use file_systems::{FileSystem, Tools};

use super::processes::ran;
use super::served::Served;
use crate::error::LiveHostError;
use crate::spec::{LiveHost, Stack};

/// How often a busy mount is tried again, and after how long.
const UNMOUNTS: u32 = 100;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(50);

/// What lies behind the loop device.
pub(crate) enum Backing<'a> {
    /// A sparse file.
    File,
    /// A modelled device, served on the wall clock.
    Served { device: &'a str, settings: Vec<String> },
}

/// What is to be taken away at the end.
enum Device {
    /// A loop device over a file.
    Loop(PathBuf),
    Served(Served),
}

/// A device, and a file system on it where the stack has one.
pub(crate) struct LiveDisk {
    device: Option<Device>,
    node: PathBuf,
    mount: PathBuf,
    /// What is mounted, and with which options.
    system: Option<(FileSystem, String)>,
    mounted: bool,
    // Last, so that nothing uses it when it goes.
    _folder: tempfile::TempDir,
}

impl LiveDisk {
    /// Makes the device of `stack`, and its file system, and mounts that.
    pub(crate) fn new(stack: &Stack, backing: &Backing<'_>) -> Result<Self, LiveHostError> {
        let LiveHost { size, folder, mkfs_options, mount_options } = &stack.live;
        let file_system = stack.filesystem;
        if file_system == FileSystem::Zonefs {
            return Err(LiveHostError::FileSystem { file_system });
        }
        available(file_system.kernel_type())?;
        let mut builder = tempfile::Builder::new();
        let folder = match folder.as_os_str().is_empty() {
            true => builder.prefix("plumb-live").tempdir(),
            false => builder.prefix("plumb-live").tempdir_in(folder),
        };
        let folder = folder.map_err(LiveHostError::file("make a folder for the loop device's file"))?;
        let make = |place: &Path| match Tools::of(file_system) {
            Some(tools) => made(tools.maker(&plumb()?).args(mkfs_options.split_whitespace()).arg(place)),
            None => Ok(()),
        };
        let (device, node) = match backing {
            Backing::File => {
                let image = folder.path().join("image");
                File::create(&image)
                    .and_then(|file| file.set_len(size.0))
                    .map_err(LiveHostError::file("make the loop device's file"))?;
                make(&image)?;
                let shown = ran(Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(&image))?;
                let node = PathBuf::from(shown.trim());
                (Device::Loop(node.clone()), node)
            }
            Backing::Served { device, settings } => {
                let served = Served::start(device, settings, folder.path())?;
                let node = served.node().to_owned();
                make(&node)?;
                (Device::Served(served), node)
            }
        };
        let mount = folder.path().join("mnt");
        let system = (file_system != FileSystem::None).then(|| (file_system, mount_options.clone()));
        let mut disk = Self { device: Some(device), node, mount, system, mounted: false, _folder: folder };
        fs::create_dir(&disk.mount).map_err(LiveHostError::file("make a folder to mount on"))?;
        disk.mount()?;
        Ok(disk)
    }

    /// The device's node.
    pub(crate) fn node(&self) -> &Path {
        &self.node
    }

    /// Where it is mounted; nowhere without a file system.
    pub(crate) fn place(&self) -> Option<&Path> {
        self.system.as_ref().map(|_| self.mount.as_path())
    }

    /// Empties the kernel's caches of this device alone: what is mounted again is read again.
    pub(crate) fn cool(&mut self) -> Result<(), LiveHostError> {
        if self.mounted {
            self.unmount()?;
            return self.mount();
        }
        ran(Command::new("blockdev").arg("--flushbufs").arg(&self.node)).map(drop)
    }

    fn mount(&mut self) -> Result<(), LiveHostError> {
        let Some((system, options)) = &self.system else { return Ok(()) };
        let mut command = match system.is_served() {
            true => Command::new(plumb()?),
            false => Command::new("mount"),
        };
        match system.mount_type() {
            _ if system.is_served() => command.args(["fs", "mount", "--background"]),
            Some(system) => command.args(["-t", system]),
            None => &mut command,
        };
        if !options.is_empty() {
            command.args(["-o", options]);
        }
        ran(command.arg(&self.node).arg(&self.mount))?;
        self.mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), LiveHostError> {
        for attempt in 0..=UNMOUNTS {
            // Another thread's new process may hold a copy of an open file until it runs its program.
            match ran(Command::new("umount").arg(&self.mount)) {
                Ok(_) => break,
                Err(error) if attempt == UNMOUNTS => return Err(error),
                Err(_) => thread::sleep(UNMOUNT_PAUSE),
            }
        }
        self.mounted = false;
        Ok(())
    }

    /// Takes everything away; what cannot be undone is an error and not only left behind. What the server of a modelled
    /// device reports.
    pub(crate) fn end(mut self) -> Result<Option<serde_json::Value>, LiveHostError> {
        if self.mounted {
            self.unmount()?;
        }
        match self.device.take() {
            None => Ok(None),
            Some(Device::Loop(device)) => {
                ran(Command::new("losetup").arg("--detach").arg(device))?;
                Ok(None)
            }
            Some(Device::Served(served)) => served.stop().map(Some),
        }
    }
}

impl Drop for LiveDisk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("--lazy").arg(&self.mount).stderr(Stdio::null()).status();
        }
        if let Some(Device::Loop(device)) = &self.device {
            let _ = Command::new("losetup").arg("--detach").arg(device).stderr(Stdio::null()).status();
        }
    }
}

/// This program, which makes and serves file systems of its own.
fn plumb() -> Result<PathBuf, LiveHostError> {
    std::env::current_exe().map_err(LiveHostError::file("find the plumb program"))
}

/// Whether a loop device with this file system can be here at all.
fn available(system: Option<&str>) -> Result<(), LiveHostError> {
    let control = "/dev/loop-control";
    OpenOptions::new().read(true).write(true).open(control).map_err(|error| LiveHostError::Unavailable {
        why: format!("{control}: {error} (root and loop devices are needed)"),
    })?;
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    match system {
        Some(system) if !known.split_whitespace().any(|word| word == system) => {
            Err(LiveHostError::Unavailable { why: format!("the kernel of this machine has no {system}") })
        }
        _ => Ok(()),
    }
}

/// Makes a file system. That of Btrfs asks about each loop device of the machine, and fails, having written nothing, when
/// another program's goes away before it is answered.
fn made(command: &mut Command) -> Result<(), LiveHostError> {
    for _ in 0..20 {
        match ran(command) {
            Err(LiveHostError::Program { said, .. }) if said.contains("cannot check mount status") => {
                thread::sleep(Duration::from_millis(50));
            }
            other => return other.map(drop),
        }
    }
    ran(command).map(drop)
}
