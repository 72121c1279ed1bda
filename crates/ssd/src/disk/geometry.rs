//! Where a block lies and when it passes under the head.

use units::Nanos;

use super::config::DiskConfig;

/// Zones, tracks and the platter's angle.
///
/// Blocks run through the sectors of a track, the heads of a cylinder and the
/// cylinders from the outside in. Each track starts later in the turn than the
/// one before by the time the switch takes (skew), so that a sequential
/// transfer goes on without losing a turn. Angles are times within a turn.
#[derive(Debug)]
pub(super) struct Geometry {
    turn: Nanos,
    heads: u64,
    cylinders_per_zone: u64,
    zones: Vec<Zone>,
    blocks: u64,
    head_skew: Nanos,
    cylinder_skew: Nanos,
}

#[derive(Debug)]
struct Zone {
    first_block: u64,
    sectors_per_track: u64,
}

/// A block's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChsAddress {
    pub cylinder: u64,
    pub head: u64,
    pub sector: u64,
    pub sectors_per_track: u64,
}

impl Geometry {
    /// The geometry of a configuration that passed its check.
    pub(super) fn new(config: &DiskConfig) -> Self {
        let geometry = &config.geometry;
        let turn = geometry.turn();
        let blocks = config.capacity.0 / config.lba.0;
        let zone_count = u64::from(geometry.zones);
        let (outer, inner) = (geometry.outer_rate.0, geometry.inner_rate.0);
        let sectors: Vec<u64> = (0..zone_count)
            .map(|zone| {
                let rate = outer - (outer - inner) * zone / (zone_count - 1).max(1);
                (u128::from(rate) * u128::from(turn.0) / 1_000_000_000 / u128::from(config.lba.0)) as u64
            })
            .map(|sectors| sectors.max(1))
            .collect();
        let heads = u64::from(geometry.heads);
        let cylinders_per_zone = blocks.div_ceil(heads * sectors.iter().sum::<u64>());
        let mut first_block = 0;
        let zones = sectors
            .into_iter()
            .map(|sectors_per_track| {
                let zone = Zone { first_block, sectors_per_track };
                first_block += cylinders_per_zone * heads * sectors_per_track;
                zone
            })
            .collect();
        Self {
            turn,
            heads,
            cylinders_per_zone,
            zones,
            blocks,
            head_skew: config.seek.head_switch,
            cylinder_skew: config.seek.track_to_track + config.seek.write_settle,
        }
    }

    /// Logical blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Cylinders.
    pub(super) fn cylinders(&self) -> u64 {
        self.cylinders_per_zone * self.zones.len() as u64
    }

    /// Where `block` lies.
    pub(super) fn locate(&self, block: u64) -> ChsAddress {
        debug_assert!(block < self.blocks, "block {block} of {}", self.blocks);
        let zone = self.zones.partition_point(|zone| zone.first_block <= block) - 1;
        let Zone { first_block, sectors_per_track } = self.zones[zone];
        let (track, sector) = ((block - first_block) / sectors_per_track, (block - first_block) % sectors_per_track);
        let cylinder = zone as u64 * self.cylinders_per_zone + track / self.heads;
        ChsAddress { cylinder, head: track % self.heads, sector, sectors_per_track }
    }

    /// From `now` until the place's sector begins to pass under the head.
    pub(super) fn rotation_wait(&self, place: &ChsAddress, now: Nanos) -> Nanos {
        let per_cylinder = self.head_skew * (self.heads - 1) + self.cylinder_skew;
        let skew = u128::from(per_cylinder.0) * u128::from(place.cylinder)
            + u128::from(self.head_skew.0) * u128::from(place.head);
        let turn = self.turn.0;
        let angle =
            ((skew % u128::from(turn)) as u64 + self.sector_start(place.sector, place.sectors_per_track)) % turn;
        Nanos((angle + turn - now.0 % turn) % turn)
    }

    /// When a transfer of `count` blocks from `first` ends whose first sector
    /// comes under the head at `begin`.
    pub(super) fn transfer_end(&self, first: u64, count: u64, begin: Nanos) -> Nanos {
        self.follow(first, begin, first + count, Nanos::MAX).1
    }

    /// The block up to which a transfer from `first`, begun at `begin`, has come
    /// by `now`, at most `limit`.
    pub(super) fn transferred_by(&self, first: u64, begin: Nanos, limit: u64, now: Nanos) -> u64 {
        self.follow(first, begin, limit, now).0
    }

    /// Follows a transfer track by track until block `limit` or time `deadline`;
    /// gives the block reached and when it was.
    fn follow(&self, first: u64, begin: Nanos, limit: u64, deadline: Nanos) -> (u64, Nanos) {
        let (mut block, mut time) = (first, begin);
        while block < limit {
            let place = self.locate(block);
            let (sector, sectors) = (place.sector, place.sectors_per_track);
            let count = (sectors - sector).min(limit - block);
            let from = self.sector_start(sector, sectors);
            let end = time + Nanos(self.sector_start(sector + count, sectors) - from);
            if end > deadline {
                let elapsed = deadline.since(time).0;
                let passed_by = |done| self.sector_start(sector + done, sectors) - from <= elapsed;
                // Sector borders are rounded to nanoseconds, so the quotient may be one off.
                let mut done = (u128::from(elapsed) * u128::from(sectors) / u128::from(self.turn.0)) as u64;
                done = done.saturating_sub(1).min(count);
                while done < count && passed_by(done + 1) {
                    done += 1;
                }
                let passed = Nanos(self.sector_start(sector + done, sectors) - from);
                return (block + done, time + passed);
            }
            block += count;
            time = end;
            if block < limit {
                // The next block starts the next track unless the limit came first.
                let next = self.locate(block);
                time += if next.cylinder == place.cylinder { self.head_skew } else { self.cylinder_skew };
                if time > deadline {
                    return (block, time);
                }
            }
        }
        (block, time)
    }

    /// When in the turn a sector begins, relative to its track's first.
    fn sector_start(&self, sector: u64, sectors_per_track: u64) -> u64 {
        (u128::from(sector) * u128::from(self.turn.0) / u128::from(sectors_per_track)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::tests::small_disk;
    use super::*;

    #[test]
    fn blocks_fill_tracks_in_order() {
        let geometry = Geometry::new(&small_disk());
        let mut previous = geometry.locate(0);
        assert_eq!((previous.cylinder, previous.head, previous.sector), (0, 0, 0));
        for block in 1..geometry.blocks().min(200_000) {
            let place = geometry.locate(block);
            if place.sector != 0 {
                assert_eq!(place, ChsAddress { sector: previous.sector + 1, ..previous });
            } else {
                assert_eq!(previous.sector + 1, previous.sectors_per_track);
                assert_ne!((place.cylinder, place.head), (previous.cylinder, previous.head));
            }
            previous = place;
        }
        let last = geometry.locate(geometry.blocks() - 1);
        assert!(last.cylinder < geometry.cylinders());
        assert!(last.sectors_per_track < geometry.locate(0).sectors_per_track, "inner tracks are shorter");
    }

    #[test]
    fn a_sequential_transfer_loses_no_turn() {
        let geometry = Geometry::new(&small_disk());
        // Wherever a transfer stops, the next block is just arriving, or, after
        // a track's end, arrives when the switch is over.
        let begin = geometry.rotation_wait(&geometry.locate(7), Nanos::ZERO);
        for count in [1, 10, 100, 1000, 5000] {
            let end = geometry.transfer_end(7, count, begin);
            let wait = geometry.rotation_wait(&geometry.locate(7 + count), end);
            assert!(wait <= geometry.cylinder_skew, "{count}: {wait}");
            if geometry.locate(7 + count).sector != 0 {
                assert_eq!(wait, Nanos::ZERO, "{count}");
            }
        }
    }

    #[test]
    fn transferred_by_inverts_transfer_end() {
        let geometry = Geometry::new(&small_disk());
        let begin = Nanos(12_345);
        for count in 1..6000 {
            let end = geometry.transfer_end(100, count, begin);
            assert_eq!(geometry.transferred_by(100, begin, 100_000, end), 100 + count, "{count}");
            assert_eq!(geometry.transferred_by(100, begin, 100_000, Nanos(end.0 - 1)), 100 + count - 1, "{count}");
        }
    }
}
