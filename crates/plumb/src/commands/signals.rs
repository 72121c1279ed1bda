//! Ctrl-C and SIGTERM.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::EXIT_INTERRUPTED;
use crate::failure::Failure;

/// A flag that Ctrl-C and SIGTERM set; a second Ctrl-C ends the process at once.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, EXIT_INTERRUPTED.into(), Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::Machine(format!("cannot watch for signals: {error}")))?;
    }
    Ok(stop)
}
