//! The one event type: a span of time on a track.

use units::Nanos;

/// Names one host request through every layer; 0 is "none" (the device's own work).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RequestId(pub u64);

/// Where a span happened. Tracks of one kind are shown together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// A whole request as the workload saw it.
    Read,
    /// A whole write as the workload saw it.
    Write,
    /// A whole flush.
    Flush,
    /// A whole discard or trim.
    Discard,
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
}

/// A span of time on a track.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
