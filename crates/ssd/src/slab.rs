//! Items with stable small indices, and queues of them that allocate nothing.

/// "No item".
pub(crate) const NONE: u32 = u32::MAX;

/// A pool of items. Freed places are used again, first freed first: what came
/// and went together comes together again, side by side in memory.
pub(crate) struct Slab<T> {
    nodes: Vec<Node<T>>,
    /// First and last free place.
    free: u32,
    last_free: u32,
    live: u32,
}

struct Node<T> {
    /// Next item of the queue it is in, or next free place.
    next: u32,
    item: T,
}

impl<T> Slab<T> {
    pub fn with_capacity(capacity: usize) -> Self {
        Self { nodes: Vec::with_capacity(capacity), free: NONE, last_free: NONE, live: 0 }
    }

    pub fn insert(&mut self, item: T) -> u32 {
        self.live += 1;
        if self.free != NONE {
            let id = self.free;
            let node = &mut self.nodes[id as usize];
            self.free = node.next;
            *node = Node { next: NONE, item };
            return id;
        }
        self.nodes.push(Node { next: NONE, item });
        (self.nodes.len() - 1) as u32
    }

    /// Frees the place; the item stays there until the place is used again.
    pub fn remove(&mut self, id: u32) {
        self.live -= 1;
        self.nodes[id as usize].next = NONE;
        if self.free == NONE {
            self.free = id;
        } else {
            self.nodes[self.last_free as usize].next = id;
        }
        self.last_free = id;
    }

    /// Places used so far, free ones included.
    pub fn places(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Items there are.
    pub fn len(&self) -> u32 {
        self.live
    }

    /// Forgets every item.
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.free = NONE;
        self.live = 0;
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, id: u32) -> &T {
        &self.nodes[id as usize].item
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.nodes[id as usize].item
    }
}

/// A first-in first-out queue of items of one slab. An item is in at most one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
}

impl Default for Fifo {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl Fifo {
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub fn front(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub fn push_back<T>(&mut self, slab: &mut Slab<T>, id: u32) {
        slab.nodes[id as usize].next = NONE;
        if self.head == NONE {
            self.head = id;
        } else {
            slab.nodes[self.tail as usize].next = id;
        }
        self.tail = id;
    }

    pub fn pop_front<T>(&mut self, slab: &mut Slab<T>) -> Option<u32> {
        let id = self.front()?;
        self.head = slab.nodes[id as usize].next;
        Some(id)
    }

    /// The first `limit` items for which `wanted` holds: the first of them.
    pub fn find<T>(&self, slab: &Slab<T>, limit: u32, wanted: impl Fn(&T) -> bool) -> Option<u32> {
        let mut at = self.head;
        for _ in 0..limit {
            let node = slab.nodes.get(at as usize)?;
            if wanted(&node.item) {
                return Some(at);
            }
            at = node.next;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_reused_and_queues_keep_order() {
        let mut slab = Slab::with_capacity(4);
        let ids: Vec<_> = (0..4).map(|value| slab.insert(value)).collect();
        slab.remove(ids[1]);
        assert_eq!(slab.insert(9), ids[1]);
        let mut queue = Fifo::default();
        for id in [ids[2], ids[1], ids[0]] {
            queue.push_back(&mut slab, id);
        }
        assert_eq!(queue.find(&slab, 3, |value| *value == 9), Some(ids[1]));
        assert_eq!(queue.find(&slab, 1, |value| *value == 9), None);
        assert_eq!((queue.pop_front(&mut slab), slab.len()), (Some(ids[2]), 4));
        assert_eq!(queue.pop_front(&mut slab), Some(ids[1]));
        assert_eq!(queue.pop_front(&mut slab), Some(ids[0]));
        assert!(queue.pop_front(&mut slab).is_none() && queue.is_empty());
    }
}
