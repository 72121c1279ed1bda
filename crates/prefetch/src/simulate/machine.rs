//! The machine of a simulation.

use crate::access::PAGE_BYTES;
use crate::policy::Host;

/// A device, memory, and the kernel's readahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// From a request's start to its first byte.
    pub latency_ns: u64,
    /// Bytes of all requests share this.
    pub bandwidth_bytes_per_second: u64,
    /// Requests that the device works on at once; more wait in order.
    pub queue_depth: usize,
    /// Of them, by prefetching.
    pub prefetch_depth: usize,
    /// The page cache.
    pub memory_bytes: u64,
    /// What may be loaded and not read yet.
    pub budget_bytes: u64,
    /// `read_ahead_kb`: the kernel's largest window, and the most that one request to load loads.
    pub readahead_bytes: u64,
    /// What a read costs the processor.
    pub read_ns: u64,
    /// From a read that asks for something to whoever carries it out: the kernel has begun to read ahead by then.
    pub executor_ns: u64,
}

impl Machine {
    /// A flash drive of middling speed and Linux's default readahead: 80 us, 3 GB/s, 64 requests at once, 1 GiB of memory, half of it
    /// to be used.
    pub const FLASH: Self = Self {
        latency_ns: 80_000,
        bandwidth_bytes_per_second: 3_000_000_000,
        queue_depth: 64,
        prefetch_depth: 32,
        memory_bytes: 1 << 30,
        budget_bytes: 1 << 29,
        readahead_bytes: 128 << 10,
        read_ns: 1_000,
        executor_ns: 5_000,
    };

    /// What a policy is told, when so much of the budget is free for windows, and for what is loaded whole.
    pub(super) fn host(&self, unread_bytes: u64, free_bytes: u64, evicts: bool) -> Host {
        Host {
            bandwidth_bytes_per_second: self.bandwidth_bytes_per_second,
            latency_ns: self.latency_ns.saturating_add(self.transfer_ns(1)),
            readahead_bytes: self.readahead_bytes,
            memory_bytes: if evicts { self.budget_bytes } else { unread_bytes },
            free_bytes,
        }
    }

    /// Most pages that prefetching has at the device: twice the bandwidth-delay product keeps it busy, and more would only make others
    /// wait.
    pub(super) fn prefetch_pages(&self) -> u64 {
        let product = u128::from(self.bandwidth_bytes_per_second) * u128::from(self.latency_ns) / 1_000_000_000;
        (u64::try_from(product * 2).unwrap_or(u64::MAX) / PAGE_BYTES).max(2 * self.readahead_pages())
    }

    pub(super) fn readahead_pages(&self) -> u64 {
        (self.readahead_bytes / PAGE_BYTES).max(1)
    }

    pub(super) fn transfer_ns(&self, pages: u64) -> u64 {
        let bytes = u128::from(pages * PAGE_BYTES);
        u64::try_from(bytes * 1_000_000_000 / u128::from(self.bandwidth_bytes_per_second.max(1))).unwrap_or(u64::MAX)
    }
}
