//! A program as a workload: any command, on real files under a real kernel, in virtual time or of this machine.

use std::collections::BTreeMap;

use prefetcher::settings::Settings as Prefetch;
use serde::{Deserialize, Serialize};
use units::ByteSize;

/// Commands for `sh -e`, which start in the mounted file system (in `/` where there is none, with the device as
/// `$PLUMB_DEVICE`). `workload.variables` are in their environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// What is made before, and is not measured. It is synchronised before anything else begins.
    #[serde(default)]
    pub prepare: String,
    /// Whether the kernel's caches are empty when the measured command begins.
    #[serde(default)]
    pub cold: bool,
    /// What is measured.
    pub measure: String,
    /// The measured command is run under `plumb prefetch run` with these settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<Prefetch>,
    /// By name, what runs meanwhile. It is killed when the measured command has ended, and must not fail before.
    #[serde(default)]
    pub beside: BTreeMap<String, String>,
    /// Memory that all of them have, with the page cache of what they read and write (`memory.max` of a control group).
    #[serde(default)]
    pub memory: Option<ByteSize>,
    /// Limits of their I/O in the kernel's words, such as `rbps=1048576 wiops=100` (`io.max` of a control group).
    #[serde(default)]
    pub io_max: String,
    /// Metrics `program.NAME`, out of what the measured command prints.
    #[serde(default)]
    pub metrics: BTreeMap<String, Extract>,
}

/// Where a metric's value stands in the standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Extract {
    /// A regular expression with one group, whose last match is the number.
    Regex(String),
    /// A JSON pointer (RFC 6901) into the last JSON document that begins a line.
    Json(String),
}
