//! A modelled device under the kernel of this machine: `plumb serve --loop`, for as long as the run takes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::LiveHostError;

/// What the server prints when the device can be used.
const READY: &str = "ready at ";
/// How long it may take to get there, and to end.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

/// A server that answers; it ends with this value.
pub(super) struct Served {
    child: Child,
    device: String,
    said: PathBuf,
    report: PathBuf,
    node: PathBuf,
}

impl Served {
    /// Serves `device` with `settings` (`key=value` of its profile); its files go to `folder`.
    pub(super) fn start(device: &str, settings: &[String], folder: &Path) -> Result<Self, LiveHostError> {
        let program = std::env::current_exe().map_err(LiveHostError::file("find the plumb program"))?;
        let [said, report] = ["served.err", "served.json"].map(|name| folder.join(name));
        let file = |path: &Path| File::create(path).map_err(LiveHostError::file("make a file for the server's words"));
        let mut command = Command::new(program);
        command.args(["serve", "--loop", "--json", "--device", device]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        command.stdin(Stdio::null()).stdout(file(&report)?).stderr(file(&said)?);
        let child = command.spawn().map_err(LiveHostError::file("start the server of the device"))?;
        let mut served = Self { child, device: device.to_owned(), said, report, node: PathBuf::new() };
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(node) = served.ready() {
                served.node = node;
                return Ok(served);
            }
            if served.has_ended()? {
                return Err(served.failed("it ended before the device could be used"));
            }
            thread::sleep(POLL);
        }
        Err(served.failed("it did not get ready within a minute"))
    }

    /// The device's node.
    pub(super) fn node(&self) -> &Path {
        &self.node
    }

    fn ready(&self) -> Option<PathBuf> {
        let text = fs::read_to_string(&self.said).unwrap_or_default();
        let line = text.split_inclusive('\n').find(|line| line.ends_with('\n') && line.contains(READY))?;
        let (_, rest) = line.split_once(READY)?;
        rest.split([' ', ';', ',', '\n']).next().filter(|node| node.starts_with("/dev/")).map(PathBuf::from)
    }

    fn has_ended(&mut self) -> Result<bool, LiveHostError> {
        let ended = self.child.try_wait().map_err(LiveHostError::file("wait for the server of the device"))?;
        Ok(ended.is_some())
    }

    fn failed(&self, what: &str) -> LiveHostError {
        let text = fs::read_to_string(&self.said).unwrap_or_default();
        LiveHostError::Server { device: self.device.clone(), said: format!("{what}: {}", text.trim()) }
    }

    /// Ends it; its report, which is the last thing that it prints.
    pub(super) fn stop(mut self) -> Result<serde_json::Value, LiveHostError> {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let began = Instant::now();
        while !self.has_ended()? {
            if began.elapsed() > PATIENCE {
                return Err(self.failed("it did not end within a minute"));
            }
            thread::sleep(POLL);
        }
        let report = fs::read_to_string(&self.report).unwrap_or_default();
        let last = report.lines().next_back().unwrap_or_default();
        serde_json::from_str(last).map_err(|error| self.failed(&format!("its report cannot be read ({error})")))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !self.has_ended().unwrap_or(true) {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}
