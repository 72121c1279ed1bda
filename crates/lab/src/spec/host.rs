//! The host of an experiment: Plumb's model of it, or a real Linux kernel.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use file_systems::FileSystem;
use linux::{FrontEnd, Kernel, LinuxError, Recipe, Streams, SubmissionCpus};
use serde::{Deserialize, Deserializer, Serialize};
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
    /// The file system in a file of which a served one lies, instead of on the device itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_on: Option<FileSystem>,
    /// Memory of the guest; what is written to the device lies there too.
    pub memory: ByteSize,
    /// A table of `plumb calibrate cpu`, by which the kernel's work for the workload takes time; it is free when empty.
    #[serde(skip_serializing_if = "is_empty")]
    pub charge: PathBuf,
    /// A recipe of kernels (`plumb linux status`) on whose kernel it runs: the one with what the other keys need when empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kernel: String,
    /// Order of writes that ext4 asks for and the device keeps: `streams[:task|cgroup|one][,counted|pinned]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordering: Option<Streams>,
    /// From how many processors tasks seem to submit, each with a queue of the device: 4 with an order, else the one there is.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "processors")]
    pub submission_cpus: Option<u32>,
    /// After how many bios a task moves to another of them, by the seed; never where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migrate_every: Option<NonZeroU32>,
}

/// As many processors as the kernel can seem to have.
fn processors<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let (count, most) = (u32::deserialize(deserializer)?, SubmissionCpus::MOST);
    if (1..=most).contains(&count) {
        return Ok(Some(count));
    }
    Err(serde::de::Error::custom(format!("{count} submission CPUs: 1 to {most} can be")))
}

impl LinuxHost {
    /// From how many processors tasks seem to submit, if something is said of it.
    pub(crate) fn cpus(&self) -> Option<SubmissionCpus> {
        SubmissionCpus::of(self.submission_cpus, self.migrate_every)
    }

    /// The key that only the kernel with streams knows, if there is one.
    pub(crate) fn order_key(&self) -> Option<&'static str> {
        let keys = [
            (self.ordering.is_some(), "stack.linux.ordering"),
            (self.submission_cpus.is_some(), "stack.linux.submission_cpus"),
            (self.migrate_every.is_some(), "stack.linux.migrate_every"),
        ];
        keys.into_iter().find_map(|(given, key)| given.then_some(key))
    }

    /// The kernel of the cache that knows what is asked for.
    pub(crate) fn kernel(&self) -> Result<Kernel, LinuxError> {
        let (key, name) = match (self.order_key(), &*self.kernel) {
            (None, "") => return Kernel::cached(),
            (Some(key), "" | linux::ordering::KERNEL) => (key, linux::ordering::KERNEL),
            (Some(key), name) => {
                return Err(LinuxError::Invalid {
                    message: format!("stack.linux.kernel = {name:?} does not know {key}"),
                });
            }
            (None, name) => ("stack.linux.kernel", name),
        };
        Kernel::cached_of(&Recipe::named(name)?).map_err(|error| match error {
            LinuxError::NoKernel => LinuxError::Invalid {
                message: format!(
                    "{key} needs the kernel `{name}`: `plumb linux build --kernel {name}` makes it once, in minutes"
                ),
            },
            other => other,
        })
    }
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
            image_on: None,
            memory: ByteSize(linux::DEFAULT_MEMORY_BYTES),
            charge: PathBuf::new(),
            kernel: String::new(),
            ordering: None,
            submission_cpus: None,
            migrate_every: None,
        }
    }
}
