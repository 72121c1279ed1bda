//! Waiting for the command, with the signals that were meant for it.
//!
//! The command is in the launcher's process group: what the terminal sends reaches both, and stopping and going on are the
//! terminal's business with both. The launcher outlives an interrupt for as long as the command does, and hands on what was
//! sent to it alone.

use std::io;
use std::process::{Child, ExitStatus};

use rustix::process::{Pid, Signal, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// Signals that do not end the launcher while the command runs.
const HELD: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// Those that the terminal sends to the command, too.
const TERMINALS: [i32; 2] = [SIGINT, SIGQUIT];

/// Holds the signals from now on: before the command is started, so that none ends the launcher alone. The command has none of it, since
/// `exec` takes handlers away; what was ignored, as by `nohup`, stays so for both.
pub fn hold() -> io::Result<Signals> {
    let ignored = ignored();
    Signals::new(HELD.iter().filter(|signal| ignored & 1 << (**signal - 1) == 0))
}

/// Until the command has ended.
pub fn wait(mut child: Child, mut signals: Signals) -> io::Result<ExitStatus> {
    let handle = signals.handle();
    let command = Pid::from_child(&child);
    let waiter = std::thread::spawn(move || {
        // Without reaping it: its number is its own until the last signal was handed on.
        let ended = loop {
            match waitid(rustix::process::WaitId::Pid(command), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Err(rustix::io::Errno::INTR) => {}
                done => break done.map(|_| ()),
            }
        };
        handle.close();
        ended
    });
    for signal in signals.forever() {
        if TERMINALS.contains(&signal) && is_from_terminal() {
            continue;
        }
        if let Some(signal) = Signal::from_named_raw(signal) {
            // It may be another user's by now; then that is the sender's business.
            let _ = kill_process(command, signal);
        }
    }
    waiter.join().map_err(|_| io::Error::other("waiting failed"))??;
    child.wait()
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
