//! Plumb's own host in virtual time: block layer, processors and device, built for one run.

mod counters;
mod stories;

use block::BlockDevice;
use file_systems::FileSystem;
use sim::Executor;
use sim::cpu::{CpuConfig, Cpus};
use ssd::command_log::{CommandLog, CommandRecord};
use ssd::profile::BuildOptions;
use trace::{Recorder, Span, Step};
use units::Nanos;
use workload::{Host, IoCosts};

use super::Stand;
use crate::commands::{self, COMMANDS_MAX};
use crate::error::{LabError, LinuxHostError};
use crate::results::{CommandClass, JobResult, RunResult};
use crate::spec::{Contents, HostKind, IoPath, Spec};
use counters::{block_counters, cpu_counters, order_counters};

pub(super) const HOST: super::Host = super::Host { kind: HostKind::Model, models_device: |_| true, check };

/// Virtual time between looks at the stop flag and the progress.
const SLICE: Nanos = Nanos::from_millis(5);

fn check(spec: &Spec) -> Result<(), LabError> {
    if spec.stack.filesystem != FileSystem::None {
        let option = "stack.filesystem".to_owned();
        return Err(LinuxHostError::ModelOption { option, what: "file systems" }.into());
    }
    if spec.stack.linux.image_on.is_some() {
        let option = "stack.linux.image_on".to_owned();
        return Err(LinuxHostError::ModelOption { option, what: "file systems" }.into());
    }
    if let Some(option) = spec.stack.linux.order_key() {
        let what = "ext4 that asks for order; `stack.block.ordering` is its own";
        return Err(LinuxHostError::ModelOption { option: option.to_owned(), what }.into());
    }
    let times = |cpu: &CpuConfig| (cpu.syscall, cpu.context_switch, cpu.migration);
    let is_default = times(&spec.stack.cpu) == times(&CpuConfig::default()) && spec.stack.io_path == IoPath::default();
    if !spec.stack.linux.charge.as_os_str().is_empty() && !is_default {
        let message = "stack.linux.charge says what the processor's work costs: take stack.io_path and the times of \
                       stack.cpu out, or the table";
        return Err(LabError::Unfit { message: message.to_owned() });
    }
    Ok(())
}

/// What the processor's work costs: as the spec says or, where it names a table, by that, as in the guest: work of the I/O path
/// that the table has no entry for is free, and no thread goes to another's processor.
fn costs(stand: Stand<'_>) -> (CpuConfig, IoCosts) {
    let stack = &stand.spec.stack;
    let mut cpu = stack.cpu.clone();
    let Some(charges) = stand.charge else {
        return (cpu, IoCosts { submit: stack.io_path.submit, complete: stack.io_path.complete });
    };
    cpu.syscall = Nanos(charges.system_call_ns.into());
    cpu.context_switch = Nanos(charges.context_switch_ns.into());
    cpu.migration = Nanos::ZERO;
    (cpu, IoCosts { submit: Nanos::ZERO, complete: Nanos::ZERO })
}

/// What a reader must know of such a run.
fn charge_note(stand: Stand<'_>) -> Option<String> {
    let charges = stand.charge?;
    Some(format!(
        "Processor costs are those of stack.linux.charge, as in the guest: system_call_ns = {}, context_switch_ns = {}; the I/O \
         path's own work is free",
        charges.system_call_ns, charges.context_switch_ns
    ))
}

/// What a workload comes to.
pub(crate) struct Played {
    pub(crate) jobs: Vec<JobResult>,
    pub(crate) failures: Vec<String>,
    pub(crate) remarks: Vec<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) text: String,
    pub(crate) fio_json: Option<String>,
}

/// Runs the host's clock, told how far the workload is (0 to 1); whether it came to the end.
pub(crate) type Drive<'a> = dyn FnMut(&dyn Fn() -> f64) -> bool + 'a;

/// A workload on this host.
pub(crate) trait Simulated {
    /// Whether it looks at the bytes that it reads.
    fn verifies(&self) -> bool {
        false
    }

    /// Whether it may ask for this.
    fn may_do(&self, step: Step) -> bool {
        let _ = step;
        true
    }

    /// Starts it, drives the clock, and takes what it came to; nothing where it did not come to the end.
    fn play(&self, host: &Host, drive: &mut Drive<'_>) -> Result<Option<Played>, LabError>;
}

/// Runs to the end; `None` when `halted` said so on the way.
pub(crate) fn simulate(
    stand: Stand<'_>,
    workload: &dyn Simulated,
    progress: &dyn Fn(f64),
    halted: &dyn Fn() -> bool,
) -> Result<Option<RunResult>, LabError> {
    let recorder = Recorder::bounded(stories::SPANS);
    let mut typical = stories::of(workload);
    let mut slice = |fraction: f64, began: Nanos| {
        progress(fraction);
        typical.look(&recorder, began);
    };
    let log = stand.spec.run.commands.then(|| CommandLog::in_memory(COMMANDS_MAX));
    let Some(mut result) = play(stand, workload, &recorder, log, true, &mut slice, halted)? else { return Ok(None) };
    result.stories = stories::told(typical);
    Ok(Some(result))
}

/// Runs to the end for the sake of its spans: the first `capacity`, and how
/// many were left out.
pub(crate) fn simulate_recorded(
    stand: Stand<'_>,
    workload: &dyn Simulated,
    capacity: usize,
) -> Result<(Vec<Span>, u64), LabError> {
    let recorder = Recorder::bounded(capacity);
    play(stand, workload, &recorder, None, false, &mut |_, _| (), &|| false)?;
    Ok(recorder.take())
}

/// Runs to the end for the sake of its commands: the first `capacity`, and how
/// many were left out.
pub(crate) fn simulate_logged(
    stand: Stand<'_>,
    workload: &dyn Simulated,
    capacity: usize,
) -> Result<(RunResult, Vec<CommandRecord>, u64), LabError> {
    let log = CommandLog::in_memory(capacity);
    let result = play(stand, workload, &Recorder::default(), Some(log.clone()), false, &mut |_, _| (), &|| false)?;
    let (records, left_out) = log.take();
    let result = result.ok_or_else(|| LabError::Unfit { message: "interrupted".to_owned() })?;
    Ok((result, records, left_out))
}

/// The classes of what a log holds; a note where it could not hold all. A log
/// that somebody else reads is left as it is.
fn commands_of(log: &CommandLog, wanted: bool, notes: &mut Vec<String>) -> Vec<CommandClass> {
    if !wanted {
        return Vec::new();
    }
    let (records, left_out) = log.take();
    notes.extend(commands::left_out_note(left_out));
    commands::classes(&records)
}

/// Runs to the end; after each slice `slice` learns how far the run is (0 to 1)
/// and when the slice began.
fn play(
    stand: Stand<'_>,
    workload: &dyn Simulated,
    recorder: &Recorder,
    log: Option<CommandLog>,
    keep_classes: bool,
    slice: &mut dyn FnMut(f64, Nanos),
    halted: &dyn Fn() -> bool,
) -> Result<Option<RunResult>, LabError> {
    let mut executor = Executor::new_virtual();
    let host = build(stand, workload, &executor, recorder, log.as_ref())?;
    let limit = stand.spec.run.time_limit;
    let mut drive = |fraction: &dyn Fn() -> f64| -> bool {
        let mut deadline = Nanos::ZERO;
        loop {
            if halted() {
                return false;
            }
            let began = deadline;
            deadline = (deadline + SLICE).min(limit);
            let unfinished = executor.run_tasks(deadline);
            slice(fraction(), began);
            if unfinished == 0 || deadline == limit {
                return true;
            }
        }
    };
    let Some(mut played) = workload.play(&host, &mut drive)? else { return Ok(None) };
    played.notes.extend(charge_note(stand));
    let disk = &host.disk;
    let mut counters: Vec<(String, u64)> = Vec::new();
    counters.extend(disk.device_counters().into_iter().map(|(name, value)| (format!("device.{name}"), value)));
    counters
        .extend(block_counters(&disk.statistics()).into_iter().map(|(name, value)| (format!("block.{name}"), value)));
    let order = order_counters(&disk.order_statistics());
    counters.extend(order.into_iter().map(|(name, value)| (format!("block.{name}"), value)));
    counters.extend(cpu_counters(&host.cpus.counters()));
    Ok(Some(RunResult {
        device_model: disk.with_device(|device| device.identity().model.clone()),
        elapsed_ns: host.sim.now().0,
        jobs: played.jobs,
        counters,
        commands: log.map(|log| commands_of(&log, keep_classes, &mut played.notes)).unwrap_or_default(),
        failures: played.failures,
        remarks: played.remarks,
        notes: played.notes,
        text: played.text,
        fio_json: played.fio_json,
        ..RunResult::default()
    }))
}

/// Device, block layer and processors as the spec says.
fn build(
    stand: Stand<'_>,
    workload: &dyn Simulated,
    executor: &Executor,
    recorder: &Recorder,
    log: Option<&CommandLog>,
) -> Result<Host, LabError> {
    let stack = &stand.spec.stack;
    let contents = match stack.contents {
        Contents::Memory => ssd::Contents::Memory,
        Contents::Auto if workload.verifies() => ssd::Contents::Memory,
        Contents::Auto | Contents::None => ssd::Contents::None,
    };
    let options = BuildOptions { contents, seed: Some(stand.seed), ..BuildOptions::default() };
    let mut device = stand.profile()?.build(&options)?;
    device.set_recorder(recorder.clone());
    if let Some(log) = log {
        device = log.wrap(device);
    }
    let sim = executor.handle();
    let (cpu, costs) = costs(stand);
    let cpus = Cpus::new(&sim, cpu, recorder.clone());
    let mut queue = stack.block.clone();
    queue.cpus = stack.cpu.cores;
    let disk = BlockDevice::new(&sim, device, queue, recorder.clone());
    Ok(Host { sim, disk, cpus, costs, seed: stand.seed, recorder: recorder.clone() })
}
