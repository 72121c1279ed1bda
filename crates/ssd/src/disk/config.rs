//! The description of a disk, as a device profile writes it.

use serde::{Deserialize, Serialize};
use units::{ByteSize, Nanos};

use super::seek::SeekCurve;

/// A rotating disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskConfig {
    /// Model name.
    pub model: String,
    /// Logical block size: 512 B or 4 KiB.
    #[serde(default = "default_lba")]
    pub lba: ByteSize,
    /// Capacity; rounded down to whole logical blocks.
    pub capacity: ByteSize,
    /// Platters and tracks.
    pub geometry: DiskGeometry,
    /// The arm.
    pub seek: DiskSeek,
    /// The buffer memory.
    pub cache: DiskCache,
    /// The electronics.
    pub controller: DiskController,
    /// The host link.
    pub link: DiskLink,
}

/// Platters and tracks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskGeometry {
    /// Revolutions per minute.
    pub rpm: u32,
    /// Recording surfaces.
    pub heads: u32,
    /// Recording zones; each has as many cylinders as the others, and the media
    /// rate falls linearly from the first to the last.
    pub zones: u32,
    /// Bytes per second under the head in the outermost zone, where the first
    /// block lies.
    pub outer_rate: ByteSize,
    /// Bytes per second under the head in the innermost zone.
    pub inner_rate: ByteSize,
}

/// The arm. Reads seek as the three times say; the curve between is
/// `a + b sqrt(distance) + c distance` (Ruemmler and Wilkes, IEEE Computer 1994).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSeek {
    /// To the next cylinder.
    pub track_to_track: Nanos,
    /// Mean over all pairs of cylinders.
    pub average: Nanos,
    /// From the first cylinder to the last.
    pub full_stroke: Nanos,
    /// From one head to another of the same cylinder.
    pub head_switch: Nanos,
    /// What a write's seek takes longer, to settle.
    pub write_settle: Nanos,
}

/// The buffer memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskCache {
    /// Data a volatile write cache takes; 0 turns it off.
    pub write: ByteSize,
    /// Streams whose read data is remembered.
    pub read_segments: u32,
    /// Size of a read segment, and how far the disk reads ahead.
    pub read_segment: ByteSize,
}

/// How the disk orders what waits for the arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskScheduler {
    /// Shortest seek plus rotation first.
    ShortestPositioning,
    /// Ascending addresses, then from the start again (C-LOOK).
    Elevator,
}

/// The electronics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskController {
    /// Processing of a command.
    pub command_overhead: Nanos,
    /// The order of what waits for the arm.
    pub scheduler: DiskScheduler,
}

/// The host link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskLink {
    /// Effective payload bytes per second.
    pub bandwidth: ByteSize,
    /// Commands outstanding (NCQ: 32).
    pub queue_depth: u16,
    /// Largest transfer of one command.
    pub max_transfer: ByteSize,
}

/// Why a configuration describes no disk.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DiskError {
    /// A value out of its range.
    #[error("`{key}` is {value}; it must be {allowed}")]
    OutOfRange {
        /// The key, with its table.
        key: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        allowed: String,
    },
    /// No seek curve of the assumed form rises through the three times.
    #[error(
        "`seek.full_stroke` is {full_stroke}; it must be {lowest} to {highest}, so that a curve a + b sqrt(d) + c d with \
         b, c >= 0 passes it, `seek.track_to_track` {track_to_track} and `seek.average` {average}"
    )]
    SeekCurve {
        /// To the next cylinder.
        track_to_track: Nanos,
        /// Mean over all pairs.
        average: Nanos,
        /// Across all cylinders.
        full_stroke: Nanos,
        /// The least full stroke that works.
        lowest: Nanos,
        /// The greatest full stroke that works.
        highest: Nanos,
    },
}

fn default_lba() -> ByteSize {
    ByteSize(512)
}

impl DiskConfig {
    /// Whether the values describe a disk; the first that does not is named.
    pub fn check(&self) -> Result<(), DiskError> {
        let fail = |key, value: &dyn ToString, allowed: &str| {
            Err(DiskError::OutOfRange { key, value: value.to_string(), allowed: allowed.to_owned() })
        };
        let (geometry, cache) = (&self.geometry, &self.cache);
        if self.lba.0 != 512 && self.lba.0 != 4096 {
            return fail("lba", &self.lba, "512 or 4k");
        }
        if self.capacity.0 < self.lba.0 {
            return fail("capacity", &self.capacity, "at least one block");
        }
        if !(60..=60_000).contains(&geometry.rpm) {
            return fail("geometry.rpm", &geometry.rpm, "60 to 60000");
        }
        if !(1..=64).contains(&geometry.heads) {
            return fail("geometry.heads", &geometry.heads, "1 to 64");
        }
        if !(1..=1024).contains(&geometry.zones) {
            return fail("geometry.zones", &geometry.zones, "1 to 1024");
        }
        let turn = geometry.turn();
        for (key, rate) in [("geometry.outer_rate", geometry.outer_rate), ("geometry.inner_rate", geometry.inner_rate)]
        {
            // One block per turn at least; 2^40 B/s keeps products inside 64 bits.
            if Nanos::transfer(self.lba.0, rate.0) > turn || !(1..1 << 40).contains(&rate.0) {
                return fail(key, &rate, "at least one block per turn and less than 1 TiB/s");
            }
        }
        if geometry.inner_rate > geometry.outer_rate {
            return fail("geometry.inner_rate", &geometry.inner_rate, "at most `geometry.outer_rate`");
        }
        if cache.write.0 > 1 << 32 || cache.write.0 > 0 && cache.write.0 < self.link.max_transfer.0 {
            return fail("cache.write", &cache.write, "0, or from `link.max_transfer` to 4GiB");
        }
        if cache.read_segments > 1024 {
            return fail("cache.read_segments", &cache.read_segments, "at most 1024");
        }
        if cache.read_segment.0 > 1 << 30 {
            return fail("cache.read_segment", &cache.read_segment, "at most 1GiB");
        }
        if self.link.queue_depth == 0 || self.link.queue_depth > 256 {
            return fail("link.queue_depth", &self.link.queue_depth, "1 to 256");
        }
        if self.link.bandwidth.0 == 0 {
            return fail("link.bandwidth", &self.link.bandwidth, "at least 1");
        }
        if self.link.max_transfer.0 < 4096 || self.link.max_transfer.0 > 1 << 30 {
            return fail("link.max_transfer", &self.link.max_transfer, "4KiB to 1GiB");
        }
        SeekCurve::new(&self.seek).map(|_| ())
    }
}

impl DiskGeometry {
    /// The time of one revolution.
    pub fn turn(&self) -> Nanos {
        Nanos(60_000_000_000 / u64::from(self.rpm.max(1)))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// 1 GB on two surfaces, 7200 rpm.
    pub(in crate::disk) fn small_disk() -> DiskConfig {
        DiskConfig {
            model: "small disk".to_owned(),
            lba: ByteSize(512),
            capacity: ByteSize(1_000_000_000),
            geometry: DiskGeometry {
                rpm: 7200,
                heads: 2,
                zones: 8,
                outer_rate: ByteSize(200_000_000),
                inner_rate: ByteSize(100_000_000),
            },
            seek: DiskSeek {
                track_to_track: Nanos::from_micros(800),
                average: Nanos::from_micros(8500),
                full_stroke: Nanos::from_millis(18),
                head_switch: Nanos::from_micros(700),
                write_settle: Nanos::from_micros(200),
            },
            cache: DiskCache { write: ByteSize(16 << 20), read_segments: 8, read_segment: ByteSize(1 << 20) },
            controller: DiskController {
                command_overhead: Nanos::from_micros(50),
                scheduler: DiskScheduler::ShortestPositioning,
            },
            link: DiskLink { bandwidth: ByteSize(550_000_000), queue_depth: 32, max_transfer: ByteSize(1 << 20) },
        }
    }

    #[test]
    fn each_bad_value_is_named() {
        assert_eq!(small_disk().check(), Ok(()));
        type Spoil = fn(&mut DiskConfig);
        let broken: [(&str, Spoil); 7] = [
            ("lba", |disk| disk.lba = ByteSize(1000)),
            ("geometry.rpm", |disk| disk.geometry.rpm = 0),
            ("geometry.heads", |disk| disk.geometry.heads = 0),
            ("geometry.inner_rate", |disk| disk.geometry.inner_rate = ByteSize(300_000_000)),
            ("cache.write", |disk| disk.cache.write = ByteSize(4096)),
            ("link.queue_depth", |disk| disk.link.queue_depth = 0),
            ("seek.full_stroke", |disk| disk.seek.full_stroke = Nanos::from_millis(8)),
        ];
        for (key, spoil) in broken {
            let mut disk = small_disk();
            spoil(&mut disk);
            let Err(error) = disk.check() else { panic!("bad {key} accepted") };
            assert!(error.to_string().contains(key), "{error}");
        }
    }
}
