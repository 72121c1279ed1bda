//! How the kernel inside keeps the order of writes: `--ordering`.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::choice::{UnknownChoice, from_name};

/// The recipe of the kernel that knows streams.
pub const KERNEL: &str = "order";
/// What is set of a device that is to keep it.
pub const SETTING: &str = "order=\"streams\"";

/// Streams of ordered writes, from ext4 to the device (`docs/ordering.md`).
///
/// Written `streams[:task|cgroup|one][,counted|pinned][,fsync-as-barrier]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Streams {
    /// Whose writes are a stream of their own.
    pub policy: StreamPolicy,
    /// How an epoch is closed.
    pub epochs: Epochs,
    /// What programs get that say fsync.
    pub fsync: FsyncAs,
}

/// Whose data is a stream beside the journal's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StreamPolicy {
    /// Each task's, as published.
    #[default]
    Task,
    /// Each control group's.
    Cgroup,
    /// Nobody's: there is the journal's and no other.
    One,
}

/// How the device knows that an epoch is whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Epochs {
    /// Its barrier says how many blocks it has.
    #[default]
    Counted,
    /// Its writes take one hardware queue, and the barrier comes last, as published.
    Pinned,
}

/// What `fsync` and `fdatasync` of a program do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FsyncAs {
    /// What was written is durable.
    #[default]
    Durable,
    /// What was written does not come after what is written later, and nobody waits for the device.
    Barrier,
}

/// How [`Streams`] says [`FsyncAs::Barrier`].
const FSYNC_AS_BARRIER: &str = "fsync-as-barrier";

impl FromStr for FsyncAs {
    type Err = UnknownChoice;

    fn from_str(text: &str) -> Result<Self, UnknownChoice> {
        from_name(&[(Self::Durable, "durable"), (Self::Barrier, "barrier")], text)
    }
}

impl StreamPolicy {
    const ALL: [(Self, &'static str); 3] = [(Self::Task, "task"), (Self::Cgroup, "cgroup"), (Self::One, "one")];

    fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Cgroup => "cgroup",
            Self::One => "one",
        }
    }
}

impl Epochs {
    const ALL: [(Self, &'static str); 2] = [(Self::Counted, "counted"), (Self::Pinned, "pinned")];

    fn name(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Pinned => "pinned",
        }
    }
}

impl Streams {
    /// The options of ext4 that ask for it.
    pub(crate) fn mount_options(self) -> String {
        let fsync = if self.fsync == FsyncAs::Barrier { ",order_fsync=barrier" } else { "" };
        format!("order={},order_epochs={}{fsync}", self.policy.name(), self.epochs.name())
    }
}

impl fmt::Display for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "streams:{},{}", self.policy.name(), self.epochs.name())?;
        if self.fsync == FsyncAs::Barrier { write!(f, ",{FSYNC_AS_BARRIER}") } else { Ok(()) }
    }
}

impl FromStr for Streams {
    type Err = UnknownChoice;

    fn from_str(text: &str) -> Result<Self, UnknownChoice> {
        let (text, fsync) = match text.strip_suffix(FSYNC_AS_BARRIER).and_then(|text| text.strip_suffix(',')) {
            Some(text) => (text, FsyncAs::Barrier),
            None => (text, FsyncAs::Durable),
        };
        let (first, epochs) = text.split_once(',').map_or((text, None), |(first, epochs)| (first, Some(epochs)));
        let (kind, policy) = first.split_once(':').map_or((first, None), |(kind, policy)| (kind, Some(policy)));
        from_name(&[((), "streams")], kind)?;
        let policy = policy.map_or(Ok(StreamPolicy::default()), |name| from_name(&StreamPolicy::ALL, name))?;
        let epochs = epochs.map_or(Ok(Epochs::default()), |name| from_name(&Epochs::ALL, name))?;
        Ok(Self { policy, epochs, fsync })
    }
}

impl TryFrom<String> for Streams {
    type Error = UnknownChoice;

    fn try_from(text: String) -> Result<Self, UnknownChoice> {
        text.parse()
    }
}

impl From<Streams> for String {
    fn from(streams: Streams) -> Self {
        streams.to_string()
    }
}

/// From how many processors tasks seem to submit (`Documentation/block/virtual-cpus.rst` of the kernel).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SubmissionCpus {
    /// How many: each is a queue of the device.
    pub count: u32,
    /// After how many bios a task moves to another one; never where nothing is said.
    pub migrate_every: Option<u32>,
}

impl Default for SubmissionCpus {
    fn default() -> Self {
        Self { count: 4, migrate_every: None }
    }
}

impl SubmissionCpus {
    /// The most that the kernel takes.
    pub const MOST: u32 = 256;

    /// What a number of them and an interval ask for, each where it is said.
    pub fn of(count: Option<u32>, migrate_every: Option<NonZeroU32>) -> Option<Self> {
        let migrate_every = migrate_every.map(NonZeroU32::get);
        let asked = count.is_some() || migrate_every.is_some();
        asked.then(|| Self { count: count.unwrap_or(Self::default().count), migrate_every })
    }

    /// The kernel's parameters.
    pub(crate) fn parameters(self, seed: u64) -> Vec<String> {
        let mut parameters = vec![format!("blk_mq_vcpu.nr={}", self.count)];
        if let Some(every) = self.migrate_every {
            parameters.push(format!("blk_mq_vcpu.migrate_every={every}"));
            parameters.push(format!("blk_mq_vcpu.seed={}", kernel_seed(seed)));
        }
        parameters
    }
}

/// Of the kernel's width.
fn kernel_seed(seed: u64) -> u64 {
    (seed ^ (seed >> 32)) & u64::from(u32::MAX)
}

/// The kernel's parameters by which one of so many scheduling points sleeps.
pub(crate) fn delay_parameters(every: NonZeroU32, seed: u64) -> Vec<String> {
    vec![format!("sched_delays.every={every}"), format!("sched_delays.seed={}", kernel_seed(seed))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_written_again() {
        for (policy, policy_name) in StreamPolicy::ALL {
            for (epochs, epochs_name) in Epochs::ALL {
                for (fsync, fsync_name) in [(FsyncAs::Durable, ""), (FsyncAs::Barrier, ",fsync-as-barrier")] {
                    let streams = Streams { policy, epochs, fsync };
                    let text = format!("streams:{policy_name},{epochs_name}{fsync_name}");
                    assert_eq!((text.parse(), streams.to_string()), (Ok(streams), text));
                }
            }
        }
        assert_eq!("streams".parse(), Ok(Streams::default()));
        assert_eq!("streams,pinned".parse(), Ok(Streams { epochs: Epochs::Pinned, ..Streams::default() }));
        assert_eq!("streams:one".parse(), Ok(Streams { policy: StreamPolicy::One, ..Streams::default() }));
        assert_eq!(Streams::default().mount_options(), "order=task,order_epochs=counted");
        let barrier = Streams { fsync: FsyncAs::Barrier, ..Streams::default() };
        assert_eq!("streams,fsync-as-barrier".parse(), Ok(barrier));
        assert_eq!(barrier.mount_options(), "order=task,order_epochs=counted,order_fsync=barrier");
        for wrong in [
            "",
            "flush",
            "streams:",
            "streams:all",
            "streams,",
            "streams:task,",
            "streams,pinned,counted",
            "fsync-as-barrier",
        ] {
            assert!(wrong.parse::<Streams>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_kernel_is_told_of_migration_where_there_is_some() {
        let four = SubmissionCpus::default();
        assert_eq!(four.parameters(7), ["blk_mq_vcpu.nr=4"]);
        assert_eq!((SubmissionCpus::of(None, None), SubmissionCpus::of(Some(4), None)), (None, Some(four)));
        let moving = SubmissionCpus { migrate_every: Some(3), ..four };
        assert_eq!(SubmissionCpus::of(None, NonZeroU32::new(3)), Some(moving));
        let expected = ["blk_mq_vcpu.nr=4", "blk_mq_vcpu.migrate_every=3", "blk_mq_vcpu.seed=7"];
        assert_eq!(moving.parameters(7), expected);
        let every = NonZeroU32::new(9).unwrap();
        assert_eq!(delay_parameters(every, 1 << 32), ["sched_delays.every=9", "sched_delays.seed=1"]);
    }
}
