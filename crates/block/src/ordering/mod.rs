//! How the order of writes is kept: what is asked for, and what a device lets the queue do.

mod policy;

use serde::{Deserialize, Serialize};
use ssd::{Identity, OrderingIdentity};

pub use policy::StreamPolicyKind;

/// How the order of writes is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ordering {
    /// By waiting: PREFLUSH and FUA go through the flush machine, and a write that
    /// must come after others waits for them and a flush.
    #[default]
    Flush,
    /// The same on a device that is not asked for FUA: a flush after the write does it.
    FlushNoFua,
    /// One sequence of epochs for all, through one hardware queue; whichever write of
    /// an epoch leaves last is its barrier (Y. Won et al., "Barrier-Enabled IO Stack
    /// for Flash Storage", FAST 2018).
    BarrierSingleQueue,
    /// Streams of epochs, which the device keeps apart (`docs/ordering.md`).
    Streams,
}

impl Ordering {
    /// Every ordering.
    pub const ALL: [Self; 4] = [Self::Flush, Self::FlushNoFua, Self::BarrierSingleQueue, Self::Streams];

    /// Its name in specs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::FlushNoFua => "flush-no-fua",
            Self::BarrierSingleQueue => "barrier-single-queue",
            Self::Streams => "streams",
        }
    }

    /// Whether the device must keep order for it.
    fn needs_device(self) -> bool {
        matches!(self, Self::BarrierSingleQueue | Self::Streams)
    }
}

/// How an epoch comes to an end at the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EpochKind {
    /// It holds what came before its barrier; its writes are pinned to one hardware
    /// queue, as published.
    Pinned,
    /// Its barrier says how many blocks it holds, in whatever order they come.
    #[default]
    Counted,
}

/// Settings of `ordering = "streams"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StreamsConfig {
    /// Which writes share a stream.
    pub policy: StreamPolicyKind,
    /// How epochs are closed.
    pub epochs: EpochKind,
}

/// How a queue keeps order, and why not as it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderingInForce {
    /// What it does.
    pub ordering: Ordering,
    /// Why that is [`Ordering::Flush`] though another was asked for.
    pub fallback: Option<&'static str>,
    /// What the device keeps, where it is asked to.
    pub(crate) device: Option<OrderingIdentity>,
}

impl OrderingInForce {
    /// What was asked for, if the device can do it.
    pub(crate) fn new(asked: Ordering, identity: &Identity) -> Self {
        let fallback = match identity.ordering {
            _ if !asked.needs_device() => None,
            _ if identity.zoned.is_some() => Some("a zoned device has the order of its write pointers alone"),
            None => Some("the device keeps no order"),
            Some(_) => None,
        };
        let device = identity.ordering.filter(|_| asked.needs_device() && fallback.is_none());
        Self { ordering: if fallback.is_some() { Ordering::Flush } else { asked }, fallback, device }
    }

    /// Hardware queues that it allows.
    pub(crate) fn queues_max(self) -> u16 {
        if self.ordering == Ordering::BarrierSingleQueue { 1 } else { u16::MAX }
    }
}

/// What a queue did for the order of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderStatistics {
    /// Bios that asked for order.
    pub bios: u64,
    /// Of these, those whose order was kept by waiting and flushing.
    pub by_waiting: u64,
    /// Times a bio or a part of it was held.
    pub holds: u64,
    /// Epochs that were closed.
    pub epochs: u64,
    /// Stream Management commands.
    pub stream_commands: u64,
    /// Streams that broke since a write of theirs failed.
    pub broken: u64,
}
