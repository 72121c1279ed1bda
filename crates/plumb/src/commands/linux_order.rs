//! Flags of order from the file system to the device.

use std::num::NonZeroU32;

use clap::Args;
use linux::{Linux, Streams, SubmissionCpus};

/// Which order is kept, and from how many processors comes what it is kept of.
#[derive(Args)]
pub struct OrderFlags {
    /// Order of writes that the device keeps: `streams[:task|cgroup|one][,counted|pinned]`; for ext4, by the kernel
    /// `order`
    #[arg(long, value_name = "ORDER")]
    ordering: Option<Streams>,
    /// Processors from which tasks seem to submit, each with a queue of the device, by the kernel `order`
    /// [default: 4 with --ordering, else the one there is]
    #[arg(long, value_name = "N")]
    submission_cpus: Option<u32>,
    /// Move a task to another of them after so many bios; where to depends on --seed [default: never]
    #[arg(long, value_name = "BIOS")]
    migrate_every: Option<NonZeroU32>,
}

impl OrderFlags {
    /// Has a run do what they say.
    pub fn put(&self, run: &mut Linux) {
        run.ordering = self.ordering;
        run.submission_cpus = self.submission_cpus();
    }

    /// What they say of processors that submit, if anything.
    fn submission_cpus(&self) -> Option<SubmissionCpus> {
        (self.submission_cpus.is_some() || self.migrate_every.is_some()).then(|| {
            let fallback = SubmissionCpus::default();
            SubmissionCpus {
                count: self.submission_cpus.unwrap_or(fallback.count),
                migrate_every: self.migrate_every.map(NonZeroU32::get),
            }
        })
    }

    /// The kernel that they need, where none is named.
    pub fn kernel(&self) -> Option<&'static str> {
        let needs = self.ordering.is_some() || self.submission_cpus().is_some();
        needs.then_some(linux::ordering::KERNEL)
    }

    /// What is set of the device before what the user sets.
    pub fn setting(&self) -> Option<&'static str> {
        self.ordering.map(|_| linux::ordering::SETTING)
    }
}
