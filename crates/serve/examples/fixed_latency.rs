//! Serves a device that takes a fixed time, for measuring what serving itself
//! costs on a machine:
//!
//! ```text
//! cargo run --release -p plumb-serve --example fixed_latency -- unix:/tmp/nbd.sock 80us 1GiB
//! fio --name=t --ioengine=nbd --uri='nbd+unix:///?socket=/tmp/nbd.sock' --rw=randread --bs=4k --runtime=5 --time_based
//! ```

use std::error::Error;
use std::process::ExitCode;

use plumb_serve::nbd::{Listen, Server};
use plumb_serve::{ServeOptions, Stop};
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
    let (listen, latency, size, spin) = match args {
        [listen, latency, size] => (listen, latency, size, Nanos::ZERO),
        [listen, latency, size, spin] => (listen, latency, size, spin.parse()?),
        _ => return Err("usage: fixed_latency unix:PATH|tcp:HOST:PORT LATENCY SIZE [SPIN]".into()),
    };
    let (listen, latency, size): (Listen, Nanos, ByteSize) = (listen.parse()?, latency.parse()?, size.parse()?);
    let stop = Stop::on_signals(&[libc::SIGTERM, libc::SIGINT])?;
    let server = Server::bind(&listen)?;
    eprintln!("serving {}", server.uri());
    let device = Box::new(NullDevice::new(size.0 / u64::from(LBA_BYTES), LBA_BYTES, latency));
    let report = server.run(device, &ServeOptions { spin, ..ServeOptions::default() }, &stop)?;
    println!("{report}");
    Ok(())
}
