//! Serves a device that takes a fixed time, for measuring what serving itself
//! costs on a machine:
//!
//! ```text
//! cargo run --release -p plumb-serve --example fixed_latency -- nbd unix:/tmp/nbd.sock 80us 1GiB
//! fio --name=t --ioengine=nbd --uri='nbd+unix:///?socket=/tmp/nbd.sock' --rw=randread --bs=4k --runtime=5 --time_based
//!
//! cargo run --release -p plumb-serve --example fixed_latency -- nvme-tcp tcp:4420 80us 1GiB
//! nvme connect -t tcp -a 127.0.0.1 -s 4420 -n nqn.2014-08.org.example:latency
//!
//! cargo run --release -p plumb-serve --example fixed_latency -- ublk 80us 1GiB
//! fio --name=t --filename=/dev/ublkb0 --direct=1 --rw=randread --bs=4k --runtime=5 --time_based
//! ```
//!
//! A time as the last argument is how long before an answer is due the server stops
//! sleeping; `uncalibrated` gives answers when they are due: in virtual time there
//! is nothing to make up for. `loop_latency` measures the remaining front-end.

use std::error::Error;
use std::process::ExitCode;

use serve::subsystem::SubsystemConfig;
use serve::{ServeOptions, Stop, nbd, nvme_tcp, ublk};
use ssd::NullDevice;
use units::{ByteSize, Nanos};

const LBA_BYTES: u32 = 4096;
const NQN: &str = "nqn.2014-08.org.example:latency";
const USAGE: &str = "usage: fixed_latency nbd unix:PATH|tcp:HOST:PORT LATENCY SIZE [SPIN|uncalibrated]
       fixed_latency nvme-tcp tcp:HOST:PORT LATENCY SIZE [SPIN|uncalibrated]
       fixed_latency ublk LATENCY SIZE [SPIN|uncalibrated]";

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
    let (front_end, listen, rest) = match args {
        [front_end, rest @ ..] if front_end == "ublk" => (front_end, "", rest),
        [front_end, listen, rest @ ..] => (front_end, listen.as_str(), rest),
        _ => return Err(USAGE.into()),
    };
    let mut options = ServeOptions::default();
    let (latency, size): (Nanos, ByteSize) = match rest {
        [latency, size] => (latency.parse()?, size.parse()?),
        [latency, size, last] => {
            if last == "uncalibrated" {
                options.calibrate = false;
            } else {
                options.spin = last.parse()?;
            }
            (latency.parse()?, size.parse()?)
        }
        _ => return Err(USAGE.into()),
    };
    let stop = Stop::on_signals(&[libc::SIGTERM, libc::SIGINT])?;
    let device = Box::new(NullDevice::new(size.0 / u64::from(LBA_BYTES), LBA_BYTES, latency));
    let report = match front_end.as_str() {
        "nbd" => {
            let server = nbd::Server::bind(&listen.parse()?)?;
            eprintln!("serving {}", server.uri());
            server.run(device, &options, &stop)?
        }
        "nvme-tcp" => nvme_tcp::Server::bind(&listen.parse()?, SubsystemConfig::new(NQN, "latency"))?
            .run(device, &options, &stop)?,
        "ublk" => ublk::Server::open(None)?.run(device, &options, &stop)?,
        _ => return Err(USAGE.into()),
    };
    println!("{report}");
    Ok(())
}
