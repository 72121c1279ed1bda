//! The description of a flash card, as a device profile writes it.

use serde::{Deserialize, Serialize};
use units::{ByteSize, Nanos};

/// A flash card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardConfig {
    /// Model name.
    pub model: String,
    /// Logical block size: 512 B or 4 KiB.
    #[serde(default = "default_lba")]
    pub lba: ByteSize,
    /// Capacity; rounded down to whole logical blocks.
    pub capacity: ByteSize,
    /// The flash.
    pub flash: CardFlash,
    /// How addresses are mapped to it.
    pub mapping: CardMapping,
    /// The controller.
    pub controller: CardController,
    /// The bus to the host.
    pub bus: CardBus,
}

/// The flash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardFlash {
    /// What one program operation writes: a page on every plane.
    pub stripe: ByteSize,
    /// Array read of a stripe (tR).
    pub read: Nanos,
    /// Array program of a stripe (tPROG).
    pub program: Nanos,
    /// Erase of an allocation unit (tBERS).
    pub erase: Nanos,
}

/// How addresses are mapped to the flash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardMapping {
    /// Addresses whose map is loaded and stored together (AU_SIZE of the SD
    /// status register).
    pub allocation_unit: ByteSize,
    /// Allocation units open for writing at a time.
    pub open_units: u32,
}

/// The controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardController {
    /// Command, response and firmware, for every command.
    pub command_overhead: Nanos,
}

/// The bus to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardBus {
    /// Effective payload bytes per second.
    pub bandwidth: ByteSize,
    /// Largest transfer of one command.
    pub max_transfer: ByteSize,
}

/// Why a configuration describes no card.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{key}` is {value}; it must be {allowed}")]
pub struct CardError {
    /// The key, with its table.
    pub key: &'static str,
    /// What was given.
    pub value: String,
    /// What would do.
    pub allowed: &'static str,
}

fn default_lba() -> ByteSize {
    ByteSize(512)
}

impl CardConfig {
    /// Whether the values describe a card; the first that does not is named.
    pub fn check(&self) -> Result<(), CardError> {
        let fail = |key, value: &dyn ToString, allowed| Err(CardError { key, value: value.to_string(), allowed });
        let (stripe, unit) = (self.flash.stripe.0, self.mapping.allocation_unit.0);
        if self.lba.0 != 512 && self.lba.0 != 4096 {
            return fail("lba", &self.lba, "512 or 4k");
        }
        if self.capacity.0 < self.lba.0 {
            return fail("capacity", &self.capacity, "at least one block");
        }
        if stripe == 0 || !stripe.is_multiple_of(self.lba.0) || stripe > 1 << 30 {
            return fail("flash.stripe", &self.flash.stripe, "a multiple of `lba`, up to 1GiB");
        }
        if unit == 0 || !unit.is_multiple_of(stripe) || unit > 1 << 30 {
            return fail(
                "mapping.allocation_unit",
                &self.mapping.allocation_unit,
                "a multiple of `flash.stripe`, up to 1GiB",
            );
        }
        if !(1..=1024).contains(&self.mapping.open_units) {
            return fail("mapping.open_units", &self.mapping.open_units, "1 to 1024");
        }
        if self.bus.bandwidth.0 == 0 {
            return fail("bus.bandwidth", &self.bus.bandwidth, "at least 1");
        }
        if self.bus.max_transfer.0 < 4096 || self.bus.max_transfer.0 > 1 << 30 {
            return fail("bus.max_transfer", &self.bus.max_transfer, "4KiB to 1GiB");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bad_value_is_named() {
        let good = CardConfig {
            model: "card".to_owned(),
            lba: ByteSize(512),
            capacity: ByteSize(1 << 30),
            flash: CardFlash {
                stripe: ByteSize(32 << 10),
                read: Nanos::from_micros(80),
                program: Nanos::from_micros(400),
                erase: Nanos::from_millis(5),
            },
            mapping: CardMapping { allocation_unit: ByteSize(4 << 20), open_units: 6 },
            controller: CardController { command_overhead: Nanos::from_micros(200) },
            bus: CardBus { bandwidth: ByteSize(95_000_000), max_transfer: ByteSize(512 << 10) },
        };
        assert_eq!(good.check(), Ok(()));
        type Spoil = fn(&mut CardConfig);
        let broken: [(&str, Spoil); 6] = [
            ("lba", |card| card.lba = ByteSize(520)),
            ("flash.stripe", |card| card.flash.stripe = ByteSize(1000)),
            ("mapping.allocation_unit", |card| card.mapping.allocation_unit = ByteSize(33 << 10)),
            ("mapping.open_units", |card| card.mapping.open_units = 0),
            ("bus.bandwidth", |card| card.bus.bandwidth = ByteSize(0)),
            ("bus.max_transfer", |card| card.bus.max_transfer = ByteSize(0)),
        ];
        for (key, spoil) in broken {
            let mut card = good.clone();
            spoil(&mut card);
            assert_eq!(card.check().map_err(|error| error.key), Err(key));
        }
    }
}
