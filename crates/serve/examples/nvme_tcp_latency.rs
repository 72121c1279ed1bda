//! Serves a device that takes a fixed time, or a profile, over NVMe/TCP, for
//! measuring what the way to a host costs:
//!
//! ```text
//! cargo run --release -p plumb-serve --example nvme_tcp_latency -- tcp:4420 80us 1GiB
//! nvme connect -t tcp -a 127.0.0.1 -s 4420 -n nqn.2014-08.org.example:latency
//! ```
//!
//! `uncalibrated` as the last argument gives answers when they are due: in virtual
//! time there is nothing to make up for.

use std::error::Error;
use std::process::ExitCode;

use plumb_serve::nvme_tcp::{Listen, Server};
use plumb_serve::subsystem::SubsystemConfig;
use plumb_serve::{ServeOptions, Stop};
use ssd::profile::{BuildOptions, Profile};
use ssd::{Contents, Device, NullDevice};
use units::{ByteSize, Nanos};

const LBA_BYTES: u32 = 4096;
const NQN: &str = "nqn.2014-08.org.example:latency";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[String]) -> Result<(), Box<dyn Error>> {
    let (args, calibrate) = match args {
        [args @ .., last] if last == "uncalibrated" => (args, false),
        args => (args, true),
    };
    let (listen, device): (&String, Box<dyn Device>) = match args {
        [listen, profile] => {
            let options = BuildOptions { contents: Contents::Memory, ..BuildOptions::default() };
            (listen, Profile::builtin(profile)?.build(&options)?)
        }
        [listen, latency, size] => {
            let (latency, size): (Nanos, ByteSize) = (latency.parse()?, size.parse()?);
            (listen, Box::new(NullDevice::new(size.0 / u64::from(LBA_BYTES), LBA_BYTES, latency)))
        }
        _ => return Err("usage: nvme_tcp_latency ADDRESS PROFILE|LATENCY SIZE [uncalibrated]".into()),
    };
    let listen: Listen = listen.parse()?;
    let stop = Stop::on_signals(&[libc::SIGTERM, libc::SIGINT])?;
    let server = Server::bind(&listen, SubsystemConfig::new(NQN, "latency"))?;
    let report = server.run(device, &ServeOptions { calibrate, ..ServeOptions::default() }, &stop)?;
    println!("{report}");
    Ok(())
}
