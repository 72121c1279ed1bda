//! Clean blocks and node headers in memory, within a budget of bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::block::Block;
use crate::node::Node;
use crate::pointer::BlockPointer;

/// What is cached.
#[derive(Clone)]
pub(crate) enum Cached {
    Block(Arc<Block>),
    Node(Arc<Node>),
}

impl Cached {
    /// Bytes it takes, with its place in the cache.
    fn bytes(&self) -> usize {
        160 + match self {
            Self::Block(block) => block.raw().len(),
            Self::Node(node) => node.memory_bytes(),
        }
    }
}

/// A place on the storage has one content for each generation.
type Name = (u64, u64);

struct Slot {
    name: Name,
    content: Cached,
    bytes: usize,
    used: bool,
}

/// One shard: a clock over its slots.
#[derive(Default)]
struct Shard {
    index: HashMap<Name, usize>,
    slots: Vec<Slot>,
    hand: usize,
    bytes: usize,
    hits: u64,
    misses: u64,
}

impl Shard {
    fn remove(&mut self, at: usize) {
        let gone = self.slots.swap_remove(at);
        self.index.remove(&gone.name);
        self.bytes -= gone.bytes;
        if let Some(moved) = self.slots.get(at) {
            self.index.insert(moved.name, at);
        }
    }

    /// Evicts until the budget holds: each slot that was used since the hand last passed gets another round.
    fn evict(&mut self, budget_bytes: usize) {
        while self.bytes > budget_bytes {
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            match self.slots.get_mut(self.hand) {
                Some(slot) if slot.used => {
                    slot.used = false;
                    self.hand += 1;
                }
                Some(_) => self.remove(self.hand),
                None => return,
            }
        }
    }
}

const SHARDS: usize = 16;

/// The cache, shared by all threads.
pub(crate) struct Cache {
    shards: Vec<Mutex<Shard>>,
    budget_bytes: usize,
}

impl Cache {
    pub fn new(budget_bytes: usize) -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), budget_bytes: budget_bytes / SHARDS }
    }

    fn shard(&self, name: Name) -> MutexGuard<'_, Shard> {
        // Fibonacci hashing: neighbours on the storage go to different shards.
        let at = (name.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize % SHARDS;
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, pointer: &BlockPointer) -> Option<Cached> {
        let name = (pointer.start, pointer.birth);
        let mut guard = self.shard(name);
        let shard = &mut *guard;
        match shard.index.get(&name).and_then(|at| shard.slots.get_mut(*at)) {
            Some(slot) => {
                slot.used = true;
                shard.hits += 1;
                Some(slot.content.clone())
            }
            None => {
                shard.misses += 1;
                None
            }
        }
    }

    pub fn put(&self, pointer: &BlockPointer, content: Cached) {
        let name = (pointer.start, pointer.birth);
        let bytes = content.bytes();
        let mut shard = self.shard(name);
        if let Some(at) = shard.index.get(&name).copied() {
            shard.remove(at);
        }
        if bytes > self.budget_bytes {
            return;
        }
        let at = shard.slots.len();
        shard.index.insert(name, at);
        shard.slots.push(Slot { name, content, bytes, used: false });
        shard.bytes += bytes;
        shard.evict(self.budget_bytes);
    }

    /// Bytes held, hits and misses.
    pub fn counters(&self) -> (u64, u64, u64) {
        self.shards.iter().fold((0, 0, 0), |sum, shard| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            (sum.0 + shard.bytes as u64, sum.1 + shard.hits, sum.2 + shard.misses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BlockBuilder;
    use crate::message::Message;
    use crate::pointer::Codec;
    use std::borrow::Cow;

    #[test]
    fn the_budget_holds_and_what_is_used_stays() {
        let cache = Cache::new(SHARDS * 10_000);
        let pointer =
            |start| BlockPointer { start, stored_bytes: 1, raw_bytes: 1, codec: Codec::Plain, birth: 1, checksum: 0 };
        let block = |number: u64| {
            let mut builder = BlockBuilder::default();
            builder.push(&number.to_le_bytes(), &Message::Insert(Cow::Owned(vec![0; 1000])));
            Arc::new(builder.finish())
        };
        cache.put(&pointer(0), Cached::Block(block(0)));
        for start in 1..2000 {
            cache.put(&pointer(start), Cached::Block(block(start)));
            let Some(Cached::Block(found)) = cache.get(&pointer(0)) else { panic!("used and evicted") };
            assert_eq!(found.key(0), 0u64.to_le_bytes());
            assert!(cache.counters().0 <= SHARDS as u64 * 10_000);
        }
        let kept = (1..2000).filter(|start| cache.get(&pointer(*start)).is_some()).count();
        assert!((80..160).contains(&kept), "{kept} blocks of 1.2 kB in 160 kB");
    }
}
