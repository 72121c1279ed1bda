//! A lock for many readers or one writer.

use std::cell::{Ref, RefCell, RefMut};
use std::ops::{Deref, DerefMut};

use super::semaphore::{Permit, Semaphore};

/// A lock for many readers or one writer, handed over in the order asked for:
/// a waiting writer holds up the readers behind it, as in the kernel's
/// `struct rw_semaphore`.
pub struct RwLock<T> {
    turns: Semaphore,
    value: RefCell<T>,
}

/// Readers at a time; a writer takes all their turns.
const MAX_READERS: u32 = u32::MAX;

/// The lock, held for reading.
pub struct ReadGuard<'a, T> {
    // Dropped in this order: the value is let go before the turn.
    value: Ref<'a, T>,
    _turn: Permit,
}

/// The lock, held for writing.
pub struct WriteGuard<'a, T> {
    value: RefMut<'a, T>,
    _turn: Permit,
}

impl<T> RwLock<T> {
    /// A free lock around `value`.
    pub fn new(value: T) -> Self {
        Self { turns: Semaphore::new(MAX_READERS), value: RefCell::new(value) }
    }

    /// Takes the lock for reading when its turn comes.
    pub async fn read(&self) -> ReadGuard<'_, T> {
        let turn = self.turns.acquire(1).await;
        ReadGuard { value: self.value.borrow(), _turn: turn }
    }

    /// Takes the lock for writing when its turn comes.
    pub async fn write(&self) -> WriteGuard<'_, T> {
        let turn = self.turns.acquire(MAX_READERS).await;
        WriteGuard { value: self.value.borrow_mut(), _turn: turn }
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Executor;
    use std::rc::Rc;
    use units::Nanos;

    #[test]
    fn readers_share_and_a_writer_waits_its_turn() {
        let mut executor = Executor::new_virtual();
        let lock = Rc::new(RwLock::new(0));
        let log: Rc<RefCell<Vec<(char, u64)>>> = Rc::default();
        for kind in ['r', 'r', 'w', 'r', 'r', 'w'] {
            let (lock, log, handle) = (lock.clone(), log.clone(), executor.handle());
            executor.handle().spawn(async move {
                if kind == 'w' {
                    let mut guard = lock.write().await;
                    handle.sleep(Nanos(10)).await;
                    *guard += 1;
                } else {
                    let _guard = lock.read().await;
                    handle.sleep(Nanos(10)).await;
                }
                log.borrow_mut().push((kind, handle.now().0));
            });
        }
        assert_eq!(executor.run(), 0);
        assert_eq!(*log.borrow(), [('r', 10), ('r', 10), ('w', 20), ('r', 30), ('r', 30), ('w', 40)]);
        assert_eq!(executor.block_on(async { *lock.read().await }), 2);
    }
}
