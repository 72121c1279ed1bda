//! A real Linux kernel in virtual time: the guest that a run is done in.
//!
//! The guest serves the modelled device to itself. What the kernel computes takes
//! no virtual time, so that a record says nothing of processors, unless it is charged by a table.

mod queue;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use block::{QueueConfig, SchedulerKind};
use linux::{FileSystem, FrontEnd, Linux, Outcome};
use ssd::profile::{BuildOptions, DeviceConfig};

use super::Stand;
use crate::error::{LabError, LinuxHostError};
use crate::spec::{Contents, HostKind, Spec, leaves};

pub(crate) use queue::{queue_commands, queue_counters};

pub(super) const HOST: super::Host = super::Host { kind: HostKind::Linux, models_device: |_| true, check };

/// A guest with the run's stack, that may write to `scratch` and has nothing to do yet.
pub(crate) fn bare_guest(stand: Stand<'_>, device: &str, scratch: &Path) -> Result<Linux, LinuxHostError> {
    let stack = &stand.spec.stack;
    let program = std::env::current_exe().map_err(LinuxHostError::file("find the plumb program"))?;
    let mut guest = Linux::new(program, device);
    guest.settings = device_settings(stand, stand.seed);
    guest.front_end = stack.linux.front_end;
    guest.file_system = stack.filesystem;
    guest.mkfs_options.clone_from(&stack.linux.mkfs_options);
    guest.mount_options.clone_from(&stack.linux.mount_options);
    guest.image_on = stack.linux.image_on;
    guest.memory_bytes = stack.linux.memory.0;
    guest.charge = stand.charge.cloned();
    guest.ordering = stack.linux.ordering;
    guest.submission_cpus = stack.linux.cpus();
    guest.seed = stand.seed;
    guest.output = Some(scratch.to_owned());
    Ok(guest)
}

/// Changes to the profile that the device's server is told: the spec's, and the seed.
pub(crate) fn device_settings(stand: Stand<'_>, seed: u64) -> Vec<String> {
    let changes = leaves(&stand.spec.stack.device_set).into_iter();
    let mut settings: Vec<String> = changes.map(|(key, value)| format!("{key}={value}")).collect();
    match stand.profile.map(|profile| &profile.config) {
        Some(DeviceConfig::Ssd(_)) => settings.push(format!("initial.seed={}", seed as i64)),
        Some(DeviceConfig::Zoned(_)) => settings.push(format!("controller.seed={}", seed as i64)),
        Some(DeviceConfig::Disk(_) | DeviceConfig::Card(_)) | None => {}
    }
    settings
}

/// What a reader must know of the processor's time: these words where it is free, the costs where it is charged.
pub(crate) fn processor_note(stand: Stand<'_>, free: &str) -> String {
    match stand.charge {
        None => free.to_owned(),
        Some(charges) => {
            let costs: Vec<String> = charges.entries().iter().map(|(name, ns)| format!("{name} = {ns}")).collect();
            format!(
                "Processor time is charged: the kernel's work for the workload takes {}; what programs compute themselves is free, \
                 and each process has a processor of its own",
                costs.join(", ")
            )
        }
    }
}

/// What went wrong, in the words of fio or of the shell.
pub(crate) fn words(outcome: &Outcome) -> String {
    let text = String::from_utf8_lossy(&outcome.stderr).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(6).collect();
    if lines.is_empty() { "it said nothing".to_owned() } else { lines.join("; ") }
}

/// The device's counters out of the server's report.
pub(crate) fn device_counters(report: Option<&serde_json::Value>) -> Vec<(String, u64)> {
    let Some(counters) = report.and_then(|report| report.get("counters")) else { return Vec::new() };
    let named = |name: &str, value: u64| (format!("device.{name}"), value);
    match counters {
        serde_json::Value::Object(counters) => {
            counters.iter().filter_map(|(name, value)| Some(named(name, value.as_u64()?))).collect()
        }
        serde_json::Value::Array(counters) => {
            counters.iter().filter_map(|pair| Some(named(pair.get(0)?.as_str()?, pair.get(1)?.as_u64()?))).collect()
        }
        _ => Vec::new(),
    }
}

/// What the device calls itself.
pub(crate) fn model_name(stand: Stand<'_>) -> String {
    let options = BuildOptions { contents: ssd::Contents::None, ..BuildOptions::default() };
    let device = stand.profile.and_then(|profile| profile.build(&options).ok());
    device.map(|device| device.identity().model.clone()).unwrap_or_default()
}

/// What every program inside gets: the search path, and nothing else of the caller's.
pub(crate) fn environment() -> Vec<(OsString, OsString)> {
    let mut environment: Vec<(OsString, OsString)> = vec![("LC_ALL".into(), "C".into()), ("TZ".into(), "UTC".into())];
    environment.extend(std::env::var_os("PATH").map(|path| ("PATH".into(), path)));
    environment
}

/// The spec's device as the guest's server takes it: a built-in name, or an absolute path.
pub(crate) fn device_argument(spec: &Spec, folder: &Path) -> String {
    if !spec.stack.device.ends_with(".toml") {
        return spec.stack.device.clone();
    }
    let path: PathBuf = folder.join(&spec.stack.device);
    std::path::absolute(&path).unwrap_or(path).display().to_string()
}

/// Refuses what a real kernel cannot be asked for.
fn check(spec: &Spec) -> Result<(), LabError> {
    let refuse = |option: &str, reason: &str| {
        Err(LinuxHostError::Option { option: option.to_owned(), reason: reason.to_owned() }.into())
    };
    if spec.workload.trace.is_some() {
        return refuse("workload.trace", "traces are replayed by the model; give fio's read_iolog in a job instead");
    }
    if spec.workload.journal.is_some() {
        return refuse("workload.journal", "it is a model of the kernel's own; run a program that calls fsync instead");
    }
    if let Some(streams) = spec.stack.linux.ordering {
        let option = || "stack.linux.ordering".to_owned();
        if spec.stack.filesystem != FileSystem::Ext4 {
            let reason = format!("{streams} is an order that ext4 asks for: write stack.filesystem = \"ext4\"");
            return Err(LinuxHostError::Setting { option: option(), reason }.into());
        }
        if !matches!(spec.stack.linux.front_end, FrontEnd::Auto | FrontEnd::NvmeTcp) {
            let reason = format!("{streams} travels in NVMe commands: write stack.linux.front_end = \"nvme-tcp\"");
            return Err(LinuxHostError::Setting { option: option(), reason }.into());
        }
    }
    if let Some(lower) = spec.stack.linux.image_on
        && !spec.stack.filesystem.can_lie_in_a_file_of(lower)
    {
        let option = "stack.linux.image_on".to_owned();
        let reason = "stack.filesystem = \"betrfs\" can lie in a file of ext4, xfs, btrfs or f2fs".to_owned();
        return Err(LinuxHostError::Setting { option, reason }.into());
    }
    if spec.stack.contents == Contents::None {
        return refuse("stack.contents", "a served device always keeps what is written to it; take the key out");
    }
    let default = QueueConfig::default();
    let block = &spec.stack.block;
    if matches!(block.scheduler, Some(SchedulerKind::Zinc | SchedulerKind::ZincLifo)) {
        return refuse("stack.block.scheduler", "Linux 6.12 has no ZINC; write none or mq-deadline");
    }
    let fixed = "it follows from the driver and the device; take the key out";
    if block.cpus != default.cpus {
        return refuse("stack.block.cpus", "the guest has one processor; take the key out");
    }
    if block.nr_hw_queues.is_some() {
        return refuse("stack.block.nr_hw_queues", fixed);
    }
    if block.queue_depth.is_some() {
        return refuse("stack.block.queue_depth", "it follows from the driver; set stack.block.nr_requests");
    }
    if block.max_segments != default.max_segments {
        return refuse("stack.block.max_segments", fixed);
    }
    if block.segment_bytes != default.segment_bytes {
        return refuse("stack.block.segment_bytes", "it follows from the memory of the jobs; use fio's iomem");
    }
    if (block.ordering, block.streams) != (default.ordering, default.streams) {
        return refuse("stack.block.ordering", "it is of the modelled host; take the key out");
    }
    if block.zinc != default.zinc {
        return refuse("stack.block.zinc", "Linux 6.12 has no ZINC");
    }
    Ok(())
}
