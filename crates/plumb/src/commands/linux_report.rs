//! What `plumb linux --json` writes.

use linux::{Ended, Outcome};
use serde_json::{Value, json};

/// The outcome as JSON, indented; `profile` is what `--device` named.
pub fn json(profile: &str, outcome: &Outcome) -> String {
    let (status, signal) = match outcome.ended {
        Ended::Exited(status) => (Value::from(status), Value::Null),
        Ended::Signaled(signal) => (Value::Null, Value::from(signal)),
    };
    let report = json!({
        "profile": profile,
        "kernel": outcome.kernel,
        "device_node": outcome.device_node,
        "exit_status": status,
        "signal": signal,
        "virtual_start_ns": outcome.began.0,
        "virtual_end_ns": outcome.done.0,
        "virtual_seconds": outcome.virtual_time().as_secs_f64(),
        "processor_time": outcome.processor_time(),
        "charge": outcome.charge,
        "device": outcome.device,
        "more_devices": outcome.more_devices,
    });
    format!("{report:#}\n")
}
