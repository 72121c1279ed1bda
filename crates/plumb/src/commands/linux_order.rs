//! Flags of order from the file system to the device.

use std::num::NonZeroU32;
use std::path::Path;

use clap::Args;
use linux::trace::Commands;
use linux::{FsyncAs, Linux, Streams, SubmissionCpus};

use crate::failure::Failure;

/// Which order is kept, and from how many processors comes what it is kept of.
#[derive(Args)]
pub struct OrderFlags {
    /// Order of writes that the device keeps: `streams[:task|cgroup|one][,counted|pinned]`; for ext4, by the kernel
    /// `order`
    #[arg(long, value_name = "ORDER")]
    ordering: Option<Streams>,
    /// What programs get that say fsync, as they are: `durable`, or `barrier`, which keeps what they write in order and lets
    /// nobody wait for the device; a power cut can then take what was promised last
    #[arg(long, value_name = "WHAT", requires = "ordering")]
    fsync_as: Option<FsyncAs>,
    /// Processors from which tasks seem to submit, each with a queue of the device, by the kernel `order`
    /// [default: 4 with --ordering, else the one there is]
    #[arg(long, value_name = "N")]
    submission_cpus: Option<u32>,
    /// Move a task to another of them after so many bios; where to depends on --seed [default: never]
    #[arg(long, value_name = "BIOS")]
    migrate_every: Option<NonZeroU32>,
    /// Of so many places where the kernel may put a task to sleep, it does for a tick at one, chosen by --seed, so that
    /// races between tasks show; by the kernel `order` [default: never]
    #[arg(long, value_name = "POINTS")]
    delay_every: Option<NonZeroU32>,
}

impl OrderFlags {
    /// Has a run do what they say.
    pub fn put(&self, run: &mut Linux) {
        run.ordering = self.ordering.map(|streams| self.fsync_as.map_or(streams, |fsync| Streams { fsync, ..streams }));
        run.submission_cpus = self.submission_cpus();
        run.delay_every = self.delay_every;
    }

    /// What they say of processors that submit, if anything.
    fn submission_cpus(&self) -> Option<SubmissionCpus> {
        SubmissionCpus::of(self.submission_cpus, self.migrate_every)
    }

    /// The kernel that they need, where none is named.
    pub fn kernel(&self) -> Option<&'static str> {
        let needs = self.ordering.is_some() || self.submission_cpus().is_some() || self.delay_every.is_some();
        needs.then_some(linux::ordering::KERNEL)
    }

    /// What is set of the device before what the user sets.
    pub fn setting(&self) -> Option<&'static str> {
        self.ordering.map(|_| linux::ordering::SETTING)
    }
}

/// Fails where driver and device differ in what is written to `path`.
pub fn agreed(path: &Path, commands: &Commands) -> Result<(), Failure> {
    if commands.lost_events > 0 {
        let lost = commands.lost_events;
        return Err(Failure::Machine(format!(
            "{lost} events had no room in the kernel's buffer, so that nothing can be said of what the device got: shorten the command"
        )));
    }
    let Some(place) = commands.rows.iter().position(|row| !row.agrees()) else { return Ok(()) };
    let path = path.display();
    Err(Failure::Machine(format!("driver and device disagree, at first in row {} of {path}", place + 1)))
}
