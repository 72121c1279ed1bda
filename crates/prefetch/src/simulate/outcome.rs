//! What a simulation measured.

/// Who had a page loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The read that wanted it, or the kernel's window around that.
    Demand,
    /// The program's own advice.
    Program,
    /// The policy, or the oracle.
    Prefetch,
}

/// Sums of one simulation. Pages are counted each time they are loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// From the first step to the end of the last one.
    pub time_ns: u64,
    /// Reads, and touches of mappings.
    pub reads: u64,
    /// Of them, such that did not wait for the device.
    pub hits: u64,
    /// What the device read.
    pub device_bytes: u64,
    /// Requests to the device.
    pub requests: u64,
    /// Loaded by the policy.
    pub prefetched_pages: u64,
    /// Of them, read later.
    pub used_pages: u64,
    /// Of those, such that were still on their way when they were read.
    pub late_pages: u64,
    /// Of what was loaded by the policy, gone before it was read.
    pub evicted_pages: u64,
    /// Pages that a read found absent.
    pub missed_pages: u64,
}

impl Outcome {
    /// Loaded in vain.
    pub fn wasted_pages(&self) -> u64 {
        self.prefetched_pages - self.used_pages
    }

    /// Of what the policy loaded, the share that was read.
    pub fn accuracy(&self) -> f64 {
        share(self.used_pages, self.prefetched_pages)
    }

    /// Of what had to be loaded, the share that the policy loaded.
    pub fn coverage(&self) -> f64 {
        share(self.used_pages, self.used_pages + self.missed_pages)
    }

    /// Of what the policy loaded and was read, the share that was there in time.
    pub fn timeliness(&self) -> f64 {
        share(self.used_pages - self.late_pages, self.used_pages)
    }

    /// Of the time that the oracle saves, the share that this saves: 1 is as good as perfect foresight, below 0 is a loss. None if
    /// there is nothing to save.
    pub fn share_of_gain(&self, plain: &Self, oracle: &Self) -> Option<f64> {
        let gain = |other: &Self| plain.time_ns as f64 - other.time_ns as f64;
        // What is below one part in a hundred is order of events, no gain.
        (gain(oracle) > plain.time_ns as f64 / 100.0).then(|| gain(self) / gain(oracle))
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Something that happened to a range of a file, for a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It was read.
    Read {
        /// Which file.
        file: usize,
        /// When the read began.
        from_ns: u64,
        /// When it had all of its bytes.
        to_ns: u64,
        /// First byte.
        start_bytes: u64,
        /// Behind the last byte.
        end_bytes: u64,
        /// Whether it did not wait for the device.
        hit: bool,
    },
    /// It was loaded.
    Load {
        /// Which file.
        file: usize,
        /// When it was asked for.
        from_ns: u64,
        /// When it was there.
        to_ns: u64,
        /// First byte.
        start_bytes: u64,
        /// Behind the last byte.
        end_bytes: u64,
        /// By whom.
        origin: Origin,
    },
    /// It was in memory, as somebody who looked found.
    There {
        /// Which file.
        file: usize,
        /// From when on.
        from_ns: u64,
        /// Until when.
        to_ns: u64,
        /// First byte.
        start_bytes: u64,
        /// Behind the last byte.
        end_bytes: u64,
    },
    /// A page left memory.
    Leave {
        /// Which file.
        file: usize,
        /// When.
        at_ns: u64,
        /// First byte.
        start_bytes: u64,
        /// Behind the last byte.
        end_bytes: u64,
    },
}
