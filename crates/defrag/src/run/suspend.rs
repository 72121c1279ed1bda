//! Ctrl-Z: others are let in first.
//!
//! A process that is stopped holds its leases, and who opens the file waits until the kernel breaks them, 45 seconds by
//! default. So `SIGTSTP` is noted, and the process stops where it holds none. `SIGSTOP` and a frozen cgroup cannot be told.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Set by the signal's handler.
static ASKED: AtomicBool = AtomicBool::new(false);
/// Runs that watch, and what was done at the signal before them.
static WATCHING: Mutex<(usize, Option<libc::sigaction>)> = Mutex::new((0, None));

extern "C" fn note(_signal: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// Notes `SIGTSTP` instead of stopping at once, until it is dropped.
#[derive(Debug)]
pub(super) struct Suspension(());

impl Suspension {
    pub fn watch() -> Self {
        let mut watching = WATCHING.lock().unwrap_or_else(PoisonError::into_inner);
        watching.0 += 1;
        if watching.0 == 1 {
            let handler: extern "C" fn(libc::c_int) = note;
            watching.1 = act(&action(handler as libc::sighandler_t));
            // A process for which somebody had it ignored goes on to ignore it.
            if let Some(before) = watching.1.filter(|before| before.sa_sigaction == libc::SIG_IGN) {
                act(&before);
            }
        }
        Self(())
    }

    /// Whether the process is to stop.
    pub fn is_asked() -> bool {
        ASKED.load(Ordering::Relaxed)
    }

    /// Stops the process if it is to; returns when it is told to go on.
    pub fn take_effect() {
        let _watching = WATCHING.lock().unwrap_or_else(PoisonError::into_inner);
        if ASKED.swap(false, Ordering::Relaxed) {
            stop();
        }
    }
}

impl Drop for Suspension {
    fn drop(&mut self) {
        let mut watching = WATCHING.lock().unwrap_or_else(PoisonError::into_inner);
        watching.0 -= 1;
        if watching.0 == 0 {
            if let Some(before) = watching.1.take() {
                act(&before);
            }
            if ASKED.swap(false, Ordering::Relaxed) {
                stop();
            }
        }
    }
}

fn action(handler: libc::sighandler_t) -> libc::sigaction {
    // SAFETY: integers and an optional pointer, for which zeros are valid.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART;
    action
}

/// Has `SIGTSTP` do something else; what it did before.
fn act(action: &libc::sigaction) -> Option<libc::sigaction> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: both structures outlive the call; the handler, if it is ours, does no more than set a flag.
    let done = unsafe { libc::sigaction(libc::SIGTSTP, ptr::from_ref(action), before.as_mut_ptr()) };
    // SAFETY: the call wrote it, as it succeeded.
    (done == 0).then(|| unsafe { before.assume_init() })
}

/// What the signal does by default, which also knows when nobody could have the process go on.
fn stop() {
    let noted = act(&action(libc::SIG_DFL));
    // SAFETY: the call takes an integer.
    unsafe { libc::raise(libc::SIGTSTP) };
    if let Some(noted) = noted {
        act(&noted);
    }
}
