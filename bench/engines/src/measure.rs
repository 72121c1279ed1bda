//! What a piece of work took: time on the wall and of all the process's threads, bytes at the device, latencies.

use std::time::Instant;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use stats::Histogram;
use units::Nanos;

use crate::Result;

/// Processor time of all threads, those included that have ended.
fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn field(path: &str, name: &str) -> Result<u64> {
    let text = std::fs::read_to_string(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).ok_or(format!("{path} has no {name}"))?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// Bytes read from and written to devices: what was thrown away before it got there does not count.
fn device_bytes() -> Result<(u64, u64)> {
    let io = "/proc/self/io";
    let written = field(io, "write_bytes:")?.saturating_sub(field(io, "cancelled_write_bytes:")?);
    Ok((field(io, "read_bytes:")?, written))
}

/// The most that this process had resident, without the page cache.
pub fn most_resident_bytes() -> Result<u64> {
    Ok(field("/proc/self/status", "VmHWM:")? << 10)
}

/// How many files may be open.
pub fn open_files_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(1024)
}

/// One phase of one engine.
#[derive(Clone, Debug)]
pub struct Measured {
    pub phase: String,
    pub operations: u64,
    pub wall_s: f64,
    pub processor_s: f64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Nanoseconds: p50, p99, p99.9, most.
    pub latency_ns: [u64; 4],
}

/// Measures from when it is made.
pub struct Meter {
    phase: String,
    began: Instant,
    processor_s: f64,
    device: (u64, u64),
    pub latencies: Histogram,
}

impl Meter {
    pub fn begin(phase: &str) -> Result<Self> {
        Ok(Self {
            phase: phase.to_owned(),
            device: device_bytes()?,
            latencies: Histogram::new(),
            processor_s: processor_s(),
            began: Instant::now(),
        })
    }

    pub fn elapsed_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Does one operation and notes how long it took.
    pub fn time<T>(&mut self, operation: impl FnOnce() -> Result<T>) -> Result<T> {
        let at = Instant::now();
        let result = operation()?;
        self.latencies.record(Nanos(at.elapsed().as_nanos() as u64));
        Ok(result)
    }

    pub fn end(self, operations: u64) -> Result<Measured> {
        let (wall_s, processor_s) = (self.began.elapsed().as_secs_f64(), processor_s() - self.processor_s);
        let device = device_bytes()?;
        let at = |percent| self.latencies.percentile(percent).0;
        Ok(Measured {
            phase: self.phase,
            operations,
            wall_s,
            processor_s,
            read_bytes: device.0 - self.device.0,
            written_bytes: device.1.saturating_sub(self.device.1),
            latency_ns: [at(50.0), at(99.0), at(99.9), self.latencies.max().0],
        })
    }
}

impl Measured {
    /// A line that [`Measured::parse`] reads.
    pub fn line(&self) -> String {
        let [p50, p99, p999, most] = self.latency_ns;
        format!(
            "{}\t{}\t{:.6}\t{:.6}\t{}\t{}\t{p50}\t{p99}\t{p999}\t{most}",
            self.phase, self.operations, self.wall_s, self.processor_s, self.read_bytes, self.written_bytes
        )
    }

    pub fn parse(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [phase, operations, wall, processor, read, written, p50, p99, p999, most] = fields[..] else {
            return Err(format!("{line}: not ten fields").into());
        };
        Ok(Self {
            phase: phase.to_owned(),
            operations: operations.parse()?,
            wall_s: wall.parse()?,
            processor_s: processor.parse()?,
            read_bytes: read.parse()?,
            written_bytes: written.parse()?,
            latency_ns: [p50.parse()?, p99.parse()?, p999.parse()?, most.parse()?],
        })
    }
}

/// Waits until the process has used no processor for a while: for engines whose threads do not say when they are done.
pub fn wait_until_idle() -> Result<()> {
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
    let mut quiet = 0;
    let mut last = processor_s();
    while quiet < 5 {
        std::thread::sleep(PAUSE);
        let now = processor_s();
        quiet = if now - last < 0.002 { quiet + 1 } else { 0 };
        last = now;
    }
    Ok(())
}
