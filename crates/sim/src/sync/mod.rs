//! Waiting for other tasks of the same executor.
//!
//! Everything here is fair: tasks get their turn in the order in which they
//! began to wait, as with the kernel's own sleeping locks. A future dropped
//! before its end leaves its place in the queue, and passes on what it had been
//! given but not yet taken.

pub mod mpsc;
mod mutex;
mod notify;
mod oneshot;
mod permits;
mod rwlock;
mod semaphore;
mod wait;

pub use mutex::{Mutex, MutexGuard};
pub use notify::{Notified, Notify};
pub use oneshot::{Dropped, Receiver, Sender, oneshot};
pub use rwlock::{ReadGuard, RwLock, WriteGuard};
pub use semaphore::{Permit, Semaphore};
