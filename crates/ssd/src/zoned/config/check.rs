//! Checks a configuration and derives the numbers that follow from it.

use units::{ByteSize, Nanos};

use super::layout::ZonedLayout;
use super::{AppendTiming, CommandCost, FinishDesign, MappingDesign, ResetDesign, ZonedConfig, ZonedController};
use crate::zoned::sharing::SLOTS_MAX;
use crate::{ZonedIdentity, ZrwaIdentity};

/// Why a configuration describes no zoned device.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ZonedError {
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
    /// A size or count that must be a multiple of another.
    #[error("`{key}` ({value}) is not a multiple of {of} ({unit}); change either")]
    NotMultiple {
        /// The key, with its table.
        key: &'static str,
        /// What was given.
        value: String,
        /// What it must be a multiple of.
        of: &'static str,
        /// Its value.
        unit: String,
    },
    /// A design that does not work with another, or without a table.
    #[error("`{key}` is {value}, but {problem}; {remedy}")]
    Conflict {
        /// The key, with its table.
        key: &'static str,
        /// What was given.
        value: String,
        /// What stands against it.
        problem: String,
        /// What to change.
        remedy: String,
    },
}

/// Buffer units there may be: identifiers of events have 26 bits, and a buffer is
/// small in any case.
const MAX_BUFFER_UNITS: u64 = 1 << 16;
/// Arrays there may be: placements are kept in 16 bits.
const MAX_ARRAYS: u64 = 1 << 15;
/// Zones there may be.
const MAX_ZONES: u64 = 1 << 22;

fn nonzero(key: &'static str, value: u64) -> Result<(), ZonedError> {
    if value == 0 { Err(ZonedError::Zero { key }) } else { Ok(()) }
}

fn out_of_range<T>(key: &'static str, value: impl ToString, allowed: impl ToString) -> Result<T, ZonedError> {
    Err(ZonedError::OutOfRange { key, value: value.to_string(), allowed: allowed.to_string() })
}

fn conflict<T>(
    key: &'static str,
    value: impl ToString,
    problem: impl ToString,
    remedy: impl ToString,
) -> Result<T, ZonedError> {
    Err(ZonedError::Conflict {
        key,
        value: value.to_string(),
        problem: problem.to_string(),
        remedy: remedy.to_string(),
    })
}

fn multiple(key: &'static str, value: ByteSize, of: &'static str, unit: ByteSize) -> Result<u64, ZonedError> {
    if unit.0 == 0 || !value.0.is_multiple_of(unit.0) {
        return Err(ZonedError::NotMultiple { key, value: value.to_string(), of, unit: unit.to_string() });
    }
    Ok(value.0 / unit.0)
}

fn divides(key: &'static str, part: u32, of: &'static str, whole: u32) -> Result<(), ZonedError> {
    if part > whole {
        return out_of_range(key, part, format!("at most {of} ({whole})"));
    }
    if !whole.is_multiple_of(part) {
        return out_of_range(key, part, format!("a divisor of {of} ({whole})"));
    }
    Ok(())
}

impl ZonedController {
    /// What each kind of command costs, under the key of its unit of partial data.
    fn costs(&self) -> [(&'static str, &CommandCost); 3] {
        [
            ("controller.read.partial.unit", &self.read),
            ("controller.write.partial.unit", &self.write),
            ("controller.append.partial.unit", &self.append),
        ]
    }
}

impl ZonedConfig {
    /// Whether the configuration describes a device.
    pub fn check(&self) -> Result<(), ZonedError> {
        self.layout().map(|_| ())
    }

    /// The zones, as a host sees them.
    pub(crate) fn zoned_identity(&self) -> ZonedIdentity {
        let zone = &self.zone;
        let blocks = |size: ByteSize| size.0 / self.lba.0.max(1);
        ZonedIdentity {
            zone_blocks: blocks(zone.size),
            zone_capacity_blocks: blocks(zone.capacity),
            max_open: zone.max_open,
            max_active: zone.max_active,
            append_limit_bytes: zone.append_limit.unwrap_or(self.max_transfer).0 as u32,
            reads_across_zones: zone.reads_across,
            descriptor_extension_bytes: zone.descriptor_extension.0 as u32,
            zrwa: zone.zrwa.as_ref().map(|zrwa| ZrwaIdentity {
                size_blocks: blocks(zrwa.size) as u32,
                commit_granularity_blocks: blocks(zrwa.granularity) as u32,
                zones_max: zrwa.zones,
            }),
        }
    }

    pub(crate) fn layout(&self) -> Result<ZonedLayout, ZonedError> {
        self.check_values()?;
        self.check_zone()?;
        let (geometry, stripe) = (&self.geometry, &self.stripe);
        divides("stripe.channels", stripe.channels, "`geometry.channels`", geometry.channels)?;
        divides("stripe.ways", stripe.ways, "`geometry.ways`", geometry.ways)?;
        let arrays = u64::from(geometry.channels) * u64::from(geometry.ways) * u64::from(geometry.planes);
        if arrays > MAX_ARRAYS {
            return out_of_range("geometry", format!("{arrays} arrays"), format!("at most {MAX_ARRAYS} arrays"));
        }
        multiple("geometry.page", geometry.page, "`lba`", self.lba)?;
        let program = ByteSize(self.program_unit_bytes());
        multiple("cell.program_unit", program, "`geometry.page`", geometry.page)?;
        multiple("stripe.unit", stripe.unit, "the program unit", program)?;
        let block = ByteSize(geometry.page.0.saturating_mul(geometry.pages_per_block.into()));
        let zone_arrays = u64::from(stripe.channels) * u64::from(stripe.ways) * u64::from(geometry.planes);
        multiple("geometry.pages_per_block", block, "`stripe.unit`", stripe.unit)?;
        let row = ByteSize(block.0.saturating_mul(zone_arrays));
        let rows = multiple("zone.capacity", self.zone.capacity, "a row of blocks over the zone's arrays", row)?;

        let mut namespace_zones = vec![0];
        let mut zones = 0_u64;
        for count in &self.namespaces {
            nonzero("namespaces", (*count).into())?;
            zones += u64::from(*count);
            namespace_zones.push(zones.min(MAX_ZONES) as u32);
        }
        nonzero("namespaces", zones)?;
        let physical_zones = zones + u64::from(geometry.spare_zones);
        if physical_zones > MAX_ZONES {
            return out_of_range(
                "namespaces",
                format!("{physical_zones} zones in all"),
                format!("at most {MAX_ZONES}"),
            );
        }
        let full = &self.initial.full_zones;
        if full.len() > self.namespaces.len() || full.iter().zip(&self.namespaces).any(|(full, zones)| full > zones) {
            let allowed = format!("at most as many zones as each of `namespaces` ({:?}) has", self.namespaces);
            return out_of_range("initial.full_zones", format!("{full:?}"), allowed);
        }
        let buffer_units = self.buffer_units(program)?;
        self.check_designs()?;
        // All of these fit their types: capacities were bounded above.
        Ok(ZonedLayout {
            lba_bytes: self.lba.0,
            zone_blocks: self.zone.size.0 / self.lba.0,
            capacity_blocks: self.zone.capacity.0 / self.lba.0,
            namespace_zones,
            physical_zones: physical_zones as u32,
            page_bytes: geometry.page.0,
            program_bytes: program.0,
            stripe_bytes: stripe.unit.0,
            channels: geometry.channels,
            ways: geometry.ways,
            planes: geometry.planes,
            zone_channels: stripe.channels,
            zone_ways: stripe.ways,
            rows: rows as u32,
            row_bytes: row.0,
            buffer_units,
        })
    }

    fn check_values(&self) -> Result<(), ZonedError> {
        let (geometry, stripe) = (&self.geometry, &self.stripe);
        for (key, value) in [
            ("lba", self.lba.0),
            ("max_transfer", self.max_transfer.0),
            ("zone.size", self.zone.size.0),
            ("zone.capacity", self.zone.capacity.0),
            ("geometry.channels", geometry.channels.into()),
            ("geometry.ways", geometry.ways.into()),
            ("geometry.planes", geometry.planes.into()),
            ("geometry.page", geometry.page.0),
            ("geometry.pages_per_block", geometry.pages_per_block.into()),
            ("stripe.channels", stripe.channels.into()),
            ("stripe.ways", stripe.ways.into()),
            ("stripe.unit", stripe.unit.0),
            ("cell.program_unit", self.program_unit_bytes()),
            ("channel.bandwidth", self.channel.bandwidth.0),
            ("controller.processors", self.controller.processors.into()),
            ("link.queues", self.link.queues.into()),
            ("link.queue_depth", self.link.queue_depth.into()),
            ("management.finish_chunk", self.management.finish_chunk.0),
        ] {
            nonzero(key, value)?;
        }
        if self.lba.0 != 512 && self.lba.0 != 4096 {
            return out_of_range("lba", self.lba, "512 or 4KiB");
        }
        multiple("max_transfer", self.max_transfer, "`lba`", self.lba)?;
        if self.max_transfer.0 > 1 << 30 {
            return out_of_range("max_transfer", self.max_transfer, "at most 1GiB");
        }
        if self.controller.processors > SLOTS_MAX {
            return out_of_range("controller.processors", self.controller.processors, format!("1 to {SLOTS_MAX}"));
        }
        let most = SLOTS_MAX / self.controller.processors;
        if !(1..=most).contains(&self.controller.sharing) {
            let allowed = format!("1 to {most}: {SLOTS_MAX} commands in all with these processors");
            return out_of_range("controller.sharing", self.controller.sharing, allowed);
        }
        for (key, cost) in self.controller.costs() {
            if let Some(partial) = &cost.partial {
                nonzero(key, partial.unit.0)?;
            }
        }
        if !(1..=4).contains(&self.cell.read.len()) {
            return out_of_range("cell.read", format!("{} times", self.cell.read.len()), "1 to 4 times");
        }
        if !(0.0..=1.0).contains(&self.cell.variation) {
            return out_of_range("cell.variation", self.cell.variation, "0 to 1");
        }
        if let Some(suspend) = &self.suspend
            && !(0.0..=1.0).contains(&suspend.variation)
        {
            return out_of_range("suspend.variation", suspend.variation, "0 to 1");
        }
        if self.channel.hold_array && self.channel.booking == super::Booking::AtCommand {
            return conflict(
                "channel.hold_array",
                "true",
                "with `channel.booking = \"at-command\"` arrays are booked before their transfers",
                "set `channel.booking = \"when-ready\"`",
            );
        }
        if !(0.0..=1.0).contains(&self.controller.variation) {
            return out_of_range("controller.variation", self.controller.variation, "0 to 1");
        }
        // Byte counts of one operation fit 32 bits.
        for (key, size) in [("stripe.unit", stripe.unit.0), ("cell.program_unit", self.program_unit_bytes())] {
            if size > 1 << 30 {
                return out_of_range(key, ByteSize(size), "at most 1GiB");
            }
        }
        Ok(())
    }

    fn check_zone(&self) -> Result<(), ZonedError> {
        let zone = &self.zone;
        multiple("zone.size", zone.size, "`lba`", self.lba)?;
        multiple("zone.capacity", zone.capacity, "`lba`", self.lba)?;
        if zone.capacity > zone.size {
            return out_of_range("zone.capacity", zone.capacity, format!("at most `zone.size` ({})", zone.size));
        }
        if zone.size.0 / self.lba.0 > u64::from(u32::MAX) {
            return out_of_range("zone.size", zone.size, "fewer than 2^32 blocks");
        }
        for (key, limit) in [("zone.max_open", zone.max_open), ("zone.max_active", zone.max_active)] {
            nonzero(key, limit.unwrap_or(1).into())?;
        }
        if let (open, Some(active)) = (zone.max_open.unwrap_or(u32::MAX), zone.max_active)
            && active < open
        {
            let given = zone.max_open.map_or("no limit".to_owned(), |open| open.to_string());
            return out_of_range(
                "zone.max_active",
                active,
                format!("at least `zone.max_open` ({given}): every open zone is active"),
            );
        }
        if let Some(limit) = zone.append_limit {
            multiple("zone.append_limit", limit, "`lba`", self.lba)?;
            if limit.0 == 0 || limit > self.max_transfer {
                return out_of_range(
                    "zone.append_limit",
                    limit,
                    format!("up to `max_transfer` ({})", self.max_transfer),
                );
            }
        }
        let extension = zone.descriptor_extension;
        if !extension.0.is_multiple_of(64) || extension.0 > 255 * 64 {
            return out_of_range("zone.descriptor_extension", extension, "a multiple of 64B up to 16320B");
        }
        let Some(zrwa) = &zone.zrwa else { return Ok(()) };
        nonzero("zone.zrwa.size", zrwa.size.0)?;
        nonzero("zone.zrwa.zones", zrwa.zones.into())?;
        multiple("zone.zrwa.granularity", zrwa.granularity, "`lba`", self.lba)?;
        multiple("zone.zrwa.size", zrwa.size, "`zone.zrwa.granularity`", zrwa.granularity)?;
        if zrwa.size > zone.capacity {
            return out_of_range("zone.zrwa.size", zrwa.size, format!("at most `zone.capacity` ({})", zone.capacity));
        }
        if !self.buffer.as_ref().is_some_and(|buffer| buffer.power_loss_protected) {
            return conflict(
                "zone.zrwa",
                "given",
                "there is no buffer that survives a power cut to hold the areas",
                "add `[buffer]` with `power_loss_protected = true`",
            );
        }
        Ok(())
    }

    /// Units that the buffer has.
    fn buffer_units(&self, program: ByteSize) -> Result<u32, ZonedError> {
        let Some(buffer) = &self.buffer else { return Ok(0) };
        let units = multiple("buffer.size", buffer.size, "the program unit", program)?;
        let Some(active) = self.zone.max_active else {
            return conflict(
                "zone.max_active",
                "not given",
                "every active zone may hold a unit of the buffer",
                "set it, or remove `[buffer]`",
            );
        };
        let least = u64::from(active).saturating_mul(self.namespaces.len() as u64) + 1;
        if units < least || units > MAX_BUFFER_UNITS {
            let bytes = |units: u64| ByteSize(units.saturating_mul(program.0));
            let allowed = format!(
                "from {} (a program unit for each active zone of each namespace, and one) to {}",
                bytes(least),
                bytes(MAX_BUFFER_UNITS)
            );
            return out_of_range("buffer.size", buffer.size, allowed);
        }
        Ok(units as u32)
    }

    /// Whether the designs go together.
    fn check_designs(&self) -> Result<(), ZonedError> {
        let management = &self.management;
        let on_demand = management.mapping == MappingDesign::OnDemand;
        if management.reset == ResetDesign::Lazy && !on_demand {
            return conflict(
                "management.reset",
                "\"lazy\"",
                "the zone must get other flash at its next write, which `management.mapping = \"static\"` rules out",
                "set `management.mapping = \"on-demand\"`",
            );
        }
        if management.reset == ResetDesign::Measured {
            if management.reset_law.is_none() {
                return conflict(
                    "management.reset",
                    "\"measured\"",
                    "there is no law of its time",
                    "add `[management.reset_law]`",
                );
            }
            if management.erase_suspend {
                return conflict(
                    "management.erase_suspend",
                    "true",
                    "the erases of `management.reset = \"measured\"` follow its law",
                    "remove it, or choose another reset",
                );
            }
        }
        if let Some(journal) = management.finish_law.as_ref().and_then(|law| law.journal.as_ref())
            && !(0.0..=1.0).contains(&journal.share)
        {
            return out_of_range("management.finish_law.journal.share", journal.share, "0 to 1");
        }
        if let Some(law) = &management.reset_law {
            nonzero("management.reset_law.erasing_arrays", law.erasing_arrays.into())?;
            if let Some(catch) = &law.catch
                && !(0.0..=1.0).contains(&catch.share)
            {
                return out_of_range("management.reset_law.catch.share", catch.share, "0 to 1");
            }
        }
        if management.reset == ResetDesign::Lazy && management.erase_suspend {
            return conflict(
                "management.erase_suspend",
                "true",
                "with `management.reset = \"lazy\"` the erase is part of a write, which waits for it",
                "remove it, or choose another reset",
            );
        }
        let erases_give_way = management.erase_suspend || management.reset == ResetDesign::Background;
        if erases_give_way && self.suspend.is_none() {
            let key = if management.erase_suspend { "management.erase_suspend" } else { "management.reset" };
            let value = if management.erase_suspend { "true" } else { "\"background\"" };
            return conflict(key, value, "erases cannot be suspended here", "add `[suspend]`");
        }
        if self.geometry.spare_zones > 0 && !on_demand {
            return conflict(
                "geometry.spare_zones",
                self.geometry.spare_zones,
                "`management.mapping = \"static\"` never uses spare flash",
                "set `management.mapping = \"on-demand\"` or remove it",
            );
        }
        if management.finish == FinishDesign::Measured && self.buffer.is_none() {
            return conflict(
                "management.finish",
                "\"measured\"",
                "there is no buffer whose units padding and writers take in turns",
                "add `[buffer]`, or choose `\"chunked\"`",
            );
        }
        if management.append == AppendTiming::AtZoneStart && self.buffer.is_some() {
            return conflict(
                "management.append",
                "\"at-zone-start\"",
                "a buffered append waits for no page",
                "remove it, or remove `[buffer]`",
            );
        }
        if management.finish == FinishDesign::Chunked {
            multiple("management.finish_chunk", management.finish_chunk, "`geometry.page`", self.geometry.page)?;
        }
        if self.stripe.order == super::StripeOrder::LeastBusy && self.buffer.is_none() {
            return conflict(
                "stripe.order",
                "\"least-busy\"",
                "without a buffer each part of a page is a program of its own, on the array the page has",
                "set \"channel-first\" or \"way-first\", or add `[buffer]`",
            );
        }
        if management.idle_after == Nanos::ZERO && management.reset == ResetDesign::Background {
            return Err(ZonedError::Zero { key: "management.idle_after" });
        }
        Ok(())
    }
}
