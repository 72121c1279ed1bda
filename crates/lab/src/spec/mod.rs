//! An experiment is a file: stack, workload, sweep, repeats, metrics, published values.
//!
//! A spec is a TOML document. Every sweep key and every `--set` is a dotted path
//! into that same document, so there is one way to say anything:
//! `--set stack.device=optane-905p-960gb`, `"workload.set.iodepth" = [1, 32]`.

mod derived;
mod error;
mod host;
mod overrides;
mod program;
mod source;
mod sweep;

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use linux::FileSystem;
use serde::{Deserialize, Serialize};
use units::Nanos;
use workload::journal::JournalOptions;

pub use derived::{Derived, Form, HeatMap, Interference};
pub use error::SpecError;
pub use host::{HostKind, LinuxHost, LiveHost};
pub use overrides::Override;
pub(crate) use overrides::leaves;
pub use program::{Extract, Program};
pub use source::{Inline, SpecSource};
pub(crate) use sweep::expand;
pub use sweep::{Point, short_key, value_text};

/// What an experiment runs and what it is held against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// One line, shown above every table and plot.
    pub title: String,
    /// A paragraph: the question, and how to read the answer.
    #[serde(default)]
    pub description: String,
    /// The publication whose figure this is, if it is one.
    #[serde(default)]
    pub source: Option<String>,
    /// What the workload runs on.
    pub stack: Stack,
    /// What runs.
    pub workload: Workload,
    /// Repeats and seeds.
    #[serde(default)]
    pub run: Run,
    /// Values to sweep, by dotted path into this document; points are the
    /// Cartesian product, the last key varying fastest.
    #[serde(default)]
    pub sweep: toml::Table,
    /// Named bundles of settings: for a swept key of this name, what each of
    /// its values stands for.
    #[serde(default)]
    pub variants: BTreeMap<String, BTreeMap<String, toml::Table>>,
    /// Metrics to print; all that apply when empty.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// Plots of one metric against one swept key.
    #[serde(default)]
    pub plot: Vec<Plot>,
    /// Pictures of one value over two swept keys.
    #[serde(default)]
    pub heat_map: Vec<HeatMap>,
    /// What one stream of commands costs another.
    #[serde(default)]
    pub interference: Option<Interference>,
    /// Values made of others.
    #[serde(default)]
    pub derived: Vec<Derived>,
    /// Published values, printed beside ours.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// The stack under the workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// Which host runs above the device.
    #[serde(default)]
    pub host: HostKind,
    /// What lies on the device under `host = "linux"` and `"live"`: the jobs run in it.
    #[serde(default)]
    pub filesystem: FileSystem,
    /// More about the real kernel, under `host = "linux"`.
    #[serde(default)]
    pub linux: LinuxHost,
    /// The loop device, under `host = "live"`.
    #[serde(default)]
    pub live: LiveHost,
    /// A built-in profile's name, or the path of a profile (ends in `.toml`); or `loop`,
    /// under `host = "live"`.
    pub device: String,
    /// Changes to the device profile, by dotted path into the profile.
    #[serde(default)]
    pub device_set: toml::Table,
    /// Whether the device keeps the bytes written; needed for `verify`.
    #[serde(default)]
    pub contents: Contents,
    /// The block layer's settings.
    #[serde(default)]
    pub block: block::QueueConfig,
    /// The host's processors.
    #[serde(default)]
    pub cpu: sim::cpu::CpuConfig,
    /// CPU time of the I/O path.
    #[serde(default)]
    pub io_path: IoPath,
}

/// CPU time of one I/O, besides entering the kernel and switching threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IoPath {
    /// In the submitting system call.
    pub submit: Nanos,
    /// In the interrupt handler.
    pub complete: Nanos,
}

impl Default for IoPath {
    fn default() -> Self {
        let workload::IoCosts { submit, complete } = workload::IoCosts::default();
        Self { submit, complete }
    }
}

/// What becomes of the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contents {
    /// Kept when the workload verifies, else not.
    #[default]
    Auto,
    /// Timing only.
    None,
    /// Kept, sparse, in memory.
    Memory,
}

/// What runs: exactly one of `fio`, `fio_file`, `trace`, `journal`, `defrag`, `program`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// A fio job file, inline.
    #[serde(default)]
    pub fio: Option<String>,
    /// A fio job file, relative to the spec.
    #[serde(default)]
    pub fio_file: Option<PathBuf>,
    /// A block trace, relative to the spec.
    #[serde(default)]
    pub trace: Option<PathBuf>,
    /// Tasks that write and call fsync, and the journal that commits for them.
    #[serde(default)]
    pub journal: Option<JournalOptions>,
    /// Files in pieces, a tool that defragments them, and I/O to them, in a file
    /// system of a real kernel.
    #[serde(default)]
    pub defrag: Option<defrag::study::Cell>,
    /// Any program, under a real kernel.
    #[serde(default)]
    pub program: Option<Program>,
    /// How to replay the trace.
    #[serde(default)]
    pub replay: Replay,
    /// Which jobs of the file run, by name, as under fio's `--section`: lists
    /// under labels, so that a sweep can vary one list and leave another. All,
    /// when there is no list.
    #[serde(default)]
    pub sections: BTreeMap<String, Vec<String>>,
    /// fio options that win over the job file in every job.
    #[serde(default)]
    pub set: toml::Table,
    /// What `${NAME}` stands for in the job file.
    #[serde(default)]
    pub variables: toml::Table,
}

/// How a block trace is replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Replay {
    /// Trace format; found by content when absent.
    pub format: Option<String>,
    /// Only this disk of the trace.
    pub disk: Option<String>,
    /// The event of blkparse text that stands for a request: `Q` (queued) or
    /// `D` (sent to the driver).
    pub action: Option<String>,
    /// `open` issues by timestamp, `closed` keeps `depth` outstanding.
    pub mode: ReplayMode,
    /// Outstanding requests in closed mode.
    pub depth: NonZeroU32,
    /// Factor on time in open mode: 2 replays twice as fast.
    pub speed: f64,
    /// Divides offsets, to fit a large disk's trace on a small one.
    pub scale: NonZeroU64,
    /// Round I/O to whole logical blocks instead of refusing it.
    pub round: bool,
    /// Wrap offsets beyond the device instead of refusing them.
    pub wrap: bool,
}

impl Default for Replay {
    fn default() -> Self {
        Self {
            format: None,
            disk: None,
            action: None,
            mode: ReplayMode::Open,
            depth: const { NonZeroU32::new(32).expect("not zero") },
            speed: 1.0,
            scale: NonZeroU64::MIN,
            round: false,
            wrap: false,
        }
    }
}

/// Pace of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayMode {
    /// By timestamps.
    #[default]
    Open,
    /// By completions.
    Closed,
}

/// Repeats and seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// Runs of every point, each under its own seed.
    pub repeats: u32,
    /// Seed of the first repeat; repeat `r` uses `seed + r`.
    pub seed: u64,
    /// Virtual time after which a run is stopped as short.
    pub time_limit: Nanos,
    /// Keep the latency of each class of commands as the device saw them, for
    /// the metrics `command.CLASS.STATISTIC`.
    pub commands: bool,
}

impl Default for Run {
    fn default() -> Self {
        Self { repeats: 1, seed: 1, time_limit: Nanos::from_secs(86_400), commands: false }
    }
}

/// A plot of one metric against one swept key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Heading.
    #[serde(default)]
    pub title: String,
    /// Swept key on the horizontal axis.
    pub x: String,
    /// Metric on the vertical axis.
    pub y: String,
    /// Swept key that tells the lines apart.
    #[serde(default)]
    pub series: Option<String>,
    /// Whether the horizontal axis is logarithmic.
    #[serde(default)]
    pub log_x: bool,
    /// Whether the vertical axis is logarithmic.
    #[serde(default)]
    pub log_y: bool,
}

/// A published value and where it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The point it belongs to: swept key = value; empty for the only point.
    #[serde(default)]
    pub at: toml::Table,
    /// The metric.
    pub metric: String,
    /// The published value, or the lower end of a published range.
    pub value: f64,
    /// The upper end of a published range.
    #[serde(default)]
    pub to: Option<f64>,
    /// Where it was published.
    pub source: String,
    /// Why ours differs, where it does and the cause is known.
    #[serde(default)]
    pub note: String,
    /// Fail the run when ours is further away than this fraction.
    #[serde(default)]
    pub within: Option<f64>,
}

/// 16 hex digits that identify a TOML document's meaning (key order and
/// layout of the file do not count).
pub fn hash_document(document: &toml::Table) -> String {
    let canonical = serde_json::to_string(&sorted(&toml::Value::Table(document.clone()))).unwrap_or_default();
    blake3::hash(canonical.as_bytes()).to_hex()[..16].to_owned()
}

fn sorted(value: &toml::Value) -> serde_json::Value {
    match value {
        toml::Value::Table(table) => {
            let entries: BTreeMap<_, _> = table.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            serde_json::json!(entries)
        }
        toml::Value::Array(items) => items.iter().map(sorted).collect(),
        other => serde_json::json!(other),
    }
}
