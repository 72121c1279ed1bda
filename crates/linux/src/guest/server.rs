//! `plumb serve` inside: started, waited for, and asked for its report.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Signal, kill_process};

use super::error::{GuestError, attempt};
use super::processes;
use crate::plan::{DevicePlan, GuestPlan};

/// What the server prints when clients are answered.
const READY: &str = "ready at ";
/// How long it may take to get there, and to end, in virtual milliseconds.
const PATIENCE_MS: u32 = 60_000;
/// A server's allocator keeps what was freed, up to a GiB, and takes requests' data from the same.
pub(super) const KEEP_MEMORY: &str = "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=1073741824";
/// What the server says where the host's file system is full, and what helps.
const NO_SPACE: &str = "No space left on device";
const NO_SPACE_REMEDY: &str = "\nThe host has no room for what the device holds: make some, or name another folder \
                               with PLUMB_CONTENTS (with --image, choose another file).";
/// Most of each of its outputs that is read.
const MOST_BYTES: usize = 16 << 20;

/// A server that answers.
pub(super) struct Server {
    pid: Pid,
    /// Its standard error: what it says while it runs.
    said: File,
    /// Its standard output: the report, at the end.
    report: File,
    /// What stands after `ready at`.
    address: String,
}

impl Server {
    /// Starts `plumb serve` of `device` with the words of its front-end, and waits until it answers.
    pub(super) fn start(
        plan: &GuestPlan,
        device: &DevicePlan,
        front_end: &[&str],
        log: &File,
    ) -> Result<Self, GuestError> {
        let failed = || "cannot start the server of the device".to_owned();
        let file = |name: &str| {
            let made = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC);
            attempt(made, failed).map(File::from)
        };
        let end_of = |file: &File| attempt(file.try_clone(), failed).map(OwnedFd::from).map(Stdio::from);
        let (said, report) = (file("said")?, file("report")?);
        let mut command = Command::new(PathBuf::from(&plan.plumb));
        command
            .arg("serve")
            .args(device.serve.iter().map(OsString::from))
            .args(front_end)
            .args(["--no-calibration", "--json"])
            .current_dir("/")
            .env_clear()
            .env("PATH", super::command::search_path(None))
            // A page that is given back and taken again costs a fault each time, which costs tens of microseconds here.
            .env("GLIBC_TUNABLES", KEEP_MEMORY)
            .stdin(Stdio::null())
            .stdout(end_of(&report)?)
            .stderr(end_of(&said)?);
        let pid = Pid::from_child(&attempt(command.spawn(), failed)?);
        let mut server = Self { pid, said, report, address: String::new() };
        for _ in 0..PATIENCE_MS {
            if let Some(address) = server.ready() {
                server.address = address;
                return Ok(server);
            }
            if let Some(end) = processes::has_ended(pid) {
                let said = text_of(&server.said);
                let _ = (&mut &*log).write_all(said.as_bytes());
                let why = if said.trim().is_empty() { "and said nothing" } else { said.trim() };
                return Err(GuestError::new(format!(
                    "{} before the device could be seen: {why}",
                    processes::server_ended(end)
                )));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(GuestError::new("the server of the device did not get ready within a virtual minute"))
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Where the device is served: a node, or an address of the network.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    fn ready(&self) -> Option<String> {
        let text = text_of(&self.said);
        let line = text.split_inclusive('\n').find(|line| line.ends_with('\n') && line.contains(READY))?;
        let (_, rest) = line.split_once(READY)?;
        rest.split([' ', ';', ',', '\n']).next().map(str::to_owned)
    }

    /// Ends it; its report, which is the last thing that it prints.
    pub(super) fn stop(self, log: &mut File) -> Result<serde_json::Value, GuestError> {
        attempt(kill_process(self.pid, Signal::TERM), || "cannot stop the server".to_owned())?;
        let end = processes::wait_for(self.pid, &[])?;
        let said = text_of(&self.said);
        attempt(log.write_all(said.as_bytes()), || "cannot write the log".to_owned())?;
        if !end.success() {
            let remedy = if said.contains(NO_SPACE) { NO_SPACE_REMEDY } else { "" };
            return Err(GuestError::new(format!("{}: {}{remedy}", processes::server_ended(end), said.trim())));
        }
        let report = text_of(&self.report);
        let last = report.lines().next_back().unwrap_or_default();
        serde_json::from_str(last)
            .map_err(|error| GuestError::new(format!("the server's report cannot be read: {error}: {last}")))
    }
}

/// The text in a file that another process writes.
fn text_of(file: &File) -> String {
    let length = file.metadata().map_or(0, |about| about.len());
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX).min(MOST_BYTES)];
    let read = file.read_at(&mut bytes, 0).unwrap_or(0);
    bytes.truncate(read);
    String::from_utf8_lossy(&bytes).into_owned()
}
