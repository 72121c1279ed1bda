//! A file system of its own on a loop device.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use super::Scratch;

/// A loop device with a file system, in a scratch folder; taken away when dropped.
pub struct Disk {
    device: String,
    /// Where it is mounted.
    pub place: PathBuf,
}

impl Disk {
    /// Made by `make`, which takes `-q` and an image.
    pub fn new(scratch: &Scratch, make: &str) -> Result<Self, String> {
        let run = |command: &str, arguments: &[&str]| -> Result<String, String> {
            let out = Command::new(command).args(arguments).output().map_err(|error| format!("{command}: {error}"))?;
            let said = String::from_utf8_lossy(&out.stderr);
            if out.status.success() {
                Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
            } else {
                Err(format!("{command}: {said}"))
            }
        };
        let image = scratch.path("image");
        File::create(&image).unwrap().set_len(400 << 20).unwrap();
        let place = scratch.path("mount");
        fs::create_dir(&place).unwrap();
        run(make, &["-q", image.to_str().unwrap()])?;
        let device = run("losetup", &["-f", "--show", image.to_str().unwrap()])?;
        let disk = Self { device, place };
        run("mount", &[&disk.device, disk.place.to_str().unwrap()])?;
        Ok(disk)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.place).stderr(std::process::Stdio::null()).status();
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
    }
}
