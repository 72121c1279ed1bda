//! Waiting for the command, with the signals that were meant for it.
//!
//! The command is in the launcher's process group: what the terminal sends reaches both, and stopping and going on are the
//! terminal's business with both. The launcher outlives an interrupt for as long as the command does, and hands on what was
//! sent to it alone.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// Signals that do not end the launcher while the command runs.
const HELD: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// Those that the terminal sends to the command, too.
const TERMINALS: [i32; 2] = [SIGINT, SIGQUIT];

/// Holds the signals from now on: before the command is started, so that none ends the launcher alone. The command has none of it, since
/// `exec` takes handlers away; what was ignored, as by `nohup`, stays so for both.
pub fn hold(command: &mut Command) -> io::Result<Signals> {
    let ignored = ignored();
    let is_ignored = |signal: i32| ignored & 1 << (signal - 1) != 0;
    let held = HELD.iter().filter(|signal| !is_ignored(**signal));
    // The end of the command is a signal, too: no thread waits for it.
    let signals = Signals::new(held.chain(&[SIGCHLD]))?;
    if is_ignored(SIGCHLD) {
        // SAFETY: signal(2) may be called between fork and exec.
        unsafe { command.pre_exec(ignore_children) };
    }
    Ok(signals)
}

/// As it was before the launcher wanted to know of its child.
fn ignore_children() -> io::Result<()> {
    // SAFETY: no handler is given.
    match unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Until the command has ended.
pub fn wait(mut child: Child, mut signals: Signals) -> io::Result<ExitStatus> {
    let command = Pid::from_child(&child);
    for signal in signals.forever() {
        if signal == SIGCHLD && has_ended(command)? {
            break;
        }
        if signal == SIGCHLD || TERMINALS.contains(&signal) && is_from_terminal() {
            continue;
        }
        if let Some(signal) = Signal::from_named_raw(signal) {
            // It may be another user's by now; then that is the sender's business.
            let _ = kill_process(command, signal);
        }
    }
    child.wait()
}

/// Whether it has, without reaping it: its number is its own until the last signal was handed on.
fn has_ended(command: Pid) -> io::Result<bool> {
    let ended = waitid(WaitId::Pid(command), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG)?;
    Ok(ended.is_some())
}

/// Whether an interrupt that came now was the terminal's, which sends it to the whole group in the foreground.
fn is_from_terminal() -> bool {
    let group = std::fs::File::open("/dev/tty").and_then(|terminal| Ok(rustix::termios::tcgetpgrp(&terminal)?));
    group.is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Signals that the launcher was told to ignore, as `nohup` does: `SigIgn` of proc_pid_status(5).
fn ignored() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
