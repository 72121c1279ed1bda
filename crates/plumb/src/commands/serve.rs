//! `plumb serve`: a modelled device on the wall clock.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use clap::{ArgGroup, Args};
use serve::subsystem::{HostCredentials, SubsystemConfig};
use serve::{LineWriter, ServeError, ServeOptions, ServeReport, Stop, WriteLog, fuse_loop, nbd, nvme_tcp, ublk};
use ssd::command_log::CommandLog;
use ssd::profile::{BuildOptions, Profile};
use ssd::{Contents, Device};
use trace::{Recorder, write_table};
use units::{ByteSize, Nanos, Printable};

use super::control::ControlAddress;
use super::{Done, EXIT_FAILED};
use crate::failure::Failure;

/// Most spans that `--trace` keeps, some 150 MB.
const MAX_SPANS: usize = 1 << 21;

/// How long the reader of the report may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the reader of the last log lines may take.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// What to serve and where.
#[derive(Args)]
#[command(group(ArgGroup::new("front-end").required(true)))]
#[command(after_help = "Examples:
  plumb serve --device samsung-980pro-1tb --nbd unix:/tmp/plumb.sock
  plumb serve --device hdd-7200-1tb --nbd tcp:10809 --image disk.img
  plumb serve --device samsung-980pro-1tb --loop          (root; prints /dev/loopN)
  plumb serve --device wd-zn540 --ublk                    (root, Linux 6.6; prints /dev/ublkbN)
  plumb serve --device wd-zn540 --nvme-tcp --nqn nqn.2014-08.org.example:zns
  nvme connect -t tcp -a 127.0.0.1 -s 4420 -n nqn.2014-08.org.example:zns
  plumb serve --device samsung-980pro-1tb --nbd unix:/tmp/plumb.sock --control unix:/tmp/plumb.control
  plumb control unix:/tmp/plumb.control watch

docs/serving.md says which front-end to take. Clients are answered once the line that begins
`ready at` is printed. Ctrl-C or SIGTERM flushes the device and stops; a second one does not wait
for a kernel that still holds it. With --image, data survives restarts; killing the process loses
what a power cut would: writes that no flush or FUA has covered.")]
pub struct ServeArguments {
    /// Device profile, built-in (`plumb list devices`) or a .toml file
    #[arg(long, value_name = "NAME|FILE")]
    device: String,
    /// Serve NBD at unix:PATH, tcp:PORT or tcp:HOST:PORT (loopback without a host)
    #[arg(long, value_name = "ADDRESS", group = "front-end")]
    nbd: Option<nbd::Listen>,
    /// Serve NVMe/TCP at tcp:PORT or HOST:PORT (loopback and port 4420 where left out)
    #[arg(long, value_name = "ADDRESS", group = "front-end")]
    nvme_tcp: Option<Option<nvme_tcp::Listen>>,
    /// Be /dev/ublkbID, or with a free number (Linux 6.5 with ublk_drv, root)
    #[arg(long, value_name = "ID", group = "front-end")]
    ublk: Option<Option<u32>>,
    /// Be a loop device over a FUSE file (any kernel, root)
    #[arg(long = "loop", group = "front-end")]
    loop_device: bool,
    /// Keep contents in this file, made when absent [default: in memory]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Keep contents in a new file of this name, deleted at once: as large as its disk, gone with the server
    #[arg(long, value_name = "FILE", conflicts_with = "image")]
    scratch: Option<PathBuf>,
    /// Most memory that contents may take; writes beyond it fail for want of space [default: half of the
    /// machine's]
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["image", "scratch"])]
    memory: Option<ByteSize>,
    /// Have nothing after a power cut (`plumb control`) but what flash holds, found through the map that its journal tells: for tests of
    /// hosts, as it takes memory for everything that is written
    #[arg(long, conflicts_with_all = ["image", "scratch"])]
    recover_from_flash: bool,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Answer `plumb control` at this address
    #[arg(long, value_name = "unix:PATH")]
    control: Option<ControlAddress>,
    /// Spin this long before a deadline instead of sleeping: less error, more CPU time
    #[arg(long, value_name = "TIME", default_value = "0us")]
    spin: Nanos,
    /// Do not subtract the measured wake-up and transport time from modelled latencies
    #[arg(long)]
    no_calibration: bool,
    /// NVMe/TCP: the subsystem's NQN [default: derived from the device's name]
    #[arg(long, value_name = "NQN")]
    nqn: Option<String>,
    /// NVMe/TCP: let only this host connect; may be repeated
    #[arg(long, value_name = "NQN")]
    allow_host: Vec<String>,
    /// NVMe/TCP: let this host connect once it has authenticated (DH-HMAC-CHAP); may be repeated
    #[arg(long, value_name = "NQN=DHHC-1:..[,DHHC-1:..]", value_parser = HostCredentials::parse)]
    host_secret: Vec<HostCredentials>,
    /// Loop: lock this much memory for contents before serving
    #[arg(long, value_name = "SIZE")]
    prefault: Option<ByteSize>,
    /// Loop: fail the kernel's requests when the server shows no sign of life for so long
    #[arg(long, value_name = "TIME")]
    stall: Option<Nanos>,
    /// Loop: take requests through an io_uring (Linux 6.14), which is faster; the watchdog kills
    /// a server that is stuck, in place of only cutting it off
    #[arg(long)]
    io_uring: bool,
    /// Log every command as the device gets it
    #[arg(long, value_name = "FILE")]
    command_log: Option<PathBuf>,
    /// Log writes with their bytes, flushes and discards: what a power cut could take (`plumb crash` reads it)
    #[arg(long, value_name = "FILE")]
    write_log: Option<PathBuf>,
    /// Write the device's spans as a table, with times of CLOCK_MONOTONIC
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print the report as one line of JSON
    #[arg(long)]
    json: bool,
    /// Change the profile: a dotted path and a TOML value
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<lab::spec::Override>,
}

/// Serves until told to stop.
pub fn serve(arguments: ServeArguments) -> Done {
    arguments.check()?;
    let profile = arguments.profile()?;
    let contents = match (&arguments.image, &arguments.scratch) {
        (Some(path), _) => Contents::File(path.clone()),
        (None, Some(path)) => Contents::Scratch(path.clone()),
        (None, None) => Contents::Memory,
    };
    let mut device = build(&profile, contents, arguments.recover_from_flash)?;
    let trace = arguments.trace.as_deref().map(create).transpose()?;
    let recorder = trace.as_ref().map(|_| Recorder::bounded(MAX_SPANS));
    if let Some(recorder) = &recorder {
        device.set_recorder(recorder.clone());
    }
    let stop = Stop::on_signals(&[signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM]).map_err(machine)?;
    let said = Rc::new(LineWriter::stderr().map_err(machine)?);
    let commands = match &arguments.command_log {
        Some(path) => {
            let file = Watched { to: create(path)?, path: path.clone(), said: Rc::clone(&said), has_failed: false };
            Some((CommandLog::to_writer(Box::new(file)), path))
        }
        None => None,
    };
    if let Some((log, _)) = &commands {
        device = log.wrap(device);
    }
    let writes = match &arguments.write_log {
        Some(path) => {
            // Not buffered: the length of the file says how far the device is.
            let wrapped = WriteLog::wrap(Box::new(create_file(path)?), device);
            let (log, wrapped) = wrapped.map_err(|error| Failure::Machine(unwritten(path, &error)))?;
            device = wrapped;
            Some((log, path))
        }
        None => None,
    };
    let title = format!("serving {} ({})", profile.name, profile.description);
    let served = arguments.run(&profile.name, &title, device, &said, &stop);
    // Each of them, whatever became of the others: nothing that was lost goes unsaid.
    let mut failures: Vec<String> = served.as_ref().err().map(ToString::to_string).into_iter().collect();
    if let Some((log, path)) = commands
        && let Err(error) = log.finish()
    {
        failures.push(unwritten(path, &error));
    }
    if let Some((log, path)) = writes
        && let Err(error) = log.finish()
    {
        failures.push(unwritten(path, &error));
    }
    if let (Some(file), Some(recorder), Some(path), Ok(report)) = (trace, recorder, &arguments.trace, &served)
        && let Err(error) = write_trace(&recorder, report.started_at, file)
    {
        failures.push(unwritten(path, &error));
    }
    if let Ok(report) = served {
        let text = if arguments.json { report.to_json().to_string() } else { report.to_string() };
        failures.extend(print_report(&text)?);
    }
    for failure in &failures {
        said.line(&format!("Error: {failure}"));
    }
    said.finish(LOG_PATIENCE);
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

/// Prints the report for a reader who may never come; why not all of it was taken, if so.
fn print_report(text: &str) -> Result<Option<String>, Failure> {
    let lines = LineWriter::stdout().map_err(machine)?;
    for line in text.lines() {
        lines.line(line);
    }
    let written = lines.finish(PATIENCE);
    // The work of a server is done by then: it says that its report is lost, and does not die of it.
    if let Some(error) = written.error {
        return Ok(Some(format!("nobody took the report from standard output: {error}")));
    }
    Ok((!written.is_over).then(|| format!("nobody took the report from standard output within {PATIENCE:?}")))
}

/// A file whose first failure is said when it happens: the log of a server may be looked at long before its end.
struct Watched {
    to: BufWriter<File>,
    path: PathBuf,
    said: Rc<LineWriter>,
    has_failed: bool,
}

impl Watched {
    fn watch<T>(&mut self, result: std::io::Result<T>) -> std::io::Result<T> {
        if let Err(error) = &result
            && !std::mem::replace(&mut self.has_failed, true)
        {
            self.said.line(&format!("error: {}; nothing more is logged there", unwritten(&self.path, error)));
        }
        result
    }
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let result = self.to.write(bytes);
        self.watch(result)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let result = self.to.flush();
        self.watch(result)
    }
}

fn build(profile: &Profile, contents: Contents, recover_from_flash: bool) -> Result<Box<dyn Device>, Failure> {
    let options = BuildOptions { contents, recover_from_flash, ..BuildOptions::default() };
    profile.build(&options).map_err(Failure::input)
}

impl ServeArguments {
    /// The device's profile, with the command line's changes.
    fn profile(&self) -> Result<Profile, Failure> {
        Ok(lab::device::describe(&self.device, Path::new(""), &self.set)?.profile)
    }

    /// The device, as far as it is available without serving it.
    #[cfg(test)]
    pub fn device_without_contents(&self) -> Result<Box<dyn Device>, Failure> {
        self.check()?;
        build(&self.profile()?, Contents::None, false)
    }

    /// Refuses options of a front-end that is not the one asked for.
    fn check(&self) -> Result<(), Failure> {
        let (nvme_tcp, loop_device) = (self.nvme_tcp.is_some(), self.loop_device);
        let foreign = [
            ("--nqn", self.nqn.is_some() && !nvme_tcp, "--nvme-tcp"),
            ("--allow-host", !self.allow_host.is_empty() && !nvme_tcp, "--nvme-tcp"),
            ("--host-secret", !self.host_secret.is_empty() && !nvme_tcp, "--nvme-tcp"),
            ("--prefault", self.prefault.is_some() && !loop_device, "--loop"),
            ("--stall", self.stall.is_some() && !loop_device, "--loop"),
            ("--io-uring", self.io_uring && !loop_device, "--loop"),
        ];
        match foreign.iter().find(|(_, is_foreign, _)| *is_foreign) {
            Some((option, _, front_end)) => Err(Failure::input(format!(
                "{option} is an option of {front_end}; leave it out or serve with {front_end}"
            ))),
            None => Ok(()),
        }
    }

    /// Serves through the front-end asked for.
    fn run(
        &self,
        name: &str,
        title: &str,
        device: Box<dyn Device>,
        said: &Rc<LineWriter>,
        stop: &Stop,
    ) -> Result<ServeReport, ServeError> {
        let log = Rc::clone(said);
        let options = ServeOptions {
            log: Box::new(move |line| log.line(line)),
            memory_limit_bytes: self.memory_limit_bytes(said),
            read_only: self.read_only,
            spin: self.spin,
            calibrate: !self.no_calibration,
            control: self.control.as_ref().map(|address| address.0.clone()),
        };
        if let Some(listen) = &self.nbd {
            let server = nbd::Server::bind(listen)?;
            said.line(&format!("{title} at {}", server.uri()));
            return server.run(device, &options, stop);
        }
        if let Some(listen) = &self.nvme_tcp {
            let nqn = self.nqn.clone().unwrap_or_else(|| SubsystemConfig::default_nqn(name));
            let mut config = SubsystemConfig::new(nqn, name);
            config.allowed_hosts = self.allow_host.clone();
            config.credentials = self.host_secret.clone();
            let server = nvme_tcp::Server::bind(&listen.clone().unwrap_or_default(), config)?;
            said.line(&format!("{title} at {}", server.address()));
            return server.run(device, &options, stop);
        }
        said.line(title);
        if let Some(id) = self.ublk {
            return ublk::Server::open(id)?.run(device, &options, stop);
        }
        let watchdog = std::env::current_exe()
            .ok()
            .map(|program| fuse_loop::WatchdogProgram { program, arguments: vec!["fuse-watchdog".into()] });
        let defaults = fuse_loop::LoopOptions::default();
        let loop_options = fuse_loop::LoopOptions {
            name: name.to_owned(),
            prefault_bytes: self.prefault.map_or(defaults.prefault_bytes, |size| size.0),
            contents_in_memory: self.in_memory(),
            watchdog,
            stall: self.stall.unwrap_or(defaults.stall),
            io_uring: self.io_uring,
        };
        fuse_loop::Server::new(loop_options)?.run(device, &options, stop)
    }

    fn in_memory(&self) -> bool {
        self.image.is_none() && self.scratch.is_none()
    }

    /// The bound on memory for contents, if they are there.
    fn memory_limit_bytes(&self, said: &LineWriter) -> Option<u64> {
        if !self.in_memory() {
            return None;
        }
        let limit = match self.memory {
            Some(ByteSize(bytes)) => bytes,
            // What is set aside is to be used.
            None => serve::default_limit_bytes()?.max(self.prefault.map_or(0, |size| size.0)),
        };
        said.line(&format!("contents are kept in memory, at most {} of it (--memory)", ByteSize(limit)));
        Some(limit)
    }
}

fn machine(error: impl std::error::Error) -> Failure {
    Failure::Machine(error.to_string())
}

fn unwritten(path: &Path, error: &std::io::Error) -> String {
    format!("cannot write {}: {error}", Printable::path(path))
}

/// A new file for what a server writes of itself. Not a FIFO or a socket: opening one waits for its reader, and so does
/// writing to one that is full, and a server waits for nobody who only looks on.
fn create(path: &Path) -> Result<BufWriter<File>, Failure> {
    create_file(path).map(BufWriter::new)
}

fn create_file(path: &Path) -> Result<File, Failure> {
    let kind = std::fs::metadata(path).map(|meta| meta.file_type());
    if kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket()) {
        return Err(Failure::Machine(format!(
            "{} is a pipe or socket, and a server would wait for whoever reads it: name a file, and follow it with \
             `tail -f`",
            Printable::path(path)
        )));
    }
    File::create(path).map_err(|error| Failure::Machine(unwritten(path, &error)))
}

/// Writes what was recorded, its times moved to a clock that other programs read.
fn write_trace(recorder: &Recorder, started_at: Nanos, mut file: impl Write) -> std::io::Result<()> {
    let (mut spans, dropped) = recorder.take();
    for span in &mut spans {
        span.start += started_at;
        span.end += started_at;
    }
    write_table(&spans, &mut file)?;
    if dropped > 0 {
        writeln!(file, "# dropped {dropped}")?;
    }
    file.flush()
}
