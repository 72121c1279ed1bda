//! Long work in short steps.
//!
//! Flushes and checkpoints are `async` functions that say how much they have done. There is no runtime and no thread
//! behind them: whoever commits gives a number of bytes and goes on with the work until those are spent. So a put does
//! a bounded amount of work, in an order that does not depend on any clock.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};

use crate::mutant::{Mutant, mutated};

/// Bytes of work that may be done before the next pause.
#[derive(Default, Debug)]
pub(crate) struct Quota {
    left_bytes: AtomicI64,
    spent_bytes: AtomicI64,
}

/// Ends when the quota has something left.
pub(crate) struct Spend<'a> {
    quota: &'a Quota,
}

impl Future for Spend<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.quota.left_bytes() > 0 || mutated(Mutant::StepUnbounded) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Quota {
    fn left_bytes(&self) -> i64 {
        self.left_bytes.load(Ordering::Relaxed)
    }

    /// So many bytes were merged, packed or written; pauses when none are left.
    pub fn spend(&self, bytes: u64) -> Spend<'_> {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.left_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.spent_bytes.fetch_add(bytes, Ordering::Relaxed);
        Spend { quota: self }
    }

    /// Pauses, whatever is left: what follows is a step of its own.
    pub fn pause(&self) -> Spend<'_> {
        if self.left_bytes() < UNBOUNDED / 2 {
            self.left_bytes.store(0, Ordering::Relaxed);
        }
        Spend { quota: self }
    }
}

/// A quota that is never used up.
pub(crate) const UNBOUNDED: i64 = i64::MAX / 2;

/// Work that is done step by step.
pub(crate) struct Steps<T> {
    quota: Arc<Quota>,
    work: Pin<Box<dyn Future<Output = T> + Send>>,
}

impl<T> Steps<T> {
    pub fn new<F: Future<Output = T> + Send + 'static>(work: impl FnOnce(Arc<Quota>) -> F) -> Self {
        let quota = Arc::new(Quota::default());
        let work = Box::pin(work(Arc::clone(&quota)));
        Self { quota, work }
    }

    /// Works until `bytes` are spent or there is nothing more to do. Then it gives what came of it, and may not be
    /// called again. `bytes` becomes what is left of it; less than nothing where the last piece was larger.
    pub fn step(&mut self, bytes: &mut i64) -> Option<T> {
        self.quota.left_bytes.store(*bytes, Ordering::Relaxed);
        let polled = match *bytes > 0 {
            true => self.work.as_mut().poll(&mut Context::from_waker(Waker::noop())),
            false => Poll::Pending,
        };
        *bytes = self.quota.left_bytes();
        match polled {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    /// Bytes spent so far.
    pub fn spent_bytes(&self) -> u64 {
        self.quota.spent_bytes.load(Ordering::Relaxed).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the quotas: every piece is done once, in order, and no step goes further than its quota and one
        /// piece more.
        #[test]
        fn steps_are_bounded(pieces in prop::collection::vec(1u64..50, 0..40), quotas in prop::collection::vec(1i64..200, 1..9)) {
            let total: u64 = pieces.iter().sum();
            let largest = pieces.iter().copied().max().unwrap_or(0) as i64;
            let work = pieces.clone();
            let mut steps = Steps::new(|quota| async move {
                let mut done = Vec::new();
                for piece in work {
                    done.push(piece);
                    quota.spend(piece).await;
                }
                done
            });
            let mut quotas = quotas.iter().cycle();
            let done = loop {
                let quota = *quotas.next().unwrap();
                let before = steps.spent_bytes();
                let mut left = quota;
                let done = steps.step(&mut left);
                let spent = (steps.spent_bytes() - before) as i64;
                prop_assert_eq!(left, quota - spent);
                prop_assert!(spent < quota + largest.max(1), "{} spent of {}", spent, quota);
                if let Some(done) = done {
                    break done;
                }
                prop_assert!(left <= 0, "it pauses when the quota is used up");
            };
            prop_assert_eq!(done, pieces);
            prop_assert_eq!(steps.spent_bytes(), total);
        }
    }

    #[test]
    fn a_pause_ends_a_step_and_not_the_work() {
        let mut steps = Steps::new(|quota| async move {
            quota.pause().await;
            7
        });
        let mut left = 100;
        assert_eq!((steps.step(&mut left), left), (None, 0));
        left = 1;
        assert_eq!(steps.step(&mut left), Some(7));
        let mut steps = Steps::new(|quota| async move {
            quota.pause().await;
            8
        });
        assert_eq!(steps.step(&mut UNBOUNDED.clone()), Some(8));
    }
}
