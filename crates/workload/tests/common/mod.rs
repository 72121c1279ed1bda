//! A host to run job files on.

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use block::{BlockDevice, QueueConfig};
use sim::Executor;
use sim::cpu::{CpuConfig, Cpus};
use ssd::{Device, NullDevice, Wrapper};
use trace::Recorder;
use units::Nanos;
use workload::fio::parse::Source;
use workload::fio::{JobFile, JobReport, start};
use workload::{Host, IoCosts};

/// 64 MiB with 512-byte blocks.
pub const BLOCKS: u64 = 131_072;

/// A host whose own work takes no time.
pub fn free_host(device: impl Device + 'static, seed: u64) -> (Executor, Host) {
    host(Box::new(device), seed, CpuConfig::free(NonZeroU16::new(4).unwrap()), IoCosts::FREE)
}

pub fn host(device: Box<dyn Device>, seed: u64, cpus: CpuConfig, costs: IoCosts) -> (Executor, Host) {
    let executor = Executor::new_virtual();
    let sim = executor.handle();
    let disk = BlockDevice::new(
        &sim,
        device,
        QueueConfig { scheduler: Some(block::SchedulerKind::None), ..QueueConfig::default() },
        Recorder::default(),
    );
    let cpus = Cpus::new(&sim, cpus, Recorder::default());
    (executor, Host { sim, disk, cpus, costs, seed, recorder: Recorder::default() })
}

pub fn null(latency: Nanos) -> NullDevice {
    NullDevice::new(BLOCKS, 512, latency)
}

pub fn parse(text: &str) -> JobFile {
    let source = Source { name: "test.fio", text: text.as_bytes(), variables: &BTreeMap::new(), overrides: &[] };
    JobFile::parse(&source).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a job file on a device of fixed latency and a host that costs nothing.
pub fn run(text: &str, latency: Nanos) -> Vec<JobReport> {
    run_on(null(latency), text, 1)
}

pub fn run_on(device: impl Device + 'static, text: &str, seed: u64) -> Vec<JobReport> {
    let (mut executor, host) = free_host(device, seed);
    let run = start(&host, &parse(text)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(executor.run(), 0, "tasks still wait");
    run.finish()
}

/// A device that gives out another identity.
pub struct WithCache<D> {
    pub inner: D,
    pub identity: ssd::Identity,
}

pub fn identity(volatile_write_cache: bool, supports_fua: bool) -> ssd::Identity {
    ssd::Identity { volatile_write_cache, supports_fua, ..null(Nanos(1)).identity().clone() }
}

/// What a faulty device does to one write.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    FlipBit,
    LoseWrite,
    Misdirect,
}

/// A device that damages its `at`th write.
pub struct Corrupting<D> {
    inner: D,
    fault: Fault,
    at: u64,
    writes: u64,
}

impl<D> Corrupting<D> {
    pub fn new(inner: D, fault: Fault, at: u64) -> Self {
        Self { inner, fault, at, writes: 0 }
    }
}

/// A device that fails every command after the first `after`.
pub struct Failing<D> {
    pub inner: D,
    pub after: u64,
}

/// A device that swallows every command after the first `after`.
pub struct Silent<D> {
    pub inner: D,
    pub after: u64,
}

/// A device that notes the commands given to it: `w64` a write at 64 KiB, `r` a
/// read, `a` an append to the zone at, `R` a reset, `F` a finish, `f` a flush.
pub struct Noting<D> {
    pub inner: D,
    pub notes: std::rc::Rc<std::cell::RefCell<Vec<String>>>,
}

impl<D: Device> Noting<D> {
    pub fn new(inner: D) -> Self {
        Self { inner, notes: Default::default() }
    }
}

/// Small zones: 8 (or more) of 1 MiB with a capacity of 768 KiB, 4 KiB blocks,
/// programs of 700 us behind every write, erases of 3.5 ms.
pub fn zoned(changes: &str) -> ssd::Zoned {
    let text = include_str!("small_zones.toml");
    let mut table: toml::Table = text.parse().unwrap();
    for (key, value) in changes.parse::<toml::Table>().unwrap() {
        match (table.get_mut(&key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => old.extend(new),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
    let config: ssd::ZonedConfig = table.try_into().unwrap();
    ssd::Zoned::new(&config).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a job file on a zoned device and a host that costs nothing; what it did,
/// and the commands.
pub fn run_noted(device: impl Device + 'static, text: &str) -> (Vec<JobReport>, Vec<String>) {
    let device = Noting::new(device);
    let notes = device.notes.clone();
    let reports = run_on(device, text, 1);
    let notes = notes.borrow().clone();
    (reports, notes)
}

impl<D: Device> Wrapper for WithCache<D> {
    fn inner(&self) -> &dyn Device {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut self.inner
    }

    fn identity(&self) -> &ssd::Identity {
        &self.identity
    }
}

impl<D: Device> Wrapper for Corrupting<D> {
    fn inner(&self) -> &dyn Device {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut self.inner
    }

    fn submit(&mut self, now: Nanos, mut submission: ssd::Submission) {
        if let nvme::Command::Write(nvme::WriteCommand { range, .. }) = &mut submission.command {
            self.writes += 1;
            if self.writes == self.at {
                match self.fault {
                    Fault::FlipBit => submission.data.as_mut().unwrap()[1000] ^= 1,
                    Fault::LoseWrite => submission.data = None,
                    Fault::Misdirect => range.start.0 ^= 8,
                }
            }
        }
        self.inner.submit(now, submission);
    }
}

impl<D: Device> Wrapper for Failing<D> {
    fn inner(&self) -> &dyn Device {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut self.inner
    }

    fn submit(&mut self, now: Nanos, mut submission: ssd::Submission) {
        if self.after == 0 {
            // Past the end: the device says so.
            if let nvme::Command::Write(nvme::WriteCommand { range, .. }) = &mut submission.command {
                range.start.0 = BLOCKS;
            }
        }
        self.after = self.after.saturating_sub(1);
        self.inner.submit(now, submission);
    }
}

impl<D: Device> Wrapper for Silent<D> {
    fn inner(&self) -> &dyn Device {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut self.inner
    }

    fn submit(&mut self, now: Nanos, submission: ssd::Submission) {
        if self.after > 0 {
            self.after -= 1;
            self.inner.submit(now, submission);
        }
    }
}

impl<D: Device> Wrapper for Noting<D> {
    fn inner(&self) -> &dyn Device {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut self.inner
    }

    fn submit(&mut self, now: Nanos, submission: ssd::Submission) {
        use nvme::{Command, ZoneSendAction};
        let lba = u64::from(self.inner.identity().lba_bytes);
        let kib = |start: nvme::Lba| start.0 * lba / 1024;
        let note = match &submission.command {
            Command::Read { range, .. } => format!("r{}", kib(range.start)),
            Command::Write(nvme::WriteCommand { range, .. }) => format!("w{}", kib(range.start)),
            Command::ZoneAppend { zone, .. } => format!("a{}", kib(*zone)),
            Command::ZoneManagementSend { start, action: ZoneSendAction::Reset, .. } => format!("R{}", kib(*start)),
            Command::ZoneManagementSend { start, action: ZoneSendAction::Finish, .. } => format!("F{}", kib(*start)),
            Command::Flush { .. } => "f".to_owned(),
            other => format!("{other:?}"),
        };
        let nsid = submission.command.nsid().0;
        self.notes.borrow_mut().push(if nsid == 1 { note } else { format!("{nsid}:{note}") });
        self.inner.submit(now, submission);
    }
}
