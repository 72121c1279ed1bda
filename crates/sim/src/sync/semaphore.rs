//! A counting semaphore.

use super::permits::{Closed, Permits};

/// A number of permits that tasks take and give back, first come first served:
/// a large request at the front is not overtaken by small ones behind it.
/// Clones are the same semaphore.
#[derive(Clone)]
pub struct Semaphore {
    permits: Permits,
}

/// Permits taken; dropping it gives them back.
pub struct Permit {
    permits: Permits,
    count: u32,
}

impl Semaphore {
    /// A semaphore with `count` permits.
    pub fn new(count: u32) -> Self {
        Self { permits: Permits::new(count) }
    }

    /// Takes `count` permits, waiting for its turn. More permits than there
    /// are in all never come.
    pub async fn acquire(&self, count: u32) -> Permit {
        match self.permits.acquire(count).await {
            Ok(()) => Permit { permits: self.permits.clone(), count },
            Err(Closed) => unreachable!("a semaphore is never closed"),
        }
    }

    /// Takes `count` permits if they are there and nobody waits.
    pub fn try_acquire(&self, count: u32) -> Option<Permit> {
        self.permits.try_acquire(count).then(|| Permit { permits: self.permits.clone(), count })
    }

    /// Permits not taken.
    pub fn available(&self) -> u32 {
        self.permits.available()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.release(self.count);
    }
}
