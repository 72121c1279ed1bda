//! The table of schedulers.

use serde::{Deserialize, Serialize};

use super::{Scheduler, mq_deadline, none, zinc};
use crate::config::QueueConfig;

/// The I/O schedulers, as written to `queue/scheduler`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    /// No scheduler: software queues feed the hardware queues.
    None,
    /// Deadlines and sorted batches (block/mq-deadline.c).
    MqDeadline,
    /// mq-deadline with zone resets and finishes held back while the host writes
    /// (ConfZNS++, SYSTOR 2024). Without zones there are none, and it is mq-deadline.
    Zinc,
    /// ZINC as its kernel module was published: the youngest request first, and
    /// nearly everything but reads and writes held back as a reset.
    ZincLifo,
}

/// What a scheduler's file says of it.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// Makes one, with the hardware queue of each CPU.
    pub(super) make: fn(&QueueConfig, &[u16]) -> Box<dyn Scheduler>,
}

impl SchedulerKind {
    /// Every scheduler.
    pub const ALL: [Self; 4] = [Self::None, Self::MqDeadline, Self::Zinc, Self::ZincLifo];

    fn entry(self) -> &'static Entry {
        match self {
            Self::None => &none::ENTRY,
            Self::MqDeadline => &mq_deadline::ENTRY,
            Self::Zinc => &zinc::DESCRIBED,
            Self::ZincLifo => &zinc::PUBLISHED,
        }
    }

    /// Its name, as written to `queue/scheduler` and in an experiment.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// What it does, in a line.
    pub fn description(self) -> &'static str {
        self.entry().description
    }

    /// Makes one for a disk whose CPUs have the hardware queues of `map`.
    pub(crate) fn make(self, config: &QueueConfig, map: &[u16]) -> Box<dyn Scheduler> {
        (self.entry().make)(config, map)
    }
}
