//! The kernel's memory device, set up through configfs (`Documentation/block/null_blk.rst`).

use std::fs;
use std::path::{Path, PathBuf};

use super::error::{GuestError, attempt};

/// One memory device.
#[derive(Clone, Copy)]
pub(super) struct MemoryDevice {
    /// Its name, and that of its node.
    pub(super) name: &'static str,
    /// Its size; memory is taken as it is written.
    pub(super) size_mib: u64,
    /// Its logical block.
    pub(super) block_bytes: u32,
    /// Latency of every request, by the kernel's timer; 0 for none.
    pub(super) latency_ns: u64,
}

impl MemoryDevice {
    /// Stands in for a modelled device.
    pub(super) const PLAIN: Self = Self { name: "plumb-memory", size_mib: 1024, block_bytes: 4096, latency_ns: 80_000 };

    fn folder(self) -> PathBuf {
        Path::new("/sys/kernel/config/nullb").join(self.name)
    }

    /// Takes it away.
    pub(super) fn remove(self) -> Result<(), GuestError> {
        attempt(fs::remove_dir(self.folder()), || "cannot take the memory device away".to_owned())
    }

    /// Makes it; its node.
    pub(super) fn make(self) -> Result<String, GuestError> {
        let folder = self.folder();
        attempt(fs::create_dir(&folder), || "cannot make a memory device: has the kernel null_blk?".to_owned())?;
        let set = |name: &str, value: u64| {
            let written = fs::write(folder.join(name), value.to_string());
            attempt(written, || format!("cannot set {name} of the memory device to {value}"))
        };
        set("size", self.size_mib)?;
        set("blocksize", self.block_bytes.into())?;
        set("memory_backed", 1)?;
        set("discard", 1)?;
        // 0: completed at once; 2: by a timer.
        set("irqmode", if self.latency_ns == 0 { 0 } else { 2 })?;
        set("completion_nsec", self.latency_ns)?;
        set("power", 1)?;
        // Since 6.1 the disk has the folder's name, before that a number.
        if Path::new("/sys/class/block").join(self.name).exists() {
            return Ok(format!("/dev/{}", self.name));
        }
        let index = attempt(fs::read_to_string(folder.join("index")), || "cannot find the memory device".to_owned())?;
        Ok(format!("/dev/nullb{}", index.trim()))
    }
}
