//! The host of an experiment: Plumb's model of it, or a real Linux kernel.

use std::path::{Path, PathBuf};

use linux::FrontEnd;
use serde::{Deserialize, Serialize};
use units::ByteSize;

/// Which host runs above the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostKind {
    /// Plumb's own host stack in virtual time.
    #[default]
    Model,
    /// A real Linux kernel in virtual time, and the real fio. What it computes
    /// takes no time: processor time is the model's alone.
    Linux,
    /// The kernel that runs this machine, on a loop device, on the wall clock. For
    /// `workload.defrag` and `workload.program`; needs root.
    Live,
}

/// The loop device under `host = "live"`, and what is made on it; of a modelled device its options alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LiveHost {
    /// Its size; the file behind it is sparse.
    pub size: ByteSize,
    /// Where that file is made; the folder for temporary files when empty.
    pub folder: PathBuf,
    /// Words for `mkfs`, separated by white space.
    pub mkfs_options: String,
    /// Options for `mount`, separated by commas.
    pub mount_options: String,
}

impl Default for LiveHost {
    fn default() -> Self {
        Self {
            size: ByteSize(2 << 30),
            folder: PathBuf::new(),
            mkfs_options: String::new(),
            mount_options: String::new(),
        }
    }
}

/// Settings of the real kernel and what stands around it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinuxHost {
    /// How the device is shown to the kernel; `auto` is NVMe/TCP for devices with
    /// zones and ublk for others.
    pub front_end: FrontEnd,
    /// Words for `mkfs`, separated by white space.
    pub mkfs_options: String,
    /// Options for `mount`, separated by commas.
    pub mount_options: String,
    /// Memory of the guest; what is written to the device lies there too.
    pub memory: ByteSize,
    /// A table of `plumb calibrate cpu`, by which the kernel's work for the workload takes time; it is free when empty.
    #[serde(skip_serializing_if = "is_empty")]
    pub charge: PathBuf,
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

impl Default for LinuxHost {
    fn default() -> Self {
        Self {
            front_end: FrontEnd::Auto,
            mkfs_options: String::new(),
            mount_options: String::new(),
            memory: ByteSize(linux::DEFAULT_MEMORY_BYTES),
            charge: PathBuf::new(),
        }
    }
}
