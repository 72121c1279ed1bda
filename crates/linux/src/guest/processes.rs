//! The children of the first process: every orphan becomes one, and each must be waited for.

use std::fs;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};

use super::error::GuestError;
use crate::outcome::Ended;

/// How a process ended.
pub(super) fn ended(status: WaitStatus) -> Option<Ended> {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some(Ended::Exited(u8::try_from(code).unwrap_or(u8::MAX))),
        (None, Some(signal)) => Some(Ended::Signaled(signal)),
        (None, None) => None,
    }
}

/// Waits for `child`, and for whatever else ends meanwhile; those of `guarded` must not.
pub(super) fn wait_for(child: Pid, guarded: &[Pid]) -> Result<Ended, GuestError> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                let Some(end) = ended(status) else { continue };
                if pid == child {
                    return Ok(end);
                }
                if guarded.contains(&pid) {
                    return Err(server_ended(end));
                }
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(GuestError::new(format!("cannot wait for a process: {error}"))),
        }
    }
}

/// The end of `child`, if it has ended already.
pub(super) fn has_ended(child: Pid) -> Option<Ended> {
    match rustix::process::waitpid(Some(child), WaitOptions::NOHANG) {
        Ok(Some((_, status))) => ended(status),
        _ => None,
    }
}

/// What the end of the server means.
pub(super) fn server_ended(end: Ended) -> GuestError {
    let how = match end {
        Ended::Exited(status) => format!("exited with status {status}"),
        Ended::Signaled(signal) => format!("was killed by signal {signal}"),
    };
    GuestError::new(format!("the server of a device {how}"))
}

/// Kills what the command left running; not `servers`, and where one is mounted (`spares_served`) not those of file systems.
pub(super) fn kill_others(servers: &[Pid], spares_served: bool) {
    // Each round may uncover children of what the one before killed.
    for _ in 0..10 {
        let mut killed = false;
        for pid in users() {
            if !servers.contains(&pid) && pid != Pid::INIT && !(spares_served && is_of_served(pid)) {
                killed |= kill_process(pid, Signal::KILL).is_ok();
            }
        }
        if !killed {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        while let Ok(Some(_)) = rustix::process::waitpid(None, WaitOptions::NOHANG) {}
    }
}

/// Whether a process serves a file system through FUSE, or watches over one that does.
fn is_of_served(pid: Pid) -> bool {
    let has_device = |process: &str| {
        let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
        links.any(|link| link == std::path::Path::new("/dev/fuse"))
    };
    let pid = pid.as_raw_nonzero().to_string();
    // Behind the name, which is in parentheses, are the state and the parent.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
    has_device(&pid) || parent.is_some_and(|parent| parent != "1" && has_device(parent))
}

/// Processes that are no threads of the kernel: those have no memory of their own, and no command line.
fn users() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| !line.is_empty()))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
        .collect()
}
