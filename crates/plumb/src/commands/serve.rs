//! `plumb serve`: a modelled device on the wall clock.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serve::nbd::{Listen, Server};
use serve::{ServeOptions, Stop};
use ssd::Contents;
use ssd::profile::BuildOptions;
use units::Nanos;

use super::Done;
use crate::failure::Failure;

/// What to serve and where.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb serve --device samsung-980pro-1tb --nbd unix:/tmp/plumb.sock
  plumb serve --device hdd-7200-1tb --nbd tcp:10809 --image disk.img
  nbdinfo 'nbd+unix:///?socket=/tmp/plumb.sock'
  fio --name=j --ioengine=nbd --uri='nbd+unix:///?socket=/tmp/plumb.sock' --rw=randread --bs=4k

Ctrl-C or SIGTERM flushes the device and stops. With --image, data survives restarts; killing
the process loses what a power cut would: writes that no flush or FUA has covered.")]
pub struct ServeArguments {
    /// Device profile, built-in (`plumb list devices`) or a .toml file
    #[arg(long, value_name = "NAME|FILE")]
    device: String,
    /// Where clients connect: unix:PATH, tcp:PORT or tcp:HOST:PORT (loopback without a host)
    #[arg(long, value_name = "ADDRESS")]
    nbd: Listen,
    /// Keep contents in this file, made when absent [default: in memory]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Spin this long before a deadline instead of sleeping: less error, more CPU time
    #[arg(long, value_name = "TIME", default_value = "0us")]
    spin: Nanos,
    /// Do not subtract the measured wake-up and socket time from modelled latencies
    #[arg(long)]
    no_calibration: bool,
    /// Change the profile: a dotted path and a TOML value
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<lab::spec::Override>,
}

/// Serves until told to stop.
pub fn serve(arguments: ServeArguments) -> Done {
    let profile = lab::device::describe(&arguments.device, Path::new(""), &arguments.set)?.profile;
    let contents = match &arguments.image {
        Some(path) => Contents::File(path.clone()),
        None => Contents::Memory,
    };
    let device = profile.build(&BuildOptions { contents, ..BuildOptions::default() }).map_err(Failure::input)?;
    let machine = |error: &dyn std::error::Error| Failure::Machine(error.to_string());
    let stop = Stop::on_signals(&[signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])
        .map_err(|error| machine(&error))?;
    let server = Server::bind(&arguments.nbd).map_err(|error| machine(&error))?;
    println!("serving {} ({}) at {}", profile.name, profile.description, server.uri());
    let options = ServeOptions {
        read_only: arguments.read_only,
        spin: arguments.spin,
        calibrate: !arguments.no_calibration,
        ..ServeOptions::default()
    };
    let report = server.run(device, &options, &stop).map_err(|error| machine(&error))?;
    println!("{report}");
    Ok(ExitCode::SUCCESS)
}
