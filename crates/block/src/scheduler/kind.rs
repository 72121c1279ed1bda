//! The table of schedulers.

use super::interface::{Entry, Scheduler};
use super::settings::SchedulerKind;
use super::{mq_deadline, none, zinc};
use crate::config::QueueConfig;

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
