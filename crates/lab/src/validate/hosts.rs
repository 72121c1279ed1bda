//! What the host adds to each I/O, for the ways in which the published tables
//! were measured.
//!
//! Tables hold what a program saw, so a comparison needs the program's side
//! too. Each figure here comes from host-side differences alone: rate against
//! latency of one thread at queue depth 1, and the highest rate of one thread.

use std::fmt;
use std::str::FromStr;

use units::Nanos;
use workload::zoned::HostPath;

/// A way to drive a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// A host that takes no time.
    None,
    /// SPDK's polled driver under fio. Latency less than 1 / rate by 0.39 us at
    /// one thread (4 KiB writes: 1/85147 s against 11.357 us) and 0.45 to 0.7 us
    /// at several. Fourteen threads have the median latency of ten: the cores of
    /// one NUMA node.
    Spdk,
    /// Linux `io_uring` passthrough with a submission queue thread. One thread
    /// reaches 290 K reads of 8 KiB at most, where the device goes on: 3.4 us an
    /// I/O. Latency is less than 1 / rate by 0.6 to 0.7 us (8 KiB writes).
    IoUringCmd,
    /// Linux's block layer below `io_uring`: what `plumb run` takes for a path of its
    /// own accord (1.38 us to submit and 1.04 us to complete), the rest of an I/O as
    /// with passthrough, and the interrupt.
    IoUring,
    /// Passthrough inside a virtual machine, before an emulator: median 734 us, P99
    /// 741 us where the
    /// emulator itself takes 725 us (16 KiB writes), 92 us for 85 us (reads), and
    /// 0.5 us from one to the next. P99.9 is
    /// between 0.76 and 2.4 ms and the longest latency of every run 15 to 80 ms: one
    /// I/O in a thousand is late by milliseconds.
    VirtualMachine,
}

impl Host {
    /// All, with their names.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("none", Self::None),
        ("spdk", Self::Spdk),
        ("io_uring_cmd", Self::IoUringCmd),
        ("io_uring", Self::IoUring),
        ("vm", Self::VirtualMachine),
    ];

    /// Whether the host of a load on a drive without zones takes no time; without a choice it is Plumb's model of one.
    ///
    /// # Errors
    /// For the hosts of zoned devices.
    pub fn is_free_for_drives(choice: Option<Self>) -> Result<bool, String> {
        match choice {
            None => Ok(false),
            Some(Self::None) => Ok(true),
            Some(other) => Err(format!("--host {other} is for zoned devices; write --host none or nothing")),
        }
    }

    /// Its times.
    pub const fn path(self) -> HostPath {
        let free = HostPath::FREE;
        match self {
            Self::None => free,
            Self::Spdk => HostPath { think: Nanos(450), cores: Some(10), ..free },
            Self::IoUringCmd => HostPath {
                submit: Nanos(1_400),
                complete: Nanos(1_350),
                think: Nanos(650),
                // Between two campaigns on one drive: 8 KiB writes of one
                // thread at 61.0 K and at 68.1 K a second.
                delay: Nanos(900),
                read_delay: Nanos(4_500),
                ..free
            },
            Self::IoUring => HostPath {
                submit: Nanos(1_380),
                complete: Nanos(1_040),
                think: Nanos(650),
                // One writer of 8 KiB reaches 50,916 a second on a ZN540 through mq-deadline, where passthrough's delay gives 66,042: the
                // way back through the block layer, which nobody polls. Two campaigns that are kept for validation have 57,945 and 55,973.
                delay: Nanos(900 + 4_500),
                read_delay: Nanos(4_500),
                ..free
            },
            Self::VirtualMachine => HostPath {
                submit: Nanos(1_400),
                complete: Nanos(1_350),
                think: Nanos(550),
                delay: Nanos(3_750),
                jitter: Nanos(2_000),
                hiccup: Some((1_000, Nanos(1_700_000))),
                ..free
            },
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, host)| host == self).map_or("", |(name, _)| *name);
        f.pad(name)
    }
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::NAMES.map(|(name, _)| name).join(", ");
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, host)| *host).ok_or_else(|| format!("`{text}` is no host; known are {}", known()))
    }
}
