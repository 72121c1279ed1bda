//! Which operations a job does, how long they are, and how much of the device they cover.

/// `rw`: which operations, in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// fio's name.
    pub name: &'static str,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it trims.
    pub trims: bool,
    /// Whether offsets are random.
    pub random: bool,
}

impl Pattern {
    /// Every pattern, by fio's names.
    pub const ALL: [Self; 10] = [
        Self::new("read", [true, false, false], false),
        Self::new("write", [false, true, false], false),
        Self::new("trim", [false, false, true], false),
        Self::new("randread", [true, false, false], true),
        Self::new("randwrite", [false, true, false], true),
        Self::new("randtrim", [false, false, true], true),
        Self::new("rw", [true, true, false], false),
        Self::new("randrw", [true, true, false], true),
        Self::new("trimwrite", [false, true, true], false),
        Self::new("randtrimwrite", [false, true, true], true),
    ];

    const fn new(name: &'static str, [reads, writes, trims]: [bool; 3], random: bool) -> Self {
        Self { name, reads, writes, trims, random }
    }

    /// Whether each block is trimmed and then written.
    pub fn is_trim_write(self) -> bool {
        self.trims && self.writes
    }
}

/// `rw_sequencer`: what stands between two random offsets of `randread:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequencer {
    /// The blocks after the random one.
    Sequential,
    /// The same block again.
    Identical,
}

/// Lengths of a direction's I/Os.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockSizes {
    /// `bs`, in bytes.
    Fixed(u64),
    /// `bsrange`: multiples of the smallest, evenly likely, in bytes.
    Range(u64, u64),
    /// `bssplit`: bytes and percent; the percents sum to 100.
    Split(Vec<(u64, u8)>),
}

impl BlockSizes {
    /// The smallest length in bytes.
    pub fn min(&self) -> u64 {
        match self {
            Self::Fixed(bytes) | Self::Range(bytes, _) => *bytes,
            Self::Split(parts) => parts.iter().map(|part| part.0).min().unwrap_or(0),
        }
    }

    /// The largest length in bytes.
    pub fn max(&self) -> u64 {
        match self {
            Self::Fixed(bytes) | Self::Range(_, bytes) => *bytes,
            Self::Split(parts) => parts.iter().map(|part| part.0).max().unwrap_or(0),
        }
    }
}

/// A size in bytes, in parts of the device or in zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Bytes.
    Bytes(u64),
    /// Percent of the device (of the region, for `io_size`).
    Percent(u8),
    /// Zones.
    Zones(u32),
}

impl Extent {
    /// In bytes, where the whole is `whole` bytes and a zone, if there are any,
    /// `zone_bytes`.
    pub fn of(self, whole: u64, zone_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (u128::from(whole) * u128::from(percent) / 100) as u64,
            Self::Zones(zones) => u64::from(zones).saturating_mul(zone_bytes),
        }
    }
}
