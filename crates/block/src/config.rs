//! What a user may set on a queue, with Linux's defaults.

use std::num::{NonZeroU16, NonZeroU32};

use serde::{Deserialize, Serialize};

use crate::ordering::{Ordering, StreamsConfig};
use crate::scheduler::settings::{MqDeadlineConfig, SchedulerKind, ZincConfig};

/// Settings of one block device's queue, named after `/sys/block/*/queue`.
///
/// A field left out keeps the value that Linux 6.12 would choose for an NVMe
/// device with the same identity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueConfig {
    /// I/O scheduler; by default mq-deadline where there is one hardware queue, as
    /// with a disk or on one CPU, and none where there are several
    /// (block/elevator.c, elevator_get_default).
    pub scheduler: Option<SchedulerKind>,
    /// Tunables of mq-deadline, for when it is the scheduler.
    pub mq_deadline: MqDeadlineConfig,
    /// Tunables of ZINC, for when it or `zinc-lifo` is the scheduler; what it does
    /// not hold back follows `mq_deadline`.
    pub zinc: ZincConfig,
    /// CPUs that submit; the CPU number given to a submission counts modulo this.
    pub cpus: NonZeroU16,
    /// Hardware queues; by default one for each CPU, as many as the device has
    /// at most. A larger number than the device has is cut down to that.
    pub nr_hw_queues: Option<NonZeroU16>,
    /// Driver tags of each hardware queue; by default the device's queue depth,
    /// 1023 at most (drivers/nvme/host/pci.c, `io_queue_depth` less the entry
    /// that tells full from empty). With more tags than the device's queue has
    /// room, dispatch meets a full submission queue and requeues.
    pub queue_depth: Option<NonZeroU16>,
    /// Requests that each hardware queue may hold. With a scheduler this is the
    /// number of scheduler tags, by default twice the driver tags and 256 at
    /// most (block/blk-mq-sched.c); without one it can only lower `queue_depth`.
    pub nr_requests: Option<NonZeroU16>,
    /// Largest read or write in KiB; by default 1280 (`BLK_DEF_MAX_SECTORS_CAP`)
    /// and never above the device's transfer limit.
    pub max_sectors_kb: Option<NonZeroU32>,
    /// Scatter-gather segments of one request (drivers/nvme/host/pci.c,
    /// `NVME_MAX_SEGS`); AHCI has 168.
    pub max_segments: NonZeroU16,
    /// Physically contiguous memory behind a bio, in bytes: a bio counts one
    /// segment for each such piece. A page, unless huge pages or large folios
    /// hold the data.
    pub segment_bytes: NonZeroU32,
    /// Which merges are tried.
    pub nomerges: NoMerges,
    /// How the order of writes that ask for it is kept. On a device that cannot, it is
    /// by waiting and flushing ([`BlockDevice::ordering`](crate::BlockDevice::ordering)).
    #[serde(skip_serializing_if = "is_default")]
    pub ordering: Ordering,
    /// Which writes share a stream and how epochs are closed, for when the ordering is
    /// `streams`; in which stream a write is goes for the flushing ones as well.
    #[serde(skip_serializing_if = "is_default")]
    pub streams: StreamsConfig,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            scheduler: None,
            mq_deadline: MqDeadlineConfig::default(),
            zinc: ZincConfig::default(),
            cpus: NonZeroU16::MIN,
            nr_hw_queues: None,
            queue_depth: None,
            nr_requests: None,
            max_sectors_kb: None,
            max_segments: const { NonZeroU16::new(128).expect("not zero") },
            segment_bytes: const { NonZeroU32::new(4096).expect("not zero") },
            nomerges: NoMerges::default(),
            ordering: Ordering::default(),
            streams: StreamsConfig::default(),
        }
    }
}

/// Which merges are tried, as the number in `queue/nomerges`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum NoMerges {
    /// 0: all.
    #[default]
    All,
    /// 1: only with the last candidate, no look-ups in the scheduler.
    OneHit,
    /// 2: none.
    Never,
}

impl TryFrom<u8> for NoMerges {
    type Error = String;
    fn try_from(value: u8) -> Result<Self, String> {
        match value {
            0 => Ok(Self::All),
            1 => Ok(Self::OneHit),
            2 => Ok(Self::Never),
            _ => Err(format!("nomerges is {value}; write 0 (all merges), 1 (one-hit merges only) or 2 (none)")),
        }
    }
}

impl From<NoMerges> for u8 {
    fn from(value: NoMerges) -> Self {
        match value {
            NoMerges::All => 0,
            NoMerges::OneHit => 1,
            NoMerges::Never => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Nanos;

    use super::*;
    use crate::scheduler::ZincClassConfig;

    #[test]
    fn text_form() {
        let config: QueueConfig = toml::from_str(
            "scheduler = \"mq-deadline\"\nnomerges = 1\ncpus = 4\nqueue_depth = 31\n[mq_deadline]\nread_expire = \"100ms\"\n",
        )
        .unwrap();
        assert_eq!(config.scheduler, Some(SchedulerKind::MqDeadline));
        assert_eq!(config.nomerges, NoMerges::OneHit);
        assert_eq!(config.mq_deadline.read_expire, Nanos::from_millis(100));
        assert_eq!(config.mq_deadline.fifo_batch, 16);
        let zinc = "scheduler = \"zinc-lifo\"\n[zinc.reset]\nepoch_interval = \"32ms\"\ncommand_tokens = 20000\n";
        let zinc: QueueConfig = toml::from_str(zinc).unwrap();
        assert_eq!(zinc.scheduler, Some(SchedulerKind::ZincLifo));
        assert_eq!((zinc.zinc.reset.epoch_interval, zinc.zinc.reset.command_tokens), (Nanos::from_millis(32), 20_000));
        assert_eq!(zinc.zinc.finish, ZincClassConfig::default());
        assert_eq!(toml::from_str::<QueueConfig>(&toml::to_string(&config).unwrap()).unwrap(), config);
    }

    #[test]
    fn schedulers_go_by_their_names() {
        for kind in SchedulerKind::ALL {
            let config: QueueConfig = toml::from_str(&format!("scheduler = \"{}\"", kind.name())).unwrap();
            assert_eq!(config.scheduler, Some(kind));
        }
    }

    #[test]
    fn wrong_text_is_refused() {
        for (text, word) in [
            ("cpus = 0", "nonzero"),
            ("nomerges = 3", "write 0"),
            ("schedular = \"none\"", "schedular"),
            ("scheduler = \"bfq\"", "mq-deadline"),
            ("[mq_deadline]\nread_expire = 500", "string"),
            ("[zinc.reset]\nepoch_interval = \"0ms\"", "64ms"),
            ("[zinc.resets]\n", "resets"),
        ] {
            let error = toml::from_str::<QueueConfig>(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text:?} gave {error:?}");
        }
    }
}
