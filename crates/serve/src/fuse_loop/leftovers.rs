//! Loop devices that a killed server left behind.
//!
//! The watchdog detaches them; a device is left where it was killed as well. The
//! label says which process attached a device, and since when that has run.

use std::fs;

use super::loop_device::{LoopNumber, attached, was_detached};
use super::users::users;

const PREFIX: &str = "plumb";

/// The label for this process's loop devices.
pub(crate) fn label() -> String {
    let pid = std::process::id();
    format!("{PREFIX} {pid} {}", started(pid).unwrap_or(0))
}

/// When a process started, in clock ticks since boot (proc(5), field 22 of
/// `stat`); `None` where there is none, or where it is dead and not yet reaped.
fn started(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let (_, after) = text.rsplit_once(')')?;
    let mut fields = after.split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Whether a label is that of a server that is no more.
fn is_stale(label: &str, started: impl Fn(u32) -> Option<u64>) -> bool {
    let mut parts = label.split(' ');
    let (Some(PREFIX), Some(pid), Some(since), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    match (pid.parse(), since.parse::<u64>()) {
        (Ok(pid), Ok(since)) => started(pid) != Some(since),
        _ => false,
    }
}

/// Detaches what killed servers left, and says so. Their connections are gone
/// with them: the devices fail every request.
pub(crate) fn clear() -> Vec<String> {
    attached().into_iter().filter_map(clear_one).collect()
}

fn clear_one(number: LoopNumber) -> Option<String> {
    let held = number.hold(|label| is_stale(label, started)).ok()?;
    let device = number.path();
    let users = users(number);
    Some(match held.detach() {
        // A watchdog was faster.
        Err(error) if was_detached(&error) => return None,
        Ok(()) if users.is_empty() => format!("detached {}, left by a server that was killed", device.display()),
        Ok(()) => format!(
            "{} was left by a server that was killed and fails every request; it goes away when it is released ({})",
            device.display(),
            users.join(", ")
        ),
        Err(error) => format!("{}, left by a server that was killed, cannot be detached: {error}", device.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_its_own() {
        assert!(!is_stale(&label(), started));
        let alive = |pid| (pid == 7).then_some(100);
        assert!(!is_stale("plumb 7 100", alive));
        // The number has been given to another process since.
        assert!(is_stale("plumb 7 99", alive));
        assert!(is_stale("plumb 8 100", alive));
        for foreign in ["", "plumb", "plumb 7", "plumb x 100", "/var/lib/image plumb 8 100", "plumb 8 100 more"] {
            assert!(!is_stale(foreign, alive), "{foreign}");
        }
        assert_eq!(started(0), None);
    }
}
