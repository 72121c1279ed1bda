//! Serves a device that takes a fixed time as /dev/ublkbN, for measuring what
//! serving itself costs on a machine (as root):
//!
//! ```text
//! cargo run --release -p plumb-serve --example ublk_latency -- 80us 1GiB
//! fio --name=t --filename=/dev/ublkb0 --direct=1 --rw=randread --bs=4k --runtime=5 --time_based
//! ```

use std::error::Error;
use std::process::ExitCode;

use plumb_serve::{ServeOptions, Stop, ublk};
use ssd::NullDevice;
use units::{ByteSize, Nanos};

const LBA_BYTES: u32 = 4096;

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
    let (latency, size, calibrate) = match args {
        [latency, size] => (latency, size, true),
        [latency, size, last] if last == "uncalibrated" => (latency, size, false),
        _ => return Err("usage: ublk_latency LATENCY SIZE [uncalibrated]".into()),
    };
    let (latency, size): (Nanos, ByteSize) = (latency.parse()?, size.parse()?);
    let stop = Stop::on_signals(&[libc::SIGTERM, libc::SIGINT])?;
    let device = Box::new(NullDevice::new(size.0 / u64::from(LBA_BYTES), LBA_BYTES, latency));
    let report =
        ublk::Server::open(None)?.run(device, &ServeOptions { calibrate, ..ServeOptions::default() }, &stop)?;
    println!("{report}");
    Ok(())
}
