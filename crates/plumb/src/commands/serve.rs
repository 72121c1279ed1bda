//! `plumb serve`: a modelled device on the wall clock.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use serve::subsystem::{HostCredentials, SubsystemConfig};
use serve::{ServeError, ServeOptions, ServeReport, Stop, fuse_loop, nbd, nvme_tcp, ublk};
use ssd::command_log::CommandLog;
use ssd::profile::BuildOptions;
use ssd::{Contents, Device};
use trace::{Recorder, write_table};
use units::{ByteSize, Nanos};

use super::Done;
use super::control::ControlAddress;
use crate::failure::Failure;

/// Most spans that `--trace` keeps, some 150 MB.
const MAX_SPANS: usize = 1 << 21;

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
    let profile = lab::device::describe(&arguments.device, Path::new(""), &arguments.set)?.profile;
    let contents = match &arguments.image {
        Some(path) => Contents::File(path.clone()),
        None => Contents::Memory,
    };
    let mut device = profile.build(&BuildOptions { contents, ..BuildOptions::default() }).map_err(Failure::input)?;
    let trace = arguments.trace.as_deref().map(create).transpose()?;
    let recorder = trace.as_ref().map(|_| Recorder::bounded(MAX_SPANS));
    if let Some(recorder) = &recorder {
        device.set_recorder(recorder.clone());
    }
    let log = match &arguments.command_log {
        Some(path) => Some((CommandLog::to_writer(Box::new(create(path)?)), path)),
        None => None,
    };
    if let Some((log, _)) = &log {
        device = log.wrap(device);
    }
    let stop = Stop::on_signals(&[signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM]).map_err(machine)?;
    let title = format!("serving {} ({})", profile.name, profile.description);
    let report = arguments.run(&profile.name, &title, device, &stop).map_err(machine)?;
    if let Some((log, path)) = log {
        log.finish().map_err(|error| unwritten(path, &error))?;
    }
    if let (Some(file), Some(recorder), Some(path)) = (trace, recorder, &arguments.trace) {
        write_trace(&recorder, report.started_at, file).map_err(|error| unwritten(path, &error))?;
    }
    if arguments.json {
        println!("{}", report.to_json());
    } else {
        println!("{report}");
    }
    Ok(ExitCode::SUCCESS)
}

impl ServeArguments {
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
    fn run(&self, name: &str, title: &str, device: Box<dyn Device>, stop: &Stop) -> Result<ServeReport, ServeError> {
        let options = ServeOptions {
            read_only: self.read_only,
            spin: self.spin,
            calibrate: !self.no_calibration,
            control: self.control.as_ref().map(|address| address.0.clone()),
            ..ServeOptions::default()
        };
        if let Some(listen) = &self.nbd {
            let server = nbd::Server::bind(listen)?;
            self.announce(&format!("{title} at {}", server.uri()));
            return server.run(device, &options, stop);
        }
        if let Some(listen) = &self.nvme_tcp {
            let nqn = self.nqn.clone().unwrap_or_else(|| SubsystemConfig::default_nqn(name));
            let mut config = SubsystemConfig::new(nqn, name);
            config.allowed_hosts = self.allow_host.clone();
            config.credentials = self.host_secret.clone();
            let server = nvme_tcp::Server::bind(&listen.clone().unwrap_or_default(), config)?;
            self.announce(&format!("{title} at {}", server.address()));
            return server.run(device, &options, stop);
        }
        self.announce(title);
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
            contents_in_memory: self.image.is_none(),
            watchdog,
            stall: self.stall.unwrap_or(defaults.stall),
            io_uring: self.io_uring,
        };
        fuse_loop::Server::new(loop_options)?.run(device, &options, stop)
    }

    /// Says what is served: to standard error, where the report is for a program.
    fn announce(&self, line: &str) {
        if self.json {
            eprintln!("{line}");
        } else {
            println!("{line}");
        }
    }
}

fn machine(error: impl std::error::Error) -> Failure {
    Failure::Machine(error.to_string())
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Machine(format!("cannot write {}: {error}", path.display()))
}

fn create(path: &Path) -> Result<BufWriter<File>, Failure> {
    File::create(path).map(BufWriter::new).map_err(|error| unwritten(path, &error))
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
