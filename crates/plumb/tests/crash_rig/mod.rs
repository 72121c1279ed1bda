//! What the tests of `plumb crash` share.
#![allow(dead_code)] // Each test file uses its own part.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use file_systems::Tools;

use crate::linux_rig::{PLUMB, has, kernel};

/// A trial's folder.
pub struct Trial {
    pub folder: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Trial {
    /// Nothing where there is no kernel or no program that makes the file system.
    pub fn new(file_system: &str) -> Option<Self> {
        kernel()?;
        let tools = Tools::of(file_system.parse().unwrap()).unwrap();
        (tools.make.is_own() || has(tools.make.program)).then(|| {
            let temporary = tempfile::tempdir().unwrap();
            Self { folder: temporary.path().to_owned(), _temporary: Some(temporary) }
        })
    }

    /// One that goes on where an earlier start was stopped: its folder is `name` in the folder of `PLUMB_TRIALS`, where that is
    /// told, and stays.
    pub fn kept(file_system: &str, name: &str) -> Option<Self> {
        let Some(trials) = std::env::var_os("PLUMB_TRIALS") else { return Self::new(file_system) };
        Self::new(file_system).map(|_| {
            let folder = PathBuf::from(trials).join(name);
            std::fs::create_dir_all(&folder).unwrap();
            Self { folder, _temporary: None }
        })
    }

    pub fn command(&self, flags: &[&str], script: &str) -> Command {
        let mut command = Command::new(PLUMB);
        command.arg("crash").args(flags).arg("--out").arg(self.folder.join("out"));
        if !flags.contains(&"--time-limit") {
            command.args(["--time-limit", "3600"]);
        }
        command.args(["--", "sh", "-ec", script]).env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        command
    }

    /// Its exit status and report.
    pub fn run(&self, flags: &[&str], script: &str) -> (i32, serde_json::Value) {
        let output = self.command(&[flags, &["--json"]].concat(), script).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let report = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{output:?}"));
        (output.status.code().unwrap(), report)
    }

    pub fn replay(&self, state: &str, script: &str) -> Output {
        let mut command = Command::new(PLUMB);
        command.args(["crash", "replay"]).arg(self.folder.join("out")).arg(state);
        command.args(["--", "sh", "-c", script]).stdin(Stdio::null()).output().unwrap()
    }
}

/// The states with a fault.
pub fn bad(report: &serde_json::Value) -> &[serde_json::Value] {
    report["bad"].as_array().unwrap()
}

/// What the explanations of the bad states say, those that have one.
pub fn explanations(report: &serde_json::Value) -> Vec<String> {
    let lines = |bad: &serde_json::Value| {
        let lines: Vec<&str> =
            bad["explanation"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        lines.join("\n")
    };
    bad(report).iter().map(lines).filter(|text| !text.is_empty()).collect()
}
