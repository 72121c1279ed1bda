//! Independent pieces of work on several threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Does `work` for each index below `count` on `threads` threads; `None` when
/// `stop` was set. The results stand in order, whoever did them.
pub(crate) fn parallel<T: Send>(
    count: usize,
    threads: usize,
    stop: &AtomicBool,
    work: impl Fn(usize) -> T + Sync,
) -> Option<Vec<T>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<T>>> = Mutex::new((0..count).map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // The last ones are the longest as a rule: from the back.
                    let Some(index) = count.checked_sub(1 + next.fetch_add(1, Ordering::Relaxed)) else { return };
                    let result = work(index);
                    done.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
                }
            });
        }
    });
    if stop.load(Ordering::Relaxed) {
        return None;
    }
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
}
