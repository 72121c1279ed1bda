//! A checked configuration in the engine's own numbers.

/// A configuration in the engine's own numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZonedLayout {
    /// Logical block size in bytes.
    pub lba_bytes: u64,
    /// Zone size in logical blocks.
    pub zone_blocks: u64,
    /// Zone capacity in logical blocks.
    pub capacity_blocks: u64,
    /// First zone of each namespace, counted through the device, and the end.
    pub namespace_zones: Vec<u32>,
    /// Physical zones.
    pub physical_zones: u32,
    /// Page size in bytes.
    pub page_bytes: u64,
    /// Bytes of one program operation.
    pub program_bytes: u64,
    /// Bytes that lie on one array before the next gets its turn.
    pub stripe_bytes: u64,
    /// Channels.
    pub channels: u32,
    /// Dies on each channel.
    pub ways: u32,
    /// Independent arrays of a die.
    pub planes: u32,
    /// Channels of one zone.
    pub zone_channels: u32,
    /// Ways of one zone.
    pub zone_ways: u32,
    /// Blocks of one zone on each of its arrays.
    pub rows: u32,
    /// Bytes of one row of blocks, over all arrays of a zone.
    pub row_bytes: u64,
    /// Units of the write buffer; 0: none.
    pub buffer_units: u32,
}

impl ZonedLayout {
    /// Arrays of the device.
    pub fn arrays(&self) -> u32 {
        self.channels * self.ways * self.planes
    }
    /// Arrays of one zone.
    pub fn zone_arrays(&self) -> u32 {
        self.zone_channels * self.zone_ways * self.planes
    }
    /// Zones of all namespaces.
    pub fn zones(&self) -> u32 {
        self.namespace_zones[self.namespace_zones.len() - 1]
    }
}
