//! `ioengine`: how a job reaches the kernel.

/// `ioengine`: how a job reaches the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine {
    /// fio's name.
    pub name: &'static str,
    /// How it behaves.
    pub kind: EngineKind,
}

/// The behaviours of engines that differ in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// One system call per I/O that returns when the I/O is done.
    Synchronous,
    /// Linux native AIO: batches by `io_submit`; `fsync` blocks the job
    /// (fio engines/libaio.c has no asynchronous sync).
    LinuxAio,
    /// Batches by `io_uring_enter`; `fsync` is queued as any I/O.
    IoUring,
    /// One submission per I/O to helper threads; `fsync` is queued as any I/O.
    PosixAio,
    /// As io_uring, with NVMe commands that pass the block layer by.
    UringCommand,
    /// A driver in the program itself: it polls, and never enters the kernel.
    Spdk,
}

impl Engine {
    /// Every engine taken, by fio's names.
    pub const ALL: [Self; 10] = [
        Self { name: "psync", kind: EngineKind::Synchronous },
        Self { name: "sync", kind: EngineKind::Synchronous },
        Self { name: "vsync", kind: EngineKind::Synchronous },
        Self { name: "pvsync", kind: EngineKind::Synchronous },
        Self { name: "pvsync2", kind: EngineKind::Synchronous },
        Self { name: "libaio", kind: EngineKind::LinuxAio },
        Self { name: "io_uring", kind: EngineKind::IoUring },
        Self { name: "posixaio", kind: EngineKind::PosixAio },
        Self { name: "io_uring_cmd", kind: EngineKind::UringCommand },
        Self { name: "spdk", kind: EngineKind::Spdk },
    ];
}

impl EngineKind {
    /// Whether NVMe commands go to the device without the block layer's rules.
    pub fn is_passthrough(self) -> bool {
        matches!(self, Self::UringCommand | Self::Spdk)
    }

    /// Whether it is one of the two that use io_uring.
    pub fn is_uring(self) -> bool {
        matches!(self, Self::IoUring | Self::UringCommand)
    }
}
