//! The one event type: a span of time on a track.

use std::fmt;

use serde::{Deserialize, Serialize};
use units::Nanos;

/// Names one host request through every layer; 0 is "none" (the device's own work).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// Where a span happened. Tracks of one kind are shown together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Track {
    /// A workload job (thread), by index.
    Job(u16),
    /// A host CPU.
    Cpu(u16),
    /// A block layer hardware queue.
    HostQueue(u16),
    /// An NVMe submission queue: from command set-up to completion.
    NvmeQueue(u16),
    /// The device's controller.
    Controller,
    /// The host link (PCIe, SATA).
    Link,
    /// The device's write buffer.
    Buffer,
    /// A flash channel's bus.
    Channel(u16),
    /// A flash die, numbered through the whole device.
    Die {
        /// The channel it hangs on.
        channel: u16,
        /// Its number through the whole device.
        die: u16,
    },
    /// The arm or head of a mechanical device.
    Mechanism,
}

/// What a span was spent on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A whole request as the workload saw it.
    Read,
    /// A whole write as the workload saw it.
    Write,
    /// A whole flush.
    Flush,
    /// A whole discard or trim.
    Discard,
    /// A whole zone reset.
    ZoneReset,
    /// A whole zone finish.
    ZoneFinish,
    /// From bio to request dispatch: plug, scheduler, tag wait.
    Queued,
    /// From driver dispatch to completion.
    Command,
    /// Command fetch, parse, map look-up.
    Process,
    /// Data over the host link.
    Transfer,
    /// Waiting for room in the write buffer.
    BufferWait,
    /// Waiting for earlier epochs of a stream of ordered writes.
    OrderWait,
    /// Data over a channel.
    ChannelTransfer,
    /// Array read (tR).
    FlashRead,
    /// Array program (tPROG).
    FlashProgram,
    /// Block erase (tBERS).
    FlashErase,
    /// Garbage collection of one victim, from choice to erase.
    GarbageCollect,
    /// Arm movement.
    Seek,
    /// Rotational delay.
    Rotate,
    /// CPU time in the kernel or application.
    CpuBusy,
    /// A command or its completion on its way over the host link.
    LinkLatency,
    /// Firmware work besides processing: of a flush, of a zone's management.
    Firmware,
}

/// A span of time on a track.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Span {
    /// First nanosecond.
    pub start: Nanos,
    /// One past the last.
    pub end: Nanos,
    /// Where.
    pub track: Track,
    /// What.
    pub step: Step,
    /// For whom.
    pub request: RequestId,
    /// First byte on the device, where that has a meaning.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u32,
}

/// A layer of the stack: a kind of track. Ordered from the application down to
/// the medium.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Layer {
    /// Workload jobs.
    Jobs,
    /// Host processors.
    Cpus,
    /// Block layer hardware queues.
    HostQueues,
    /// NVMe submission queues.
    NvmeQueues,
    /// The device's controller.
    Controller,
    /// The host link.
    Link,
    /// The device's write buffer.
    Buffer,
    /// Flash channels.
    Channels,
    /// Flash dies.
    Dies,
    /// The moving parts of a disk.
    Mechanism,
}

impl Layer {
    /// Every layer, from the application down.
    pub const ALL: [Self; 10] = [
        Self::Jobs,
        Self::Cpus,
        Self::HostQueues,
        Self::NvmeQueues,
        Self::Controller,
        Self::Link,
        Self::Buffer,
        Self::Channels,
        Self::Dies,
        Self::Mechanism,
    ];
}

impl Track {
    /// The layer it belongs to.
    pub const fn layer(self) -> Layer {
        match self {
            Self::Job(_) => Layer::Jobs,
            Self::Cpu(_) => Layer::Cpus,
            Self::HostQueue(_) => Layer::HostQueues,
            Self::NvmeQueue(_) => Layer::NvmeQueues,
            Self::Controller => Layer::Controller,
            Self::Link => Layer::Link,
            Self::Buffer => Layer::Buffer,
            Self::Channel(_) => Layer::Channels,
            Self::Die { .. } => Layer::Dies,
            Self::Mechanism => Layer::Mechanism,
        }
    }
}

/// As a heading: `Block layer`.
impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Jobs => "Jobs",
            Self::Cpus => "CPUs",
            Self::HostQueues => "Block hardware queues",
            Self::NvmeQueues => "NVMe queues",
            Self::Controller => "Device controller",
            Self::Link => "Host link",
            Self::Buffer => "Write buffer",
            Self::Channels => "Flash channels",
            Self::Dies => "Flash dies",
            Self::Mechanism => "Mechanism",
        })
    }
}

/// As a person reads it: `Channel 3`, `Die 17 (channel 3)`.
impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(job) => write!(f, "Job {job}"),
            Self::Cpu(cpu) => write!(f, "CPU {cpu}"),
            Self::HostQueue(queue) => write!(f, "Hardware queue {queue}"),
            Self::NvmeQueue(queue) => write!(f, "NVMe queue {queue}"),
            Self::Controller => f.write_str("Controller"),
            Self::Link => f.write_str("Link"),
            Self::Buffer => f.write_str("Buffer"),
            Self::Channel(channel) => write!(f, "Channel {channel}"),
            Self::Die { channel, die } => write!(f, "Die {die} (channel {channel})"),
            Self::Mechanism => f.write_str("Arm and platter"),
        }
    }
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Self; 22] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Discard,
        Self::ZoneReset,
        Self::ZoneFinish,
        Self::Queued,
        Self::Command,
        Self::Process,
        Self::Transfer,
        Self::BufferWait,
        Self::OrderWait,
        Self::ChannelTransfer,
        Self::FlashRead,
        Self::FlashProgram,
        Self::FlashErase,
        Self::GarbageCollect,
        Self::Seek,
        Self::Rotate,
        Self::CpuBusy,
        Self::LinkLatency,
        Self::Firmware,
    ];

    /// Its name in files: `flash_read`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::ZoneReset => "zone_reset",
            Self::ZoneFinish => "zone_finish",
            Self::Queued => "queued",
            Self::Command => "command",
            Self::Process => "process",
            Self::Transfer => "transfer",
            Self::BufferWait => "buffer_wait",
            Self::OrderWait => "order_wait",
            Self::ChannelTransfer => "channel_transfer",
            Self::FlashRead => "flash_read",
            Self::FlashProgram => "flash_program",
            Self::FlashErase => "flash_erase",
            Self::GarbageCollect => "garbage_collect",
            Self::Seek => "seek",
            Self::Rotate => "rotate",
            Self::CpuBusy => "cpu_busy",
            Self::LinkLatency => "link_latency",
            Self::Firmware => "firmware",
        }
    }
}

/// As a person reads it: `flash read`.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name().replace('_', " "))
    }
}
