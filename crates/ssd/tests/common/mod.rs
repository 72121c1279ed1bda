//! Drives a device: closed loops and open loops in virtual time.

#![allow(dead_code, clippy::unwrap_used)]

pub mod digest;
pub mod jobs;
pub mod table;

use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId};
use ssd::profile::{Profile, ProfileError, builtin_text};
use ssd::{Completion, Device, Submission};
use trace::RequestId;
use units::Nanos;

/// xorshift64*: enough for a test, and the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// In (0, 1].
    pub fn share(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

pub fn read(start: u64, count: u32) -> Command {
    Command::Read { nsid: NamespaceId::FIRST, range: LbaRange { start: Lba(start), count }, fua: false }
}

pub fn write(start: u64, count: u32) -> Command {
    Command::write(NamespaceId::FIRST, LbaRange { start: Lba(start), count }, false)
}

/// A built-in profile with other values, given as TOML. It has no sources then.
pub fn changed_profile(name: &str, changes: &str) -> Result<Profile, ProfileError> {
    let mut table: toml::Table = builtin_text(name)?.parse().unwrap();
    table.remove("sources");
    merge(&mut table, changes.parse().unwrap());
    Profile::from_table(name, &table)
}

fn merge(into: &mut toml::Table, from: toml::Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => merge(old, new),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

pub fn flush() -> Command {
    Command::Flush { nsid: NamespaceId::FIRST }
}

/// A device and the clock that drives it.
pub struct Rig<D: Device> {
    pub device: D,
    pub now: Nanos,
    done: Vec<Completion>,
}

/// What a closed loop measured.
#[derive(Debug)]
pub struct Measured {
    pub commands: u64,
    pub elapsed: Nanos,
    /// Sum of all latencies.
    pub latency_sum: Nanos,
}

impl Measured {
    pub fn per_s(&self) -> f64 {
        self.commands as f64 / self.elapsed.as_secs_f64()
    }
    pub fn mean_latency_ns(&self) -> f64 {
        self.latency_sum.0 as f64 / self.commands as f64
    }
}

impl<D: Device> Rig<D> {
    pub fn new(device: D) -> Self {
        Self { device, now: Nanos::ZERO, done: Vec::new() }
    }

    pub fn submit(&mut self, cid: u16, command: Command) {
        let submission =
            Submission { queue: QueueId(1), cid: CommandId(cid), command, data: None, request: RequestId(cid.into()) };
        self.device.submit(self.now, submission);
    }

    /// One command alone: how long it takes.
    pub fn once(&mut self, command: Command) -> Nanos {
        let start = self.now;
        self.submit(0, command);
        loop {
            self.now = self.device.next_event().expect("the command never completes");
            self.device.advance(self.now, &mut self.done);
            if let Some(completion) = self.done.pop() {
                assert!(completion.status.is_success(), "{completion:?}");
                return completion.at - start;
            }
        }
    }

    /// One command (identifier 0) beside others that are outstanding: how long it
    /// takes. The others go on.
    pub fn once_beside(&mut self, command: Command) -> Nanos {
        let start = self.now;
        self.submit(0, command);
        loop {
            self.now = self.device.next_event().expect("the command never completes");
            self.device.advance(self.now, &mut self.done);
            for completion in self.done.drain(..) {
                assert!(completion.status.is_success(), "{completion:?}");
                if completion.cid == CommandId(0) {
                    return completion.at - start;
                }
            }
        }
    }

    /// Runs until `count` outstanding commands have completed.
    pub fn settle(&mut self, count: usize) {
        while self.done.len() < count {
            self.now = self.device.next_event().expect("commands are outstanding");
            self.device.advance(self.now, &mut self.done);
        }
        assert!(self.done.drain(..).all(|completion| completion.status.is_success()));
    }

    /// Runs until one command completes: its status.
    pub fn status(&mut self) -> nvme::Status {
        while self.done.is_empty() {
            self.now = self.device.next_event().expect("a command is outstanding");
            self.device.advance(self.now, &mut self.done);
        }
        self.done.pop().unwrap().status
    }

    /// Moves time to `until`, with no command outstanding.
    pub fn run_until(&mut self, until: Nanos) {
        self.device.advance(until, &mut self.done);
        assert!(self.done.is_empty());
        self.now = until;
    }

    /// Lets the device come to rest.
    pub fn drain(&mut self) {
        while let Some(next) = self.device.next_event() {
            self.now = next;
            self.device.advance(next, &mut self.done);
        }
        assert!(self.done.is_empty());
    }

    /// Keeps `depth` commands outstanding until `total` have completed; those
    /// outstanding then run out unmeasured.
    pub fn closed_loop(&mut self, depth: u16, total: u64, mut next: impl FnMut() -> Command) -> Measured {
        let start = self.now;
        let mut issued = vec![start; depth.into()];
        for cid in 0..depth {
            self.submit(cid, next());
        }
        let mut completed = 0;
        let mut latency_sum = Nanos::ZERO;
        while completed < total {
            self.now = self.device.next_event().expect("commands are outstanding");
            let mut done = std::mem::take(&mut self.done);
            self.device.advance(self.now, &mut done);
            for completion in done.drain(..) {
                assert!(completion.status.is_success(), "{completion:?}");
                completed += 1;
                let cid = usize::from(completion.cid.0);
                latency_sum += completion.at - issued[cid];
                issued[cid] = self.now;
                self.submit(completion.cid.0, next());
            }
            self.done = done;
        }
        let elapsed = self.now - start;
        while let Some(next) = self.device.next_event() {
            self.now = next;
            self.device.advance(next, &mut self.done);
        }
        self.done.clear();
        Measured { commands: completed, elapsed, latency_sum }
    }

    pub fn counter(&self, name: &str) -> u64 {
        let counters = self.device.counters();
        counters.iter().find(|(key, _)| key == name).unwrap_or_else(|| panic!("no counter {name}")).1
    }

    pub fn counters_like(&self, prefix: &str) -> Vec<u64> {
        self.device.counters().iter().filter(|(key, _)| key.starts_with(prefix)).map(|(_, value)| *value).collect()
    }
}
