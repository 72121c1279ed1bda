//! What a workload runs on.

use block::BlockDevice;
use sim::Handle;
use sim::cpu::Cpus;
use trace::Recorder;
use units::Nanos;

/// The modelled machine of one run: a clock, processors, a block device.
/// Clones are the same machine.
#[derive(Clone)]
pub struct Host {
    /// The executor's clock and tasks.
    pub sim: Handle,
    /// The block device under test.
    pub disk: BlockDevice,
    /// The processors jobs compute on.
    pub cpus: Cpus,
    /// CPU time of the I/O path.
    pub costs: IoCosts,
    /// The run's seed.
    pub seed: u64,
    /// Where requests are recorded as the program saw them.
    pub recorder: Recorder,
}

/// CPU time that one I/O takes, besides entering the kernel and switching threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoCosts {
    /// In the submitting system call: from the bio to the doorbell.
    pub submit: Nanos,
    /// In the interrupt handler: from the completion entry to the wake-up.
    pub complete: Nanos,
}

impl IoCosts {
    /// An I/O path that costs nothing, for closed forms.
    pub const FREE: Self = Self { submit: Nanos::ZERO, complete: Nanos::ZERO };
}

impl Default for IoCosts {
    /// Linux on an ultra-low latency SSD: bio submission 0.72 us, DMA mapping
    /// 0.29 us and command submission 0.37 us; DMA unmapping 0.23 us and request
    /// completion 0.81 us (G. Lee et al., "Asynchronous I/O Stack", USENIX ATC
    /// 2019, read path of the unmodified kernel).
    fn default() -> Self {
        Self { submit: Nanos(1_380), complete: Nanos(1_040) }
    }
}
