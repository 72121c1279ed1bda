//! What the host tells the first process inside, and what that tells the host.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::choice::FrontEnd;
use crate::outcome::Ended;
use file_systems::FileSystem;

/// The host's channels, in the order of `/dev/host0`, `/dev/host1`, ….
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Channel {
    /// The plan, read by the first process.
    GuestPlan,
    /// Lines of [`Report`], written by it.
    Report,
    /// The log of the server and of `mkfs`.
    Log,
    /// The command's standard input.
    Input,
    /// The command's standard output.
    Output,
    /// The command's standard error.
    Errors,
}

impl Channel {
    /// The device inside.
    pub(crate) fn node(self) -> PathBuf {
        PathBuf::from(format!("/dev/host{}", self as u8))
    }
}

/// Everything that the first process does, decided outside.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct GuestPlan {
    /// At least one; the file system goes on the first.
    pub(crate) devices: Vec<DevicePlan>,
    pub(crate) file_system: FileSystem,
    /// It is on the device, and only mounted.
    pub(crate) file_system_is_made: bool,
    /// It lies in a file of this one.
    pub(crate) image_on: Option<FileSystem>,
    /// Of the device's, if not all.
    pub(crate) file_system_bytes: Option<u64>,
    pub(crate) mkfs_options: Vec<String>,
    pub(crate) mount_options: String,
    /// The plumb program.
    pub(crate) plumb: Text,
    pub(crate) command: Vec<Text>,
    pub(crate) environment: Vec<(Text, Text)>,
    pub(crate) folder: Text,
    /// Folders of the host that can be written from inside.
    pub(crate) writable: Vec<Text>,
    /// The same, with files that the guest's page cache does not keep.
    pub(crate) direct: Vec<Text>,
    /// The run's own folder on the host, one of them; artifacts go there.
    pub(crate) run_folder: Text,
    /// The command pays for the processor's work.
    pub(crate) charge: bool,
    /// Events of the kernel are recorded.
    pub(crate) trace: bool,
    pub(crate) seed: u64,
    /// The command has a terminal.
    pub(crate) terminal: bool,
}

/// One device.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct DevicePlan {
    /// Never [`FrontEnd::Auto`].
    pub(crate) front_end: FrontEnd,
    /// I/O queues of NVMe/TCP.
    pub(crate) io_queues: u32,
    pub(crate) zoned: bool,
    /// Arguments of `plumb serve` without its front-end.
    pub(crate) serve: Vec<Text>,
}

/// Events of a run, one JSON object a line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// A device can be seen; they are told in order.
    Device { node: String },
    /// The command runs.
    Began { at_ns: u64 },
    /// The command has ended.
    Ended { ended: Ended, at_ns: u64 },
    /// The last word of a device's server.
    Served { device: usize, report: serde_json::Value },
    /// All is put away.
    Done,
    /// Something failed.
    Failed { message: String },
}

/// Names of files in the run's folder.
pub(crate) mod artifact {
    pub(crate) const KERNEL_TRACE: &str = "kernel.trace";
    pub(crate) const DEVICE_TRACE: &str = "device.trace";
    pub(crate) const DEVICE_COMMANDS: &str = "device.commands";
    /// What the processor's work costs, for a file system's server.
    pub(crate) const COSTS: &str = "costs.toml";
}

/// Bytes of a name or argument; JSON knows only text, so they travel as numbers where they are none.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Text {
    Utf8(String),
    Bytes(Vec<u8>),
}

impl From<&OsStr> for Text {
    fn from(text: &OsStr) -> Self {
        text.to_str().map_or_else(|| Self::Bytes(text.as_bytes().to_vec()), |text| Self::Utf8(text.to_owned()))
    }
}

impl From<&Path> for Text {
    fn from(path: &Path) -> Self {
        path.as_os_str().into()
    }
}

impl From<&Text> for OsString {
    fn from(text: &Text) -> Self {
        match text {
            Text::Utf8(text) => text.into(),
            Text::Bytes(bytes) => Self::from_vec(bytes.clone()),
        }
    }
}

impl From<&Text> for PathBuf {
    fn from(text: &Text) -> Self {
        OsString::from(text).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_bytes_travel() {
        for bytes in [&b"plain"[..], b"\xff\xfe/x", b""] {
            let text = Text::from(OsStr::from_bytes(bytes));
            let line = serde_json::to_string(&text).unwrap();
            let back: Text = serde_json::from_str(&line).unwrap();
            assert_eq!(OsString::from(&back).as_bytes(), bytes);
        }
    }
}
