//! Threads that take turns: only one of them runs at a time, and where they may give way to each other (before each lock of the engine,
//! each look at its versions, each request) a seed says who goes on. So a schedule that shows a defect comes again with its seed.
//! Outside of the tests there are none.

#[cfg(test)]
pub(crate) use scheduled::{is_scheduled, run, turn};

#[cfg(not(test))]
pub(crate) const fn turn() {}

#[cfg(not(test))]
pub(crate) const fn is_scheduled() -> bool {
    false
}

#[cfg(test)]
mod scheduled {
    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use crate::mutant::{current, set};

    /// More turns than any schedule of the proofs takes: one that does has stopped somewhere.
    const TURNS_MAX: u64 = 2_000_000;

    struct State {
        running: usize,
        alive: Vec<bool>,
        turns: u64,
        random: Xoshiro256PlusPlus,
    }

    struct Turns {
        state: Mutex<State>,
        passed: Condvar,
    }

    thread_local! {
        static OWN: RefCell<Option<(Arc<Turns>, usize)>> = const { RefCell::new(None) };
    }

    impl Turns {
        fn lock(&self) -> MutexGuard<'_, State> {
            self.state.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Says who goes on, and waits for the next turn.
        fn pass(&self, own: usize) {
            let mut state = self.lock();
            state.turns += 1;
            assert!(state.turns < TURNS_MAX, "nobody gets on");
            choose(&mut state);
            if state.running != own {
                self.passed.notify_all();
                drop(self.passed.wait_while(state, |state| state.running != own));
            }
        }

        fn begin(&self, own: usize) {
            drop(self.passed.wait_while(self.lock(), |state| state.running != own));
        }

        fn end(&self, own: usize) {
            let mut state = self.lock();
            state.alive[own] = false;
            if state.alive.contains(&true) {
                choose(&mut state);
            }
            self.passed.notify_all();
        }
    }

    fn choose(state: &mut State) {
        let alive: Vec<usize> = (0..state.alive.len()).filter(|thread| state.alive[*thread]).collect();
        state.running = alive[state.random.random_range(0..alive.len())];
    }

    /// Lets another thread go on, maybe.
    pub(crate) fn turn() {
        let own = OWN.with_borrow(Clone::clone);
        if let Some((turns, own)) = own {
            turns.pass(own);
        }
    }

    /// Whether this thread takes turns: then it may wait for nobody in any other way.
    pub(crate) fn is_scheduled() -> bool {
        OWN.with_borrow(Option::is_some)
    }

    /// Runs threads in the order that a seed says; they have the defect of the caller. Panics as the first of them does.
    pub(crate) fn run(seed: u64, threads: Vec<Box<dyn FnOnce() + Send + '_>>) {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut state = State { running: 0, alive: vec![true; threads.len()], turns: 0, random };
        choose(&mut state);
        let turns = Arc::new(Turns { state: Mutex::new(state), passed: Condvar::new() });
        let mutant = current();
        let failed = std::thread::scope(|scope| {
            let handles: Vec<_> = threads
                .into_iter()
                .enumerate()
                .map(|(own, work)| {
                    let turns = Arc::clone(&turns);
                    scope.spawn(move || {
                        set(mutant);
                        OWN.set(Some((Arc::clone(&turns), own)));
                        turns.begin(own);
                        let result = catch_unwind(AssertUnwindSafe(work));
                        OWN.set(None);
                        turns.end(own);
                        result
                    })
                })
                .collect();
            handles.into_iter().find_map(|handle| handle.join().and_then(|result| result).err())
        });
        if let Some(panic) = failed {
            resume_unwind(panic);
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn order(seed: u64) -> Vec<usize> {
            let order = Mutex::new(Vec::new());
            let thread = |own: usize| {
                let order = &order;
                Box::new(move || {
                    for _ in 0..5 {
                        order.lock().unwrap().push(own);
                        turn();
                    }
                }) as Box<dyn FnOnce() + Send + '_>
            };
            run(seed, (0..3).map(thread).collect());
            order.into_inner().unwrap()
        }

        #[test]
        fn a_seed_is_an_order() {
            let orders: Vec<_> = (0..50).map(order).collect();
            assert_eq!(orders, (0..50).map(order).collect::<Vec<_>>());
            let distinct: std::collections::BTreeSet<_> = orders.iter().collect();
            assert!(distinct.len() > 45, "{} orders", distinct.len());
        }
    }
}
