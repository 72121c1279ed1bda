//! Fixed places for bios and requests, named by index.

/// "No item": the end of a list.
pub(crate) const NIL: u32 = u32::MAX;

/// Items that keep their index until released. A released place keeps its
/// stale value until it is taken again, so nothing is moved or freed per item.
pub(crate) struct Slab<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }

    /// Puts `item` in a free place and returns its index.
    pub(crate) fn insert(&mut self, item: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.items[index as usize] = item;
            return index;
        }
        let index = u32::try_from(self.items.len()).unwrap_or(NIL);
        assert!(index != NIL, "more than 2^32 - 2 items at once");
        self.items.push(item);
        index
    }

    /// Frees a place; its index must not be used again.
    pub(crate) fn release(&mut self, index: u32) {
        debug_assert!(self.free.len() > 64 || !self.free.contains(&index), "place {index} released twice");
        self.free.push(index);
    }

    /// Every place ever used, live or stale.
    pub(crate) fn places(&self) -> u32 {
        self.items.len() as u32
    }

    /// Items in use.
    pub(crate) fn live(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.items[index as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.items[index as usize]
    }
}
