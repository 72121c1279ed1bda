//! Serves a device of a fixed latency over NVMe/TCP, to compare what serving itself costs:
//! `fixed_target PORT NQN LATENCY SIZE`. Prints `ready at …` as `plumb serve` does.

use std::process::ExitCode;

use serve::nvme_tcp::{Listen, Server};
use serve::subsystem::SubsystemConfig;
use serve::{ServeOptions, Stop};
use ssd::NullDevice;
use units::{ByteSize, Nanos};

const LBA_BYTES: u32 = 4096;

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let [port, nqn, latency, size] = arguments else { return Err("usage: fixed_target PORT NQN LATENCY SIZE".into()) };
    let (latency, size): (Nanos, ByteSize) = (latency.parse()?, size.parse()?);
    let listen: Listen = format!("tcp:{port}").parse()?;
    let stop = Stop::on_signals(&[libc::SIGTERM, libc::SIGINT])?;
    let device = Box::new(NullDevice::new(size.0 / u64::from(LBA_BYTES), LBA_BYTES, latency));
    let server = Server::bind(&listen, SubsystemConfig::new(nqn, "fixed latency"))?;
    // As the kernel's target: nothing is subtracted for the way through the sockets.
    let options = ServeOptions { calibrate: false, ..ServeOptions::default() };
    println!("{}", server.run(device, &options, &stop)?);
    Ok(())
}
