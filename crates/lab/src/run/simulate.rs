//! One run, from a built stack to its result.

use std::sync::Arc;

use block::BlockDevice;
use sim::Executor;
use sim::cpu::Cpus;
use ssd::command_log::{CommandLog, CommandRecord};
use ssd::profile::BuildOptions;
use trace::{Recorder, Span};
use units::Nanos;
use workload::fio::{self, parse::Verify};
use workload::replay::Replay;
use workload::{Host, IoCosts};

use super::convert::{block_counters, cpu_counters, played, replayed};
use super::shared::open_trace;
use super::stories::{self, Stories};
use super::{LabError, PlannedRun, WorkloadInput};
use crate::commands::{self, COMMANDS_MAX};
use crate::results::{CommandClass, RunResult};
use crate::spec::Contents;

/// Virtual time between looks at the stop flag and the progress.
const SLICE: Nanos = Nanos::from_millis(5);

/// Runs to the end; `None` when `halted` said so on the way.
pub(crate) fn simulate(
    run: &PlannedRun,
    progress: &dyn Fn(f64),
    halted: &dyn Fn() -> bool,
) -> Result<Option<RunResult>, LabError> {
    let recorder = Recorder::bounded(stories::SPANS);
    let mut stories = Stories::of(&run.inputs.workload);
    let mut slice = |fraction: f64, began: Nanos| {
        progress(fraction);
        stories.look(&recorder, began);
    };
    let log = run.point.spec.run.commands.then(|| CommandLog::in_memory(COMMANDS_MAX));
    let Some(mut result) = play(run, &recorder, log, true, &mut slice, halted)? else { return Ok(None) };
    result.stories = stories.take();
    Ok(Some(result))
}

/// Runs to the end for the sake of its spans: the first `capacity`, and how
/// many were left out.
pub(crate) fn simulate_recorded(run: &PlannedRun, capacity: usize) -> Result<(Vec<Span>, u64), LabError> {
    let recorder = Recorder::bounded(capacity);
    play(run, &recorder, None, false, &mut |_, _| (), &|| false)?;
    Ok(recorder.take())
}

/// Runs to the end for the sake of its commands: the first `capacity`, and how
/// many were left out.
pub(crate) fn simulate_logged(
    run: &PlannedRun,
    capacity: usize,
) -> Result<(RunResult, Vec<CommandRecord>, u64), LabError> {
    let log = CommandLog::in_memory(capacity);
    let result = play(run, &Recorder::default(), Some(log.clone()), false, &mut |_, _| (), &|| false)?;
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
    run: &PlannedRun,
    recorder: &Recorder,
    log: Option<CommandLog>,
    keep_classes: bool,
    slice: &mut dyn FnMut(f64, Nanos),
    halted: &dyn Fn() -> bool,
) -> Result<Option<RunResult>, LabError> {
    let spec = &run.point.spec;
    let mut executor = Executor::new_virtual();
    let host = build(run, &executor, recorder, log.as_ref())?;
    let limit = spec.run.time_limit;
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
    let mut played = match &run.inputs.workload {
        WorkloadInput::Fio(jobs) => {
            let started = fio::start(&host, jobs).map_err(|error| LabError::Unfit { message: error.to_string() })?;
            if !drive(&|| started.fraction()) {
                return Ok(None);
            }
            let notes = started.notes().to_vec();
            played(&started.finish(), &notes)
        }
        WorkloadInput::Trace { path, read, replay, records } => {
            let file = path.display().to_string();
            let started = match records {
                Some(records) => {
                    let records = Arc::clone(records);
                    Replay::start(&host, &file, (0..records.len()).map(move |index| Ok(records[index])), replay)
                }
                None => Replay::start(&host, &file, open_trace(path, read)?, replay),
            };
            if !drive(&|| 0.0) {
                return Ok(None);
            }
            replayed(&started.finish()?)
        }
        WorkloadInput::Linux(_) | WorkloadInput::Study(_) | WorkloadInput::Program(_) => {
            return Err(LabError::Unfit { message: "a run under Linux is not simulated".to_owned() });
        }
    };
    let disk = &host.disk;
    let mut counters: Vec<(String, u64)> = Vec::new();
    counters.extend(disk.device_counters().into_iter().map(|(name, value)| (format!("device.{name}"), value)));
    counters
        .extend(block_counters(&disk.statistics()).into_iter().map(|(name, value)| (format!("block.{name}"), value)));
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
        ..run.result()
    }))
}

/// Device, block layer and processors as the spec says.
fn build(
    run: &PlannedRun,
    executor: &Executor,
    recorder: &Recorder,
    log: Option<&CommandLog>,
) -> Result<Host, LabError> {
    let spec = &run.point.spec;
    let contents = match (spec.stack.contents, &run.inputs.workload) {
        (Contents::Memory, _) => ssd::Contents::Memory,
        (Contents::Auto, WorkloadInput::Fio(jobs))
            if jobs.jobs.iter().any(|job| job.options.verify != Verify::None) =>
        {
            ssd::Contents::Memory
        }
        (Contents::Auto | Contents::None, _) => ssd::Contents::None,
    };
    let options = BuildOptions { contents, seed: Some(run.seed), ..BuildOptions::default() };
    let mut device = run.inputs.profile()?.build(&options)?;
    device.set_recorder(recorder.clone());
    if let Some(log) = log {
        device = log.wrap(device);
    }
    let sim = executor.handle();
    let cpus = Cpus::new(&sim, spec.stack.cpu.clone(), recorder.clone());
    let costs = IoCosts { submit: spec.stack.io_path.submit, complete: spec.stack.io_path.complete };
    let mut queue = spec.stack.block.clone();
    queue.cpus = spec.stack.cpu.cores;
    let disk = BlockDevice::new(&sim, device, queue, recorder.clone());
    Ok(Host { sim, disk, cpus, costs, seed: run.seed, recorder: recorder.clone() })
}
