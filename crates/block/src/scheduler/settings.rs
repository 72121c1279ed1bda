//! What is said of schedulers before there is one: which, and its tunables.

use serde::{Deserialize, Serialize};
use units::Nanos;

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

/// Tunables of mq-deadline, named as in `queue/iosched`. Of Linux's,
/// `async_depth` is left out: its default is every tag, which limits nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MqDeadlineConfig {
    /// How long a read may wait before it is served out of order.
    pub read_expire: Nanos,
    /// How long a write may wait before it is served out of order.
    pub write_expire: Nanos,
    /// How many times reads may go first while writes wait.
    pub writes_starved: u32,
    /// Requests in sector order that are served as one batch.
    pub fifo_batch: u32,
    /// Whether a bio that ends where a request begins is looked for.
    pub front_merges: bool,
    /// How long a request of a lower priority class may wait while a higher
    /// one keeps the device busy.
    pub prio_aging_expire: Nanos,
}

impl Default for MqDeadlineConfig {
    fn default() -> Self {
        Self {
            read_expire: Nanos::from_millis(500),
            write_expire: Nanos::from_secs(5),
            writes_starved: 2,
            fifo_batch: 16,
            front_merges: true,
            prio_aging_expire: Nanos::from_secs(10),
        }
    }
}

/// Tunables of ZINC, named as in `queue/iosched` of its kernel module, where
/// those of resets and finishes begin with `reset_` and `finish_`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ZincConfig {
    /// The kernel's timer tick (1/HZ). The module arms its timer again each time it
    /// fires, and Linux lets none fire early, so that a period lasts its interval
    /// in whole ticks and one more (kernel/time/timer.c, calc_index): 68 ms for
    /// 64 ms at 250 Hz, the default. With 0 periods last exactly their interval.
    pub tick: Nanos,
    /// For zone resets.
    pub reset: ZincClassConfig,
    /// For zone finishes.
    pub finish: ZincClassConfig,
}

impl Default for ZincConfig {
    fn default() -> Self {
        Self { tick: Nanos::from_millis(4), reset: ZincClassConfig::default(), finish: ZincClassConfig::default() }
    }
}

/// Tunables of ZINC for one class of management requests. A write unit is 8 KiB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ZincClassConfig {
    /// Time from one look at the waiting requests to the next, but for
    /// [`ZincConfig::tick`].
    #[serde(deserialize_with = "interval")]
    pub epoch_interval: Nanos,
    /// Once more write units than this were dispatched since the last request of
    /// the class, the next may go.
    pub command_tokens: u64,
    /// While fewer write units than this are in flight, nothing is held back
    /// (`minimum_concurrency_treshold`).
    pub minimum_concurrency: u64,
    /// Periods for which a request may be held back.
    pub maximum_epoch_holds: u32,
}

impl Default for ZincClassConfig {
    fn default() -> Self {
        Self {
            epoch_interval: Nanos::from_millis(64),
            command_tokens: 2000,
            minimum_concurrency: 3,
            maximum_epoch_holds: 3,
        }
    }
}

/// A time that is not zero.
fn interval<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
    let interval = Nanos::deserialize(deserializer)?;
    if interval == Nanos::ZERO {
        return Err(serde::de::Error::custom("a period of no length never ends; write a time such as \"64ms\""));
    }
    Ok(interval)
}
