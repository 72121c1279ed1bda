//! A lock held across waits.

use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};

use super::semaphore::{Permit, Semaphore};

/// A lock that a task may hold while it waits for other things; handed over in
/// the order asked for, as the kernel's `struct mutex` with its hand-off does.
pub struct Mutex<T> {
    turn: Semaphore,
    value: RefCell<T>,
}

/// The lock, held; dropping it hands it to the next.
pub struct MutexGuard<'a, T> {
    // Dropped in this order: the value is let go before the turn.
    value: RefMut<'a, T>,
    _turn: Permit,
}

impl<T> Mutex<T> {
    /// A free lock around `value`.
    pub fn new(value: T) -> Self {
        Self { turn: Semaphore::new(1), value: RefCell::new(value) }
    }

    /// Takes the lock when its turn comes.
    pub async fn lock(&self) -> MutexGuard<'_, T> {
        let turn = self.turn.acquire(1).await;
        MutexGuard { value: self.value.borrow_mut(), _turn: turn }
    }

    /// Takes the lock if it is free and nobody waits for it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let turn = self.turn.try_acquire(1)?;
        Some(MutexGuard { value: self.value.borrow_mut(), _turn: turn })
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
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
    fn one_at_a_time_in_order() {
        let mut executor = Executor::new_virtual();
        let lock = Rc::new(Mutex::new(Vec::new()));
        for i in 0..5_u64 {
            let (lock, handle) = (lock.clone(), executor.handle());
            executor.handle().spawn(async move {
                let mut guard = lock.lock().await;
                handle.sleep(Nanos(10)).await;
                guard.push((i, handle.now().0));
            });
        }
        executor.run_until(Nanos(15));
        assert!(lock.try_lock().is_none());
        assert_eq!(executor.run(), 0);
        assert_eq!(*lock.try_lock().unwrap(), [(0, 10), (1, 20), (2, 30), (3, 40), (4, 50)]);
    }

    #[test]
    fn an_aborted_holder_lets_go() {
        let mut executor = Executor::new_virtual();
        let lock = Rc::new(Mutex::new(()));
        let held = lock.clone();
        let holder = executor.handle().spawn(async move {
            let _guard = held.lock().await;
            std::future::pending::<()>().await;
        });
        executor.run();
        assert!(lock.try_lock().is_none());
        holder.abort();
        assert!(lock.try_lock().is_some());
    }
}
