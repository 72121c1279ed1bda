//! Threads of the store's own that do what is owed, beside commits. They end before the store is closed.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use super::Engine;
use super::in_steps::STEP_BYTES;
use crate::mutant::{Mutant, mutated};
use crate::pacing::Pacing;

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Call {
    #[default]
    None,
    Work,
    End,
}

/// How threads are told that there is something to do.
#[derive(Default)]
pub(super) struct Bell {
    call: Mutex<Call>,
    rung: Condvar,
    /// Whether one was told already and has not looked since.
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
        match call {
            Call::End => self.rung.notify_all(),
            _ => self.rung.notify_one(),
        }
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

    pub fn is_over(&self) -> bool {
        *self.call.lock().unwrap_or_else(PoisonError::into_inner) == Call::End
    }
}

/// A store with its threads, if it has any: what all handles refer to.
pub(crate) struct Shared {
    engine: Arc<Engine>,
    threads: Vec<JoinHandle<()>>,
}

impl Shared {
    /// Where no thread can be had, commits do the work when there is twice as much as there should be.
    pub fn of(engine: Engine) -> Arc<Self> {
        let engine = Arc::new(engine);
        let wanted = match engine.options.pacing {
            Pacing::Beside(threads) if !engine.read_only => threads,
            _ => 0,
        };
        let thread = |number: usize| {
            let beside = Arc::clone(&engine);
            #[cfg(test)]
            let mutant = crate::mutant::current();
            let work = move || {
                #[cfg(test)]
                crate::mutant::set(mutant);
                work(&beside);
            };
            Builder::new().name(format!("betree-{number}")).spawn(work).ok()
        };
        let threads = (0..wanted).filter_map(thread).collect();
        Arc::new(Self { engine, threads })
    }

    /// The store without its threads.
    #[cfg(test)]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}

fn work(engine: &Engine) {
    while engine.bell.wait() != Call::End {
        // What fails stops the store, or is told to whoever commits next.
        while !engine.bell.is_over() && engine.work(STEP_BYTES as u64).unwrap_or(false) {}
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
        if mutated(Mutant::ThreadOutlivesStore) {
            return;
        }
        self.engine.bell.call(Call::End);
        for thread in self.threads.drain(..) {
            // A panic in one was seen where it happened.
            let _ = thread.join();
        }
    }
}
