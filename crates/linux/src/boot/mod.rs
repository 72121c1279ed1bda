//! Boots a kernel for one run and hears what comes of it.

mod contents;
mod diagnosis;
mod memory;
mod plan;
mod process;
mod processor;
mod terminal;

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use units::Nanos;

use crate::error::LinuxError;
use crate::kernel::Kernel;
use crate::outcome::{Ended, MoreDevice, Outcome};
use crate::plan::{GuestPlan, Report, artifact};
use crate::run::{Input, Linux, OutputStreams};
pub use memory::folder as memory_folder;
use process::{Boot, Interrupted};
use terminal::Terminal;

/// The files behind the guest's channels.
struct Streams {
    plan: File,
    report: File,
    log: File,
    input: OwnedFd,
    output: OwnedFd,
    errors: OwnedFd,
    /// Standard output and standard error, where they are captured.
    captured: Option<(File, File)>,
}

/// Runs `run` in `kernel` until it ends or `stop` says so.
pub(crate) fn run(run: &Linux, kernel: &Kernel, stop: &dyn Fn() -> bool) -> Result<Outcome, LinuxError> {
    let started = Instant::now();
    let folder = tempfile::Builder::new()
        .prefix("plumb-linux-")
        .tempdir()
        .map_err(LinuxError::system("cannot make a folder for the run"))?;
    let terminal = Terminal::of(run)?;
    let plumb = absolute(&run.plumb)?;
    let contents = contents::folder()?;
    let folders = plan::Folders { run: folder.path(), contents: contents.path() };
    let plan = plan::of(run, &plumb, folders, terminal.is_some())?;
    if let Some(costs) = plan::server_costs(run) {
        let file = folder.path().join(artifact::COSTS);
        fs::write(&file, costs.to_toml(&[])).map_err(LinuxError::system(format!("cannot write {}", file.display())))?;
    }
    let memory_folder = memory::folder(run.memory_bytes)?;
    let mut streams = Streams::open(run, folder.path())?;
    streams.write_plan(&plan)?;

    let boot = Boot {
        program: kernel.program(),
        init: &plumb,
        memory_bytes: run.memory_bytes,
        charge: run.charge.as_ref(),
        parameters: run.parameters(),
        memory_folder: &memory_folder,
        run_folder: folder.path(),
        log: &streams.log,
        channels: streams.channels()?,
        terminal: terminal.as_ref().map(Terminal::descriptor).transpose()?,
    };
    let ended = {
        let mut running = boot.start()?;
        running.wait(run.limits.wall, stop, &|| streams.size() > run.limits.output_bytes)?
    };
    drop(terminal);
    let log = read_text(&mut streams.log, run.limits.output_bytes)?;
    match ended {
        Ok(status) => {
            let reports = streams.reports()?;
            outcome(run, kernel, &mut streams, reports, log, &status.to_string(), folder.path(), started.elapsed())
        }
        Err(Interrupted::Stopped) => Err(LinuxError::Stopped),
        Err(Interrupted::TimedOut) => {
            Err(LinuxError::TimedOut { limit: run.limits.wall.unwrap_or(Duration::ZERO), log: diagnosis::tail(&log) })
        }
        Err(Interrupted::TooMuchOutput) => Err(LinuxError::Invalid {
            message: format!(
                "the command or the kernel's log wrote more than {} MiB of captured output: \
                 send it to a file, or raise the limit",
                run.limits.output_bytes >> 20
            ),
        }),
    }
}

/// Puts together what the guest reported.
#[expect(clippy::too_many_arguments, reason = "the parts of one value")]
fn outcome(
    run: &Linux,
    kernel: &Kernel,
    streams: &mut Streams,
    reports: Vec<Report>,
    log: String,
    status: &str,
    folder: &Path,
    wall: Duration,
) -> Result<Outcome, LinuxError> {
    let mut seen: Vec<MoreDevice> = Vec::new();
    let mut profiles = run.devices().into_iter().map(|device| device.profile);
    let mut began = Nanos::ZERO;
    let mut command: Option<(Ended, Nanos)> = None;
    let mut finished = false;
    for report in reports {
        match report {
            Report::Device { node } => {
                seen.push(MoreDevice { profile: profiles.next().unwrap_or_default(), node, report: None });
            }
            Report::Began { at_ns } => began = Nanos(at_ns),
            Report::Ended { ended, at_ns } => command = Some((ended, Nanos(at_ns))),
            Report::Served { device, report } => {
                if let Some(seen) = seen.get_mut(device) {
                    seen.report = Some(report);
                }
            }
            Report::Done => finished = true,
            Report::Failed { message } => {
                return Err(match (diagnosis::killed_for_memory(&log), diagnosis::out_of_mappings(&log)) {
                    (Some(victim), _) => out_of_memory(run, victim, &log),
                    (None, Some(error)) => error,
                    (None, None) => LinuxError::Guest { message, log: String::new() },
                });
            }
        }
    }
    let Some((ended, done)) = command.filter(|_| finished) else {
        return Err(diagnosis::silent_end(&log, run.memory_bytes, status));
    };
    // The command may have been the victim; one that outlived its own children's deaths is answered for.
    if ended == Ended::Signaled(libc::SIGKILL)
        && let Some(victim) = diagnosis::killed_for_memory(&log)
    {
        return Err(out_of_memory(run, victim, &log));
    }
    let (stdout, stderr) = match &mut streams.captured {
        Some((output, errors)) => {
            (read_bytes(output, run.limits.output_bytes)?, read_bytes(errors, run.limits.output_bytes)?)
        }
        None => (Vec::new(), Vec::new()),
    };
    let events = folder.join(artifact::KERNEL_TRACE);
    let recorded = || crate::trace::Recorded::read(&events, &folder.join(artifact::DEVICE_TRACE));
    let trace = run.trace.then(recorded).transpose()?;
    let commands = || crate::trace::Commands::read(&events, &folder.join(artifact::DEVICE_COMMANDS));
    let commands = run.commands.then(commands).transpose()?;
    let release = kernel.release().to_owned();
    let charge = run.charge.clone();
    let mut seen = seen.into_iter();
    let first = seen.next().unwrap_or_default();
    Ok(Outcome {
        ended,
        stdout,
        stderr,
        began,
        done,
        kernel: release,
        device_node: first.node,
        device: first.report,
        more_devices: seen.collect(),
        trace,
        commands,
        charge,
        log,
        wall,
    })
}

fn out_of_memory(run: &Linux, victim: &str, log: &str) -> LinuxError {
    let (memory_mib, victim, log) = (run.memory_bytes >> 20, victim.to_owned(), diagnosis::tail(log));
    LinuxError::OutOfMemory { memory_mib, victim, log }
}

/// The path of an existing file as the guest will find it.
fn absolute(path: &Path) -> Result<std::path::PathBuf, LinuxError> {
    fs::canonicalize(path).map_err(LinuxError::system(format!("cannot find {}", path.display())))
}

impl Streams {
    fn open(run: &Linux, folder: &Path) -> Result<Self, LinuxError> {
        let file = |name: &str| {
            let path = folder.join(name);
            File::options()
                .read(true)
                .append(true)
                .create_new(true)
                .open(&path)
                .map_err(LinuxError::system(format!("cannot make {}", path.display())))
        };
        let copy = |what: std::io::Result<OwnedFd>| what.map_err(LinuxError::system("cannot copy a descriptor"));
        let input = match &run.input {
            Input::Empty => File::open("/dev/null").map_err(LinuxError::system("cannot open /dev/null"))?.into(),
            Input::Bytes(bytes) => {
                let mut input = file("input")?;
                input.write_all(bytes).map_err(LinuxError::system("cannot keep the command's input"))?;
                input.rewind().map_err(LinuxError::system("cannot keep the command's input"))?;
                input.into()
            }
            Input::Inherit => copy(rustix::io::dup(rustix::stdio::stdin()).map_err(Into::into))?,
        };
        let (output, errors, captured) = match run.output_streams {
            OutputStreams::Capture => {
                let (output, errors) = (file("output")?, file("errors")?);
                let ends = (copy(output.try_clone().map(Into::into))?, copy(errors.try_clone().map(Into::into))?);
                (ends.0, ends.1, Some((output, errors)))
            }
            OutputStreams::Inherit => (
                copy(rustix::io::dup(rustix::stdio::stdout()).map_err(Into::into))?,
                copy(rustix::io::dup(rustix::stdio::stderr()).map_err(Into::into))?,
                None,
            ),
        };
        Ok(Self { plan: file("plan")?, report: file("report")?, log: file("log")?, input, output, errors, captured })
    }

    fn write_plan(&mut self, plan: &GuestPlan) -> Result<(), LinuxError> {
        let failed = || LinuxError::system("cannot write the run's plan");
        serde_json::to_writer(&self.plan, plan).map_err(std::io::Error::from).map_err(failed())?;
        self.plan.rewind().map_err(failed())
    }

    /// Copies of the descriptors in the order of the channels.
    fn channels(&self) -> Result<Vec<OwnedFd>, LinuxError> {
        let files = [&self.plan, &self.report, &self.log].map(|file| file.try_clone().map(OwnedFd::from));
        let streams = [&self.input, &self.output, &self.errors].map(OwnedFd::try_clone);
        files
            .into_iter()
            .chain(streams)
            .collect::<Result<_, _>>()
            .map_err(LinuxError::system("cannot copy a descriptor"))
    }

    /// Bytes of captured output and log.
    fn size(&self) -> u64 {
        let captured = self.captured.iter().flat_map(|(output, errors)| [output, errors]);
        captured.chain([&self.log]).filter_map(|file| file.metadata().ok()).map(|about| about.len()).sum()
    }

    /// What the guest has reported, as far as it came.
    fn reports(&mut self) -> Result<Vec<Report>, LinuxError> {
        let text = read_text(&mut self.report, u64::MAX)?;
        // A guest that stopped in the middle of a line has not said it.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| {
                serde_json::from_str(line).map_err(|error| LinuxError::Guest {
                    message: format!("the guest's report cannot be read: {error}"),
                    log: line.chars().take(200).collect(),
                })
            })
            .collect()
    }
}

fn read_bytes(file: &mut File, limit: u64) -> Result<Vec<u8>, LinuxError> {
    let failed = || LinuxError::system("cannot read what the run left");
    file.rewind().map_err(failed())?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(failed())?;
    Ok(bytes)
}

fn read_text(file: &mut File, limit: u64) -> Result<String, LinuxError> {
    Ok(String::from_utf8_lossy(&read_bytes(file, limit)?).into_owned())
}
