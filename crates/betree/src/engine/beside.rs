//! A thread of the store's own that does what is owed, beside commits. It ends before the store is closed.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use super::Engine;
use crate::pacing::Pacing;

/// Bytes of work between two moments at which others may have the trees.
const STEP_BYTES: u64 = 256 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Call {
    #[default]
    None,
    Work,
    End,
}

/// How the thread is told that there is something to do.
#[derive(Default)]
pub(super) struct Bell {
    call: Mutex<Call>,
    rung: Condvar,
    /// Whether it was told already and has not looked since.
    is_rung: AtomicBool,
}

impl Bell {
    /// Says that something is owed.
    pub fn ring(&self) {
        if !self.is_rung.swap(true, Ordering::AcqRel) {
            self.call(Call::Work);
        }
    }

    fn call(&self, call: Call) {
        let mut waiting = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        if *waiting != Call::End {
            *waiting = call;
        }
        self.rung.notify_one();
    }

    /// Waits for the next call.
    fn wait(&self) -> Call {
        let waiting = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waiting =
            self.rung.wait_while(waiting, |call| *call == Call::None).unwrap_or_else(PoisonError::into_inner);
        self.is_rung.store(false, Ordering::Release);
        let call = *waiting;
        if call == Call::Work {
            *waiting = Call::None;
        }
        call
    }

    fn is_over(&self) -> bool {
        *self.call.lock().unwrap_or_else(PoisonError::into_inner) == Call::End
    }
}

/// A store with its thread, if it has one: what all handles refer to.
pub(crate) struct Shared {
    engine: Arc<Engine>,
    thread: Option<JoinHandle<()>>,
}

impl Shared {
    /// Where no thread can be had, commits do the work when there is twice as much as there should be.
    pub fn of(engine: Engine) -> Arc<Self> {
        let engine = Arc::new(engine);
        let beside = Arc::clone(&engine);
        let wanted = engine.options.pacing == Pacing::Beside && !engine.read_only;
        let thread = wanted.then(|| Builder::new().name("betree".to_owned()).spawn(move || work(&beside)).ok());
        Arc::new(Self { engine, thread: thread.flatten() })
    }
}

fn work(engine: &Engine) {
    while engine.bell.wait() != Call::End {
        // What fails stops the store, or is told to whoever commits next.
        while !engine.bell.is_over() && engine.work(STEP_BYTES).unwrap_or(false) {}
    }
}

impl Deref for Shared {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.engine.bell.call(Call::End);
        if let Some(thread) = self.thread.take() {
            // A panic in it was seen where it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use storage::Memory;

    use crate::{Batch, Database, Durability, Options, Pacing};

    fn options() -> Options {
        Options {
            memtable_bytes: 64 << 10,
            fresh_bytes: 256 << 10,
            log_bytes: 1 << 20,
            pacing: Pacing::Beside,
            ..Options::default()
        }
    }

    /// Nobody calls for work and nobody commits any more: what is due is done nevertheless.
    #[test]
    fn what_is_due_is_done_without_a_commit() {
        let database = Database::create(Memory::new(64 << 20), options(), 1).unwrap();
        let tree = database.tree("t").unwrap();
        // One commit, which does none of it.
        let mut batch = Batch::new();
        (0..500u32).for_each(|number| batch.insert(&tree, number.to_be_bytes(), [7; 100]));
        database.commit(&batch, Durability::None).unwrap();
        let began = Instant::now();
        while database.stats().memory_bytes >= 64 << 10 {
            assert!(began.elapsed() < Duration::from_secs(60), "{} bytes wait", database.stats().memory_bytes);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(database.verify().unwrap(), Vec::<String>::new());
    }

    /// A store that is given up while its thread works is closed when the last handle is gone, and not later.
    #[test]
    fn the_thread_ends_before_the_store_is_closed() {
        let memory = Memory::new(64 << 20);
        drop(Database::create(memory.clone(), options(), 1).unwrap());
        for round in 0..40u32 {
            let database = Database::open(memory.clone(), options()).unwrap();
            let tree = database.tree("t").unwrap();
            for number in 0..400 * (round % 4 + 1) {
                tree.insert(number.to_be_bytes(), [round as u8; 100], Durability::None).unwrap();
            }
            let engine = Arc::downgrade(&database.engine.engine);
            drop(database);
            assert!(engine.upgrade().is_some(), "a handle is left");
            drop(tree);
            assert!(engine.upgrade().is_none(), "round {round}: it is not closed");
            assert!(crate::verify(memory.clone()).unwrap().is_empty(), "round {round}");
        }
    }
}
