//! Checks a configuration and derives the numbers that follow from it.

use units::{ByteSize, Nanos};

use super::{OrderKind, Overwritten, SsdConfig};

/// Why a configuration describes no device.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A count, size or rate that must not be zero.
    #[error("`{key}` is zero; give at least 1")]
    Zero {
        /// The key, with its table.
        key: &'static str,
    },
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
    /// A size that must be a multiple of another.
    #[error("`{key}` ({value}) is not a multiple of `{of}` ({unit}); change either")]
    NotMultiple {
        /// The key, with its table.
        key: &'static str,
        /// What was given.
        value: ByteSize,
        /// The other key.
        of: &'static str,
        /// Its value.
        unit: ByteSize,
    },
    /// A list of times that fits no page type.
    #[error("`{key}` has {found} times; give one, or one for each of the {expected} page types")]
    PageTypes {
        /// The key, with its table.
        key: &'static str,
        /// Times given.
        found: usize,
        /// Times needed.
        expected: usize,
    },
    /// The capacity is not determined, or over-determined.
    #[error(
        "the capacity is {problem}: of `geometry.blocks_per_plane`, `namespaces` and `over_provisioning` give exactly two"
    )]
    Capacity {
        /// Which of the two.
        problem: &'static str,
    },
    /// Less flash than data.
    #[error(
        "{physical} of flash cannot hold {logical} of namespaces and the collector's reserve of {reserve}; \
         raise `geometry.blocks_per_plane` or `over_provisioning`, or shrink `namespaces`"
    )]
    TooSmall {
        /// Flash outside the SLC cache.
        physical: ByteSize,
        /// Sum of the namespaces.
        logical: ByteSize,
        /// Blocks that must stay free or open.
        reserve: ByteSize,
    },
    /// More flash than the map can address.
    #[error(
        "the flash has {units} mapping units; the map addresses {max}: raise `mapping_unit` or shrink the geometry"
    )]
    TooLarge {
        /// Units there would be.
        units: u64,
        /// Units there can be.
        max: u64,
    },
    /// Collection could never keep up.
    #[error(
        "`initial` asks for a steady state that has none: the flash is too full; raise `over_provisioning` or lower `initial.fill`"
    )]
    NoSteadyState,
    /// `initial.overwritten` and `initial.hot` do not fit together.
    #[error("`initial.hot` belongs to `overwritten = \"hot-cold\"`: give both or neither")]
    HotWithoutSkew,
}

/// Map entries from here on are not flash addresses: buffer slots (see `ftl::map`).
pub(crate) const MAX_UNITS: u64 = u32::MAX as u64 - (1 << 21);

/// The most blocks of all dies, of each of which some tens of bytes are known.
const MAX_BLOCKS: u64 = 1 << 24;

/// The most units a write buffer holds.
pub(crate) const MAX_SLOTS: u64 = 1 << 20;

/// A configuration in the engine's own numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Logical block size in bytes.
    pub lba_bytes: u32,
    /// Mapping unit in bytes.
    pub unit_bytes: u32,
    /// Logical blocks of a mapping unit.
    pub lbas_per_unit: u32,
    /// Logical blocks of each namespace.
    pub namespace_blocks: Vec<u64>,
    /// First logical unit of each namespace, and the end.
    pub namespace_units: Vec<u32>,
    /// Channels.
    pub channels: u32,
    /// Dies in the device; die `d` hangs on channel `d % channels`.
    pub dies: u32,
    /// Planes of a die.
    pub planes: u32,
    /// Block units (the same block index on every plane) of a die: normal ones
    /// first, then those of the SLC cache.
    pub blocks_per_die: u32,
    /// Of these, normal ones.
    pub normal_blocks_per_die: u32,
    /// Mapping units of a page.
    pub units_per_page: u32,
    /// Mapping units of a superpage: one page on every plane.
    pub units_per_superpage: u32,
    /// Superpages of a normal block unit.
    pub superpages_per_block: u32,
    /// Superpages programmed by one operation in a normal block.
    pub superpages_per_row: u32,
    /// Superpages of an SLC block unit.
    pub slc_superpages_per_block: u32,
    /// Units that the write buffer holds.
    pub buffer_slots: u32,
}

impl Layout {
    /// Whether the block belongs to the SLC cache.
    pub fn is_slc(&self, block: u32) -> bool {
        block % self.blocks_per_die >= self.normal_blocks_per_die
    }

    /// Logical units of the device.
    pub fn logical_units(&self) -> u32 {
        self.namespace_units[self.namespace_units.len() - 1]
    }
    /// Mapping units of a normal block unit; the stride of physical addresses.
    pub fn units_per_block(&self) -> u32 {
        self.superpages_per_block * self.units_per_superpage
    }
    /// Block units of the device.
    pub fn blocks(&self) -> u32 {
        self.blocks_per_die * self.dies
    }
}

/// Blocks of a die being filled: one with host data, one with moved data.
const OPEN_BLOCKS_PER_DIE: u64 = 2;
/// No controller has more cores; each is a clock of its own in the model.
const PROCESSORS_MAX: u32 = 1 << 16;
/// Stream identifiers are 16 bits, and 0 is none.
const STREAMS_MAX: u32 = u16::MAX as u32;
/// Namespaces are small where they are not so many times the collector's reserve.
const SMALL_RESERVES: u64 = 10;

fn nonzero(key: &'static str, value: u64) -> Result<u64, ConfigError> {
    if value == 0 { Err(ConfigError::Zero { key }) } else { Ok(value) }
}

fn out_of_range<T>(key: &'static str, value: impl ToString, allowed: impl ToString) -> Result<T, ConfigError> {
    Err(ConfigError::OutOfRange { key, value: value.to_string(), allowed: allowed.to_string() })
}

fn multiple(key: &'static str, value: ByteSize, of: &'static str, unit: ByteSize) -> Result<u64, ConfigError> {
    if !value.0.is_multiple_of(unit.0) {
        return Err(ConfigError::NotMultiple { key, value, of, unit });
    }
    Ok(value.0 / unit.0)
}

fn page_types(key: &'static str, times: &[Nanos], bits: u32) -> Result<(), ConfigError> {
    if times.len() != 1 && times.len() != bits as usize {
        return Err(ConfigError::PageTypes { key, found: times.len(), expected: bits as usize });
    }
    Ok(())
}

fn share(key: &'static str, value: f64) -> Result<(), ConfigError> {
    if !(0.0..=1.0).contains(&value) {
        return out_of_range(key, value, "a share from 0 to 1");
    }
    Ok(())
}

impl SsdConfig {
    /// Whether the configuration describes a device.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.layout().map(|_| ())
    }

    pub(crate) fn layout(&self) -> Result<Layout, ConfigError> {
        self.check_values()?;
        let geometry = &self.geometry;
        let lbas_per_unit = multiple("mapping_unit", self.mapping_unit, "lba", self.lba)?;
        let units_per_page = multiple("geometry.page", geometry.page, "mapping_unit", self.mapping_unit)?;
        multiple("max_transfer", self.max_transfer, "mapping_unit", self.mapping_unit)?;
        let bits = self.cell.bits;
        if !geometry.pages_per_block.is_multiple_of(bits) {
            let allowed = format!("a multiple of the {bits} pages of a word line (`cell.bits`)");
            return out_of_range("geometry.pages_per_block", geometry.pages_per_block, allowed);
        }

        let dies = [geometry.chips_per_channel, geometry.dies_per_chip]
            .into_iter()
            .fold(u64::from(geometry.channels), |dies, count| dies.saturating_mul(count.into()));
        if dies > u64::from(u16::MAX) || geometry.planes_per_die > 64 {
            return out_of_range("geometry", format!("{dies} dies"), "at most 65535 dies of at most 64 planes");
        }
        let units_per_superpage = units_per_page * u64::from(geometry.planes_per_die);
        let units_per_block = units_per_superpage * u64::from(geometry.pages_per_block);
        // One block index on every die.
        let stripe_units = units_per_block.saturating_mul(dies);

        let mut namespace_blocks = Vec::new();
        let mut units = 0_u64;
        let mut namespace_units = vec![0];
        for size in &self.namespaces {
            nonzero("namespaces", size.0)?;
            let blocks = multiple("namespaces", *size, "lba", self.lba)?;
            namespace_blocks.push(blocks);
            units = units.saturating_add(blocks.div_ceil(lbas_per_unit));
            namespace_units.push(units);
        }
        let reserve = stripe_units.saturating_mul(OPEN_BLOCKS_PER_DIE + u64::from(self.gc.stop_at));
        let capacity = |problem| Err(ConfigError::Capacity { problem });
        let blocks_per_plane = match (geometry.blocks_per_plane, self.namespaces.is_empty(), self.over_provisioning) {
            (Some(blocks), false, None) => u64::from(blocks),
            (Some(blocks), true, Some(spare)) => {
                units = (stripe_units.saturating_mul(u64::from(blocks)) as f64 / (1.0 + spare)) as u64;
                namespace_units.push(units);
                namespace_blocks.push(units.saturating_mul(lbas_per_unit));
                u64::from(blocks)
            }
            (None, false, Some(spare)) => {
                let asked = (units as f64 * (1.0 + spare) / stripe_units as f64).ceil() as u64;
                // What the collector needs on each die does not shrink with the namespaces: of small ones no usual
                // share can hold it, and there is more flash.
                let is_small = reserve.saturating_mul(SMALL_RESERVES) > units;
                let needed = units.saturating_add(reserve).saturating_add(units_per_block).div_ceil(stripe_units);
                if is_small { asked.max(needed) } else { asked }
            }
            (Some(_), false, Some(_)) => return capacity("given twice"),
            _ => return capacity("not given"),
        };
        let slc_superpages = geometry.pages_per_block / bits;
        let slc_blocks = self.slc_cache.as_ref().map_or(0, |slc| {
            let stripe = (u64::from(slc_superpages) * units_per_superpage).saturating_mul(dies);
            slc.size.0.div_ceil(self.mapping_unit.0).div_ceil(stripe)
        });

        let all_units = stripe_units.saturating_mul(blocks_per_plane.saturating_add(slc_blocks));
        if all_units > MAX_UNITS || units > MAX_UNITS {
            return Err(ConfigError::TooLarge { units: all_units.max(units), max: MAX_UNITS });
        }
        let blocks = blocks_per_plane.saturating_add(slc_blocks).saturating_mul(dies);
        if blocks > MAX_BLOCKS {
            let allowed = format!("so many that the device has {MAX_BLOCKS} blocks at most, not {blocks}");
            return out_of_range("geometry.pages_per_block", geometry.pages_per_block, allowed);
        }
        let bytes = |units: u64| ByteSize(units.saturating_mul(self.mapping_unit.0));
        let buffer_slots = self.buffer.size.0 / self.mapping_unit.0;
        // What waits to be mapped is on flash beside what it will replace, a row of it at most half filled.
        let delayed = if self.order == OrderKind::Streams { buffer_slots.saturating_mul(2) } else { 0 };
        // One block more, so that there is always something to gain by collecting.
        let reserve = reserve.saturating_add(units_per_block).saturating_add(delayed);
        if stripe_units * blocks_per_plane < units.saturating_add(reserve) {
            return Err(ConfigError::TooSmall {
                physical: bytes(stripe_units * blocks_per_plane),
                logical: bytes(units),
                reserve: bytes(reserve),
            });
        }
        let superpages_per_row = if self.cell.one_shot { bits } else { 1 };
        let least =
            self.max_transfer.0 / self.mapping_unit.0 + 1 + 2 * u64::from(superpages_per_row) * units_per_superpage;
        if buffer_slots < least || buffer_slots > MAX_SLOTS {
            let allowed = format!(
                "from {} (one transfer and two programs) to {} of mapping units",
                bytes(least),
                bytes(MAX_SLOTS)
            );
            return out_of_range("buffer.size", self.buffer.size, allowed);
        }
        // All of these fit 32 bits: they divide the number of units checked above.
        Ok(Layout {
            lba_bytes: self.lba.0 as u32,
            unit_bytes: self.mapping_unit.0 as u32,
            lbas_per_unit: lbas_per_unit as u32,
            namespace_blocks,
            namespace_units: namespace_units.into_iter().map(|unit| unit as u32).collect(),
            channels: geometry.channels,
            dies: dies as u32,
            planes: geometry.planes_per_die,
            blocks_per_die: (blocks_per_plane + slc_blocks) as u32,
            normal_blocks_per_die: blocks_per_plane as u32,
            units_per_page: units_per_page as u32,
            units_per_superpage: units_per_superpage as u32,
            superpages_per_block: geometry.pages_per_block,
            superpages_per_row,
            slc_superpages_per_block: slc_superpages,
            buffer_slots: buffer_slots as u32,
        })
    }

    fn check_values(&self) -> Result<(), ConfigError> {
        let geometry = &self.geometry;
        for (key, value) in [
            ("lba", self.lba.0),
            ("mapping_unit", self.mapping_unit.0),
            ("max_transfer", self.max_transfer.0),
            ("geometry.channels", geometry.channels.into()),
            ("geometry.chips_per_channel", geometry.chips_per_channel.into()),
            ("geometry.dies_per_chip", geometry.dies_per_chip.into()),
            ("geometry.planes_per_die", geometry.planes_per_die.into()),
            ("geometry.blocks_per_plane", geometry.blocks_per_plane.unwrap_or(1).into()),
            ("geometry.pages_per_block", geometry.pages_per_block.into()),
            ("geometry.page", geometry.page.0),
            ("channel.bandwidth", self.channel.bandwidth.0),
            ("controller.processors", self.controller.processors.into()),
            ("link.bandwidth", self.link.bandwidth.0),
            ("link.queues", self.link.queues.into()),
            ("link.queue_depth", self.link.queue_depth.into()),
            ("slc_cache.size", self.slc_cache.as_ref().map_or(1, |slc| slc.size.0)),
            ("order_tables.streams", self.order_tables.streams.into()),
            ("order_tables.epochs", self.order_tables.epochs.into()),
        ] {
            nonzero(key, value)?;
        }
        if self.lba.0 != 512 && self.lba.0 != 4096 {
            return out_of_range("lba", self.lba, "512 or 4KiB");
        }
        if self.mapping_unit.0 > 1 << 20 {
            return out_of_range("mapping_unit", self.mapping_unit, "at most 1MiB");
        }
        if geometry.page.0 > 1 << 20 {
            return out_of_range("geometry.page", geometry.page, "at most 1MiB");
        }
        if self.max_transfer.0 > 1 << 30 {
            return out_of_range("max_transfer", self.max_transfer, "at most 1GiB");
        }
        if self.controller.processors > PROCESSORS_MAX {
            let allowed = format!("1 to {PROCESSORS_MAX}");
            return out_of_range("controller.processors", self.controller.processors, allowed);
        }
        if !(1..=4).contains(&self.cell.bits) {
            return out_of_range("cell.bits", self.cell.bits, "1 (SLC) to 4 (QLC)");
        }
        page_types("cell.read", &self.cell.read, self.cell.bits)?;
        page_types("cell.program", &self.cell.program, if self.cell.one_shot { 1 } else { self.cell.bits })?;
        if let Some(spare) = self.over_provisioning
            && !(spare > 0.0 && spare <= 100.0)
        {
            return out_of_range("over_provisioning", spare, "more than 0 and at most 100");
        }
        if self.gc.start_below < 4 {
            let allowed = "at least 4: host data leaves 3 free blocks to the collector";
            return out_of_range("gc.start_below", self.gc.start_below, allowed);
        }
        if self.gc.stop_at < self.gc.start_below {
            let allowed = format!("at least `gc.start_below` ({})", self.gc.start_below);
            return out_of_range("gc.stop_at", self.gc.stop_at, allowed);
        }
        if self.order_tables.streams > STREAMS_MAX {
            let allowed = format!("1 to {STREAMS_MAX}: identifiers are 16 bits");
            return out_of_range("order_tables.streams", self.order_tables.streams, allowed);
        }
        share("initial.fill", self.initial.fill)?;
        if self.initial.hot.is_some() != (self.initial.overwritten == Overwritten::HotCold) {
            return Err(ConfigError::HotWithoutSkew);
        }
        if let Some(hot) = self.initial.hot {
            share("initial.hot.writes", hot.writes)?;
            share("initial.hot.space", hot.space)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HotCold;

    #[test]
    fn reference_layout() {
        let layout = SsdConfig::reference().layout().unwrap();
        assert_eq!(layout.logical_units(), 1 << 27);
        assert_eq!((layout.dies, layout.units_per_superpage), (64, 8));
        let physical = u64::from(layout.blocks()) * u64::from(layout.units_per_block());
        let spare = physical as f64 / f64::from(layout.logical_units()) - 1.0;
        assert!((0.28..0.285).contains(&spare), "{spare}");
    }

    #[test]
    fn text_round_trip() {
        let config = SsdConfig::reference();
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<SsdConfig>(&text).unwrap(), config, "{text}");
        let unknown = text.replace("planes_per_die", "planes_per_dye");
        assert!(toml::from_str::<SsdConfig>(&unknown).unwrap_err().to_string().contains("planes_per_dye"));
    }

    /// A served drive of a few GiB: its flash has what the collector needs, whatever the share says.
    #[test]
    fn small_namespaces_fit() {
        for size in [1_u64 << 30, 3 << 30, 8 << 30] {
            let mut config = SsdConfig::reference();
            config.namespaces = vec![ByteSize(size)];
            config.check().unwrap();
        }
    }

    #[test]
    fn errors_name_the_key() {
        type Change = fn(&mut SsdConfig);
        let cases: [(Change, &str); 14] = [
            (|c| c.geometry.channels = 0, "geometry.channels"),
            (|c| c.lba = ByteSize(520), "lba"),
            (|c| c.geometry.page = ByteSize(5000), "geometry.page"),
            (|c| c.cell.read = vec![Nanos(1); 2], "cell.read"),
            (|c| c.cell.one_shot = true, "cell.program"),
            (|c| c.over_provisioning = None, "over_provisioning"),
            (|c| c.geometry.blocks_per_plane = Some(700), "geometry.blocks_per_plane"),
            (|c| c.over_provisioning = Some(0.0001), "over_provisioning"),
            (|c| c.namespaces[0] = ByteSize(64 << 40), "mapping_unit"),
            (|c| c.buffer.size = ByteSize(4096), "buffer.size"),
            (|c| c.order_tables.streams = 1 << 16, "order_tables.streams"),
            (|c| c.order_tables.epochs = 0, "order_tables.epochs"),
            (|c| c.initial.fill = 1.5, "initial.fill"),
            (|c| c.initial.hot = Some(HotCold { writes: 0.8, space: 0.2 }), "initial.hot"),
        ];
        for (change, key) in cases {
            let mut config = SsdConfig::reference();
            change(&mut config);
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(key), "{error:?} does not name {key}");
        }
    }
}
