//! What a device is doing at one moment, for people who watch it.
//!
//! Counters say what happened since the start; this says how things stand.

use nvme::ZoneState;
use serde::{Deserialize, Serialize};

/// The state of a device. A part that the device does not have is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveState {
    /// Commands submitted and not completed.
    pub outstanding_commands: u64,
    /// The write cache.
    pub write_cache: Option<WriteCacheState>,
    /// Garbage collection.
    pub garbage_collection: Option<GarbageCollectionState>,
    /// Zones, one entry a namespace; empty without zones.
    pub zones: Vec<ZoneSummary>,
}

/// A write cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteCacheState {
    /// Accepted and not yet on the media.
    pub dirty_bytes: u64,
    /// What it holds at most.
    pub capacity_bytes: u64,
    /// Whether a power cut leaves it as it is.
    pub power_loss_protected: bool,
}

/// Garbage collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GarbageCollectionState {
    /// Erased block units (one block index on all planes of a die) of all dies.
    pub free_blocks: u64,
    /// All block units.
    pub total_blocks: u64,
    /// Dies that are collecting now; none: it is not running.
    pub collecting_dies: u32,
    /// All dies.
    pub total_dies: u32,
    /// Bytes that it has moved since the start.
    pub moved_bytes: u64,
}

/// The zones of one namespace, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneSummary {
    /// The namespace.
    pub nsid: u32,
    /// Zones in it.
    pub zones: u32,
    /// ZSE.
    pub empty: u32,
    /// ZSIO.
    pub implicitly_opened: u32,
    /// ZSEO.
    pub explicitly_opened: u32,
    /// ZSC.
    pub closed: u32,
    /// ZSF.
    pub full: u32,
    /// ZSRO.
    pub read_only: u32,
    /// ZSO.
    pub offline: u32,
    /// Most that may be open at once (MOR); absent: no limit.
    pub max_open: Option<u32>,
    /// Most that may be active at once (MAR); absent: no limit.
    pub max_active: Option<u32>,
}

impl ZoneSummary {
    /// Counts `states`.
    pub fn of(
        nsid: u32,
        states: impl IntoIterator<Item = ZoneState>,
        max_open: Option<u32>,
        max_active: Option<u32>,
    ) -> Self {
        let mut summary = Self { nsid, max_open, max_active, ..Self::default() };
        for state in states {
            summary.zones += 1;
            let count = match state {
                ZoneState::Empty => &mut summary.empty,
                ZoneState::ImplicitlyOpened => &mut summary.implicitly_opened,
                ZoneState::ExplicitlyOpened => &mut summary.explicitly_opened,
                ZoneState::Closed => &mut summary.closed,
                ZoneState::ReadOnly => &mut summary.read_only,
                ZoneState::Full => &mut summary.full,
                ZoneState::Offline => &mut summary.offline,
            };
            *count += 1;
        }
        summary
    }

    /// Open zones, however opened.
    pub fn open(&self) -> u32 {
        self.implicitly_opened + self.explicitly_opened
    }

    /// Active zones: open and closed ones.
    pub fn active(&self) -> u32 {
        self.open() + self.closed
    }
}
