//! What a host's processors cost.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};
use units::Nanos;

/// The processors of a modelled host and what the kernel's handling of them
/// costs. A field left out keeps its default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CpuConfig {
    /// Cores.
    pub cores: NonZeroU16,
    /// Bringing a thread onto a core that it did not hold: choosing it,
    /// switching stacks and address spaces.
    pub context_switch: Nanos,
    /// Entering and leaving the kernel once.
    pub syscall: Nanos,
    /// What a thread pays on top of the switch on a core other than its last.
    pub migration: Nanos,
    /// How long a thread may run while others wait for its core; zero lets it
    /// run until it blocks.
    pub time_slice: Nanos,
}

impl Default for CpuConfig {
    /// An 8-core host under Linux.
    ///
    /// - Context switch 1.2 us, and 1.0 us more on another core: E. Bendersky,
    ///   "Measuring context switching and memory overheads for Linux threads"
    ///   (2018): 1.2 to 1.5 us between threads pinned to one core, up to 2.2 us
    ///   unpinned.
    /// - System call 230 ns: getppid on Zen 3 with the kernel's mitigations on
    ///   (blog.i0.pm, "the cost of a syscall, measured", 2025); about 70 ns
    ///   without them.
    /// - Time slice 3 ms: EEVDF's base slice, 0.75 ms * (1 + log2(8 CPUs))
    ///   (kernel/sched/fair.c, `sysctl_sched_base_slice`, Linux 6.12).
    fn default() -> Self {
        Self {
            cores: const { NonZeroU16::new(8).expect("not zero") },
            context_switch: Nanos(1_200),
            syscall: Nanos(230),
            migration: Nanos(1_000),
            time_slice: Nanos::from_millis(3),
        }
    }
}

impl CpuConfig {
    /// `cores` cores whose handling costs nothing: only computing takes time.
    /// Threads still share cores in turns of the default time slice.
    pub fn free(cores: NonZeroU16) -> Self {
        Self { cores, context_switch: Nanos::ZERO, syscall: Nanos::ZERO, migration: Nanos::ZERO, ..Self::default() }
    }
}
