//! Serves a device that takes a fixed time as a loop device and measures it there:
//! what the way through FUSE and loop makes of it on this machine. Needs root, and
//! fio for the last line.
//!
//! ```text
//! cargo run --release -p plumb-serve --example loop_latency -- 80us 1GiB [SPIN [ROUNDS [io_uring]]]
//! ```
//!
//! First it says how quiet the machine is: how often a loop that does nothing but
//! read the clock is held up. Each round reads 20,000 times 4 KiB at queue depth
//! one; the last row is the median of each column.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serve::fuse_loop::{LoopOptions, Server, WatchdogProgram, watchdog_main};
use serve::{ServeOptions, Stop};
use ssd::NullDevice;
use units::{ByteSize, Nanos};

const LBA_BYTES: u32 = 4096;
const PAGE_BYTES: usize = 4096;
const READS: usize = 20_000;

/// How long the clock is read to tell how quiet the machine is.
const LISTENING: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((first, rest)) if first == "watchdog" => watchdog_main(rest).map_err(Box::from),
        _ => run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[String]) -> Result<(), Box<dyn Error>> {
    let argument = |index: usize, default| args.get(index).map_or(default, String::as_str);
    let (latency, size): (Nanos, ByteSize) = (argument(0, "80us").parse()?, argument(1, "1GiB").parse()?);
    let (spin, rounds): (Nanos, usize) = (argument(2, "0us").parse()?, argument(3, "5").parse()?);
    let stop = Stop::on_signals(&[libc::SIGTERM, libc::SIGINT])?;
    let stopper = stop.try_clone()?;
    let (line, lines) = channel::<String>();
    let log = move |text: &str| {
        eprintln!("{text}");
        let _ = line.send(text.to_owned());
    };
    let watchdog = WatchdogProgram { program: std::env::current_exe()?, arguments: vec!["watchdog".into()] };
    let server = Server::new(LoopOptions {
        name: "fixed-latency".to_owned(),
        watchdog: Some(watchdog),
        io_uring: argument(4, "") == "io_uring",
        ..LoopOptions::default()
    })?;
    let client = thread::spawn(move || {
        let result = client(&lines, size, rounds);
        stopper.ask();
        result
    });
    let device = Box::new(NullDevice::new(size.0 / u64::from(LBA_BYTES), LBA_BYTES, latency));
    let options = ServeOptions { spin, log: Box::new(log), ..ServeOptions::default() };
    let report = server.run(device, &options, &stop)?;
    drop(options);
    client.join().map_err(|_| "the client panicked")?.map_err(|error| error.to_string())?;
    println!("{report}");
    Ok(())
}

type ClientResult = Result<(), Box<dyn Error + Send + Sync>>;

fn client(lines: &Receiver<String>, size: ByteSize, rounds: usize) -> ClientResult {
    let ready = lines.iter().find(|line| line.starts_with("ready at ")).ok_or("the server did not come up")?;
    let device = ready.trim_start_matches("ready at ").split(';').next().unwrap_or_default().to_owned();
    if let Some(group) = lines.iter().next().as_deref().and_then(|line| line.split("echo $$ > ").nth(1)) {
        // The calling thread's process: children follow.
        std::fs::write(group, std::process::id().to_string())?;
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&device)?;
    println!("{}", hold_ups());
    println!("queue depth 1, 4 KiB reads      mean us   p50 us   p99 us  p99.9 us");
    let mut table = Vec::new();
    for round in 1..=rounds {
        let row = read_many(&file, size)?;
        print_row(&format!("round {round}"), &row);
        table.push(row);
    }
    let median = |column: usize| {
        let mut values: Vec<f64> = table.iter().map(|row| row[column]).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    print_row("median", &[median(0), median(1), median(2), median(3)]);
    for (what, rw) in [("reads", "randread"), ("writes", "randwrite")] {
        let fio = Command::new("fio")
            .args(["--name=d", "--ioengine=io_uring", "--direct=1", "--bs=4k", "--iodepth=32", "--runtime=5"])
            .args(["--time_based", "--output-format=terse", &format!("--filename={device}"), &format!("--rw={rw}")])
            .output();
        match fio {
            Ok(output) => {
                // Terse version 3: read IOPS is field 8, write IOPS field 49.
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let iops = text.split(';').nth(if rw == "randread" { 7 } else { 48 }).unwrap_or("?");
                println!("queue depth 32, 4 KiB {what}: {iops} IOPS");
            }
            Err(error) => println!("queue depth 32: fio does not run ({error})"),
        }
    }
    Ok(())
}

/// How often and how long this thread does not run though it wants to: the tick,
/// interrupts, other programs, and on a virtual machine the host.
fn hold_ups() -> String {
    let (mut lost, mut counts) = (Duration::ZERO, [(20, 0), (40, 0), (80, 0)]);
    let begun = Instant::now();
    let mut last = begun;
    while last.duration_since(begun) < LISTENING {
        let now = Instant::now();
        let gap = now.duration_since(last);
        last = now;
        if gap < Duration::from_micros(5) {
            continue;
        }
        lost += gap;
        for (at_least_us, count) in &mut counts {
            *count += u32::from(gap >= Duration::from_micros(*at_least_us));
        }
    }
    let counts = counts.map(|(at_least_us, count)| format!("{count} times for {at_least_us} us"));
    let share = lost.as_secs_f64() / LISTENING.as_secs_f64() * 100.0;
    format!("held up in one second: {} and more; {share:.1} % of the time", counts.join(", "))
}

fn read_many(file: &File, size: ByteSize) -> Result<[f64; 4], Box<dyn Error + Send + Sync>> {
    let mut bytes = vec![0; 2 * PAGE_BYTES];
    let start = bytes.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
    let room = &mut bytes[start..start + PAGE_BYTES];
    let pages = (size.0 / PAGE_BYTES as u64).max(1);
    let mut times = Vec::with_capacity(READS);
    for read in 0..READS as u64 {
        // A stride without a common divisor visits pages all over the device.
        let page = read.wrapping_mul(0x9e37_79b9_7f4a_7c15) % pages;
        let sent = Instant::now();
        file.read_exact_at(room, page * PAGE_BYTES as u64)?;
        times.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get((share * READS as f64) as usize).copied().unwrap_or(0.0);
    Ok([times.iter().sum::<f64>() / READS as f64, at(0.5), at(0.99), at(0.999)])
}

fn print_row(name: &str, row: &[f64; 4]) {
    println!("{name:<30} {:>8.1} {:>8.1} {:>8.1} {:>9.1}", row[0], row[1], row[2], row[3]);
}
