//! A cache whose flushes do nothing.

use std::collections::VecDeque;

use super::Rule;
use super::pending::Pending;
use crate::log::Event;
use crate::write::LoggedWrite;

/// What a cheap drive may hold back.
const CACHE_BYTES: u64 = 8 << 20;

/// A drive that acknowledges flushes and FUA at once and keeps the newest writes in its cache whatever the host asks: a write is
/// durable only when newer ones have pushed it out.
#[derive(Clone, Debug)]
pub struct LyingCache {
    cache_bytes: u64,
    from: usize,
    pending: Pending,
    /// Completed writes in the cache, oldest first, with their lengths.
    cached: VecDeque<(usize, u64)>,
    held_bytes: u64,
}

impl LyingCache {
    /// That of a cheap drive.
    pub fn of_a_cheap_drive(from: usize) -> Self {
        Self::new(CACHE_BYTES, from)
    }

    /// That keeps the newest `cache_bytes` of what is written from this entry of the log on; what came before had the time to leave
    /// the cache.
    pub fn new(cache_bytes: u64, from: usize) -> Self {
        Self { cache_bytes, from, pending: Pending::default(), cached: VecDeque::new(), held_bytes: 0 }
    }
}

impl Rule for LyingCache {
    fn step(&mut self, index: usize, event: &Event, settled: &mut Vec<LoggedWrite>) -> bool {
        match event {
            Event::Write { id, offset_bytes, content, .. } => {
                self.pending.submit(index, *id, *offset_bytes, content);
                true
            }
            Event::Completed(id) => {
                let Some(entry) = self.pending.complete(index, *id) else { return false };
                if entry < self.from {
                    self.pending.settle(entry, settled);
                    return true;
                }
                let len_bytes = self.pending.len_bytes(entry);
                self.cached.push_back((entry, len_bytes));
                self.held_bytes += len_bytes;
                let before = settled.len();
                while self.held_bytes > self.cache_bytes
                    && let Some((oldest, len_bytes)) = self.cached.pop_front()
                {
                    self.held_bytes -= len_bytes;
                    self.pending.settle(oldest, settled);
                }
                settled.len() > before
            }
            _ => false,
        }
    }

    fn undecided(&self) -> Vec<&LoggedWrite> {
        self.pending.undecided()
    }
}
