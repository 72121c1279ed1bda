//! A job's options of zones, typed.

use super::options::Extent;

/// `zonemode` and what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ZoneOptions {
    /// `zonemode=zbd`.
    pub zbd: bool,
    /// `zonesize` in bytes.
    pub size_bytes: Option<u64>,
    /// `zonecapacity` in bytes.
    pub capacity_bytes: Option<u64>,
    /// `zoneskip`.
    pub skip: Extent,
    /// `read_beyond_wp`.
    pub read_beyond_write_pointer: bool,
    /// `max_open_zones`; 0 is the device's limit.
    pub max_open: u32,
    /// `job_max_open_zones`; 0 is no limit.
    pub job_max_open: u32,
    /// `ignore_zone_limits`.
    pub ignore_limits: bool,
    /// `zone_reset_threshold`, from 0 to 1.
    pub reset_threshold: f64,
    /// `zone_reset_frequency`: resets per write, from 0 to 1.
    pub reset_frequency: f64,
    /// `initial_zone_reset`.
    pub initial_reset: bool,
    /// `zone_append`.
    pub append: bool,
    /// `finish` in bytes; `None` is never.
    pub finish_bytes: Option<u64>,
    /// `softfinish`.
    pub soft_finish: bool,
    /// `softfinish_chunk` in sectors of 512 bytes.
    pub soft_finish_chunk_sectors: u32,
}

impl Default for ZoneOptions {
    fn default() -> Self {
        Self {
            zbd: false,
            size_bytes: None,
            capacity_bytes: None,
            skip: Extent::Bytes(0),
            read_beyond_write_pointer: false,
            max_open: 0,
            job_max_open: 0,
            ignore_limits: false,
            reset_threshold: 0.0,
            reset_frequency: 0.0,
            initial_reset: false,
            append: false,
            finish_bytes: None,
            soft_finish: false,
            soft_finish_chunk_sectors: 1024,
        }
    }
}
