//! Clean blocks and node headers in memory, within a budget of bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;

use crate::bytes::block::Block;
use crate::bytes::page::Page;
use crate::bytes::pointer::BlockPointer;
use crate::nodes::node::Node;

/// What is cached.
#[derive(Clone)]
pub(crate) enum Cached {
    Block(Arc<Block>),
    Node(Arc<Node>),
    Page(Arc<Page>),
    Value(Arc<[u8]>),
}

impl Cached {
    /// Bytes it takes, with its place in the cache.
    fn bytes(&self) -> usize {
        160 + match self {
            Self::Block(block) => block.raw().len(),
            Self::Node(node) => node.memory_bytes(),
            Self::Page(page) => page.memory_bytes(),
            Self::Value(value) => value.len(),
        }
    }
}

/// As [`BlockPointer::name`] gives it.
pub(crate) type Name = (u64, u64, u32);

struct Slot {
    name: Name,
    content: Cached,
    bytes: usize,
    used: bool,
}

/// One shard: a clock over its slots.
#[derive(Default)]
struct Shard {
    /// By places and generations, which nobody chooses.
    index: HashMap<Name, usize, FixedState>,
    /// Each stays at its place, so that the hand comes to it once a round.
    slots: Vec<Option<Slot>>,
    vacant: Vec<usize>,
    hand: usize,
    bytes: usize,
    hits: u64,
    misses: u64,
}

impl Shard {
    fn remove(&mut self, at: usize) {
        if let Some(gone) = self.slots.get_mut(at).and_then(Option::take) {
            self.index.remove(&gone.name);
            self.bytes -= gone.bytes;
            self.vacant.push(at);
        }
    }

    /// Evicts until there is room: each slot that was used since the hand last passed gets another round.
    fn make_room(&mut self, bytes: usize, budget_bytes: usize) {
        while self.bytes + bytes > budget_bytes && !self.index.is_empty() {
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            match self.slots.get_mut(self.hand) {
                Some(Some(slot)) if slot.used => slot.used = false,
                _ => self.remove(self.hand),
            }
            self.hand += 1;
        }
    }

    /// Puts something where the hand has just been, as far as there is a place, so that it gets a whole round.
    fn add(&mut self, slot: Slot) {
        let at = match self.vacant.pop() {
            Some(at) => at,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        };
        self.index.insert(slot.name, at);
        self.bytes += slot.bytes;
        if let Some(place) = self.slots.get_mut(at) {
            *place = Some(slot);
        }
    }
}

const SHARDS: usize = 16;
/// Bytes of one, where there are several: room for many headers of nodes above leaves, which take a quarter of a MiB each.
const SHARD_BYTES_MIN: usize = 8 << 20;

/// The cache, shared by all threads.
pub(crate) struct Cache {
    shards: Vec<Mutex<Shard>>,
    budget_bytes: usize,
}

impl Cache {
    pub fn new(budget_bytes: usize) -> Self {
        let shards = (budget_bytes / SHARD_BYTES_MIN).clamp(1, SHARDS);
        Self { shards: (0..shards).map(|_| Mutex::default()).collect(), budget_bytes: budget_bytes / shards }
    }

    fn shard(&self, name: Name) -> MutexGuard<'_, Shard> {
        // Fibonacci hashing: neighbours on the storage go to different shards.
        let hash = name.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        // By its upper bits, so that each of any number of shards has as many.
        let at = ((hash * self.shards.len() as u64) >> 32) as usize;
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, pointer: &BlockPointer) -> Option<Cached> {
        self.get_counting(pointer, true)
    }

    /// The same, but that it is not there is no miss: whoever asks goes on to look for a part of it.
    pub fn get_or_part(&self, pointer: &BlockPointer) -> Option<Cached> {
        self.get_counting(pointer, false)
    }

    fn get_counting(&self, pointer: &BlockPointer, count_miss: bool) -> Option<Cached> {
        let name = pointer.name();
        let mut guard = self.shard(name);
        let shard = &mut *guard;
        match shard.index.get(&name).and_then(|at| shard.slots.get_mut(*at)) {
            Some(Some(slot)) => {
                slot.used = true;
                shard.hits += 1;
                Some(slot.content.clone())
            }
            _ => {
                shard.misses += u64::from(count_miss);
                None
            }
        }
    }

    /// What is there, without a mark that it was of use.
    pub fn peek(&self, pointer: &BlockPointer) -> Option<Cached> {
        let name = pointer.name();
        let shard = self.shard(name);
        let slot = shard.index.get(&name).and_then(|at| shard.slots.get(*at)?.as_ref());
        slot.map(|slot| slot.content.clone())
    }

    /// Bytes that it may hold.
    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes * self.shards.len()
    }

    pub fn put(&self, pointer: &BlockPointer, content: Cached) {
        self.put_as(pointer, content, false);
    }

    /// Puts something there that somebody is about to use: it stays until then, and not less long than what was used.
    pub fn put_ahead(&self, pointer: &BlockPointer, content: Cached) {
        self.put_as(pointer, content, true);
    }

    fn put_as(&self, pointer: &BlockPointer, content: Cached, used: bool) {
        let name = pointer.name();
        let bytes = content.bytes();
        let mut shard = self.shard(name);
        if let Some(at) = shard.index.get(&name).copied() {
            shard.remove(at);
        }
        if bytes > self.budget_bytes {
            return;
        }
        shard.make_room(bytes, self.budget_bytes);
        shard.add(Slot { name, content, bytes, used });
    }

    /// Forgets what nobody will ask for again.
    pub fn remove(&self, pointer: &BlockPointer) {
        let name = pointer.name();
        let mut shard = self.shard(name);
        if let Some(at) = shard.index.get(&name).copied() {
            shard.remove(at);
        }
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
    use crate::bytes::block::BlockBuilder;
    use crate::bytes::message::Message;
    use crate::bytes::pointer::Codec;
    use proptest::prelude::*;
    use std::borrow::Cow;
    use std::collections::VecDeque;

    #[test]
    fn the_budget_holds_and_what_is_used_stays() {
        let cache = Cache::new(160_000);
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
            assert!(cache.counters().0 <= 160_000);
        }
        let kept = (1..2000).filter(|start| cache.get(&pointer(*start)).is_some()).count();
        assert!((80..160).contains(&kept), "{kept} blocks of 1.2 kB in 160 kB");
        for start in 0..2000 {
            cache.remove(&pointer(start));
        }
        assert_eq!(cache.counters().0, 0);
    }

    #[test]
    fn large_headers_stay_in_a_small_cache() {
        let pointer =
            |start| BlockPointer { start, stored_bytes: 1, raw_bytes: 1, codec: Codec::Plain, birth: 1, checksum: 0 };
        let value = |bytes: usize| Cached::Value(vec![0; bytes].into());
        let cache = Cache::new(10 << 20);
        let mut lost = 0;
        for get in 0..50_000 {
            // One of 24 headers of a quarter of a MiB, and then a page.
            let header = pointer(get * 7 % 24);
            if cache.get(&header).is_none() {
                lost += u64::from(get >= 24);
                cache.put(&header, value(256 << 10));
            }
            cache.put(&pointer(1000 + get), value(4 << 10));
        }
        assert_eq!(lost, 0, "headers that were read again");
        assert!(cache.counters().0 <= 10 << 20);
    }

    #[test]
    fn each_shard_has_as_many() {
        for shards in 1..=SHARDS {
            let cache = Cache::new(shards * SHARD_BYTES_MIN);
            let mut counts = vec![0; shards];
            for start in 0..16_000 {
                let own = cache.shard((start * 3, 0, 1));
                let is_it = |shard: &Mutex<Shard>| shard.try_lock().is_err();
                counts[cache.shards.iter().position(is_it).unwrap()] += 1;
                drop(own);
            }
            let mean = 16_000 / shards;
            assert!(
                counts.iter().all(|count| (mean * 9 / 10..=mean * 11 / 10).contains(count)),
                "{shards}: {counts:?}"
            );
        }
    }

    proptest! {
        /// What is not used leaves in the order in which it came, as long as all are as large.
        #[test]
        fn the_oldest_leaves_first(starts in prop::collection::vec(0u64..200, 1..400)) {
            let mut shard = Shard::default();
            let mut kept: VecDeque<u64> = VecDeque::new();
            for start in starts {
                if kept.contains(&start) {
                    continue;
                }
                let content = Cached::Node(Arc::new(Node::Leaf(crate::nodes::run::Run::default())));
                shard.make_room(10, 100);
                shard.add(Slot { name: (start, 0, 1), content, bytes: 10, used: false });
                kept.push_back(start);
                if kept.len() > 10 {
                    kept.pop_front();
                }
                prop_assert!(kept.iter().all(|start| shard.index.contains_key(&(*start, 0, 1))));
                prop_assert_eq!(shard.index.len(), kept.len());
                prop_assert!(shard.slots.len() <= 10);
            }
        }
    }
}
