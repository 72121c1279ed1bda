//! The kernel as a process of the host.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, Signal, pidfd_open};

use super::processor::{self, Placement};
use crate::charge::Charges;
use crate::error::LinuxError;

/// The kernel's number of the first channel; the others follow.
const FIRST_CHANNEL: RawFd = 40;

/// How often the caller is asked whether to stop.
const TICK: Duration = Duration::from_millis(50);

/// What a kernel process is started with.
pub(super) struct Boot<'a> {
    pub(super) program: &'a Path,
    /// The first process inside: plumb itself.
    pub(super) init: &'a Path,
    pub(super) memory_bytes: u64,
    pub(super) charge: Option<&'a Charges>,
    /// More words of the kernel's command line.
    pub(super) parameters: Vec<String>,
    pub(super) memory_folder: &'a Path,
    pub(super) run_folder: &'a Path,
    /// Becomes standard output and standard error of the kernel.
    pub(super) log: &'a File,
    /// In the order of the channels.
    pub(super) channels: Vec<OwnedFd>,
    /// The console of the command, if it has one.
    pub(super) terminal: Option<OwnedFd>,
}

/// The wall clock inside at the start, in nanoseconds since 1970: 2030-01-01, later than the host's files.
const START_NS: u64 = 1_893_456_000_000_000_000;

impl Boot<'_> {
    /// The kernel's command line; the same for every run with the same memory and costs.
    fn arguments(&self) -> Vec<OsString> {
        let first = FIRST_CHANNEL;
        let numbers: Vec<String> = (0..self.channels.len()).map(|n| (first + n as RawFd).to_string()).collect();
        let mut init = OsString::from("init=");
        init.push(self.init);
        let mut arguments: Vec<OsString> = vec![
            format!("mem={}M", self.memory_bytes >> 20).into(),
            "root=/dev/root".into(),
            "rootfstype=hostfs".into(),
            "rootflags=/".into(),
            "ro".into(),
            "time-travel=inf-cpu".into(),
            format!("time-travel-start={START_NS}").into(),
            // It waits for jitter that a jumping clock does not have.
            "initcall_blacklist=jent_mod_init".into(),
            "panic=-1".into(),
            // Otherwise it is appended, and becomes an argument of the first process.
            "console=tty0".into(),
            "con=null".into(),
            "con0=null,fd:2".into(),
            "ssl=null".into(),
            "null_blk.nr_devices=0".into(),
            format!("hostfd={}", numbers.join(",")).into(),
            init,
        ];
        if self.terminal.is_some() {
            arguments.push(format!("con1=fd:{}", first + self.channels.len() as RawFd).into());
        }
        arguments.extend(self.charge.into_iter().flat_map(Charges::parameters).map(OsString::from));
        arguments.extend(self.parameters.iter().map(OsString::from));
        arguments.extend(["--", "linux-guest"].map(OsString::from));
        arguments
    }

    pub(super) fn start(self) -> Result<Running, LinuxError> {
        let failed = |what: &'static str| LinuxError::system(what);
        let log = |what| self.log.try_clone().map(Stdio::from).map_err(failed(what));
        let mut command = Command::new(self.program);
        command
            .args(self.arguments())
            .current_dir(self.run_folder)
            // It keeps its own files below ~/.uml.
            .env_clear()
            .env("HOME", self.run_folder)
            .env("TMPDIR", self.memory_folder)
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null())
            .stdout(log("cannot pass on the kernel's log")?)
            .stderr(log("cannot pass on the kernel's log")?);
        let kept: Vec<RawFd> = self.channels.iter().chain(&self.terminal).map(AsRawFd::as_raw_fd).collect();
        let mut copies = kept.clone();
        let processor = processor::first();
        // Above the numbers they are to get, so that no copy has one of them.
        let above = FIRST_CHANNEL + kept.len() as RawFd;
        let parent = rustix::process::getpid();
        // SAFETY: between fork and exec the closure makes only prctl, getppid, personality, affinity, fcntl and dup2
        // calls, which are async-signal-safe; it neither allocates nor touches a lock.
        unsafe {
            command.pre_exec(move || {
                // Whoever is killed cannot end what it started. The thread that starts a kernel waits for it, so that its
                // end is that of its process; one that ended before this call is no parent any more.
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                if rustix::process::getppid() != Some(parent) {
                    return Err(std::io::ErrorKind::NotConnected.into());
                }
                // The place of the host's heap decides how much memory the kernel has.
                if libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                // Where that is refused, it runs anywhere.
                if let Some(processor) = &processor {
                    let _ = rustix::thread::sched_setaffinity(None, processor);
                }
                // All are copied before any number is taken: an original may have one of them.
                for (copy, fd) in copies.iter_mut().zip(&kept) {
                    *copy = libc::fcntl(*fd, libc::F_DUPFD_CLOEXEC, above);
                    if *copy < 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                for (copy, target) in copies.iter().zip(FIRST_CHANNEL..) {
                    if libc::dup2(*copy, target) < 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        let child = command
            .spawn()
            .map_err(LinuxError::system(format!("cannot start the kernel {}", self.program.display())))?;
        Ok(Running { child })
    }
}

/// A kernel that runs; killed when dropped, with every process inside.
pub(super) struct Running {
    child: Child,
}

/// Why a wait ended before the kernel did.
pub(super) enum Interrupted {
    Stopped,
    TimedOut,
    TooMuchOutput,
}

impl Running {
    /// Waits for the end. `stop` and `too_much` are asked many times a second.
    pub(super) fn wait(
        &mut self,
        limit: Option<Duration>,
        stop: &dyn Fn() -> bool,
        too_much: &dyn Fn() -> bool,
    ) -> Result<Result<ExitStatus, Interrupted>, LinuxError> {
        let failed = || LinuxError::system("cannot wait for the kernel");
        let until = limit.map(|limit| Instant::now() + limit);
        let pid = rustix::process::Pid::from_child(&self.child);
        let mut placement = Placement::new(pid);
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(std::io::Error::from).map_err(failed())?;
        loop {
            if let Some(status) = self.child.try_wait().map_err(failed())? {
                return Ok(Ok(status));
            }
            if stop() {
                return Ok(Err(Interrupted::Stopped));
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(Err(Interrupted::TimedOut));
            }
            if too_much() {
                return Ok(Err(Interrupted::TooMuchOutput));
            }
            placement.look();
            let tick = rustix::event::Timespec { tv_sec: 0, tv_nsec: TICK.as_nanos() as _ };
            // A signal ends the wait early, which the next round finds out.
            let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&tick));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The processes inside are traced by the kernel process and die with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
