//! What the tests of order on a real kernel share: programs whose tasks meet, and runs of them whose states are judged without a
//! kernel.
#![allow(dead_code)] // Each test file uses its own part.

pub mod commands;
pub mod programs;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::linux_rig::{PLUMB, has, kernel_with_streams};

/// How a race is run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// `streams...`, or nothing for stock ext4.
    pub ordering: &'a str,
    /// What programs get that say fsync, or nothing for the promise.
    pub fsync_as: &'a str,
    /// A setting of the drive, as `--set` takes it.
    pub drive: &'a str,
    pub mount: &'a str,
    pub size: &'a str,
    pub mkfs: &'a str,
    pub setup: &'a str,
    pub script: &'a str,
    /// One of so many scheduling points sleeps; 0: none does.
    pub delay_every: u32,
    pub seed: u64,
    /// Judged without a kernel; 0: only those that are mounted are judged.
    pub states: u64,
    pub mounted: u64,
    /// Looks at the files of each state, in place of what fsync promised.
    pub check: &'a str,
    /// Whether the kernel as it is is that of [`reduced`], too, which has encryption.
    pub is_reduced: bool,
    pub kernel_patch: Option<&'a Path>,
}

pub const RUN: Run<'static> = Run {
    ordering: "streams",
    fsync_as: "",
    drive: "",
    mount: "",
    size: "48MiB",
    mkfs: "-b 4096",
    setup: "true",
    script: "true",
    delay_every: 23,
    seed: 1,
    states: 3000,
    mounted: 4,
    check: "",
    is_reduced: false,
    kernel_patch: None,
};

/// States that were made, how many of them are distinct, and those that are bad.
pub struct Found {
    pub generated: u64,
    pub distinct: u64,
    pub bad: u64,
    pub unread: u64,
    pub report: serde_json::Value,
}

impl Found {
    /// The smallest state of each fault that was found: what it lost, as entries of the log, and what is said of it.
    pub fn reproducers(&self) -> Vec<(Vec<u64>, &str)> {
        if self.report["offline"].is_null() {
            return self.mounted_reproducers().collect();
        }
        let shown = self.report["offline"]["shown"].as_array().into_iter().flatten();
        let small = |bad: &'_ serde_json::Value| -> Option<Vec<u64>> {
            Some(bad["smallest"].as_array()?.iter().filter_map(serde_json::Value::as_u64).collect())
        };
        shown.filter_map(|bad| Some((small(bad)?, bad["what"].as_str()?))).collect()
    }
}

impl Found {
    fn mounted_reproducers(&self) -> impl Iterator<Item = (Vec<u64>, &str)> {
        let small = self.report["bad"].as_array().into_iter().flatten().map(|bad| &bad["verdict"]["fault"]["smallest"]);
        small.filter_map(|small| {
            let lost = small["lost"].as_array()?.iter().filter_map(|write| write["entry"].as_u64());
            Some((lost.collect(), small["what"].as_str()?))
        })
    }
}

impl Run<'_> {
    pub fn run(&self) -> Found {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(PLUMB);
        command.args([
            "crash",
            "--time-limit",
            "3600",
            "--size",
            self.size,
            "--mkfs-options",
            self.mkfs,
            "--setup",
            self.setup,
        ]);
        if !self.ordering.is_empty() {
            command.args(["--ordering", self.ordering]);
        }
        if !self.drive.is_empty() {
            command.args(["--set", self.drive]);
        }
        if !self.mount.is_empty() {
            command.args(["--mount-options", self.mount]);
        }
        if !self.fsync_as.is_empty() {
            command.args(["--fsync-as", self.fsync_as]);
        }
        if self.kernel_patch.is_some() || self.is_reduced {
            command.args(["--kernel", "order", "--kernel-config"]).arg(reduced());
        }
        if let Some(patch) = self.kernel_patch {
            command.arg("--kernel-patch").arg(patch);
        }
        if !self.check.is_empty() {
            command.args(["--no-files", "--check", self.check]);
        }
        if self.delay_every > 0 {
            command.args(["--delay-every", &self.delay_every.to_string()]);
        }
        command.args(["--migrate-every", "3", "--seed", &self.seed.to_string()]);
        command.args(["--states", &self.mounted.to_string()]);
        if self.states > 0 {
            command.args(["--offline-states", &self.states.to_string()]);
            command.args((!self.check.is_empty()).then_some("--offline-check"));
        }
        command.args(["--json", "--out"]).arg(folder.path().join("out"));
        command.args(["--", "sh", "-c", self.script]).stdin(Stdio::null());
        let output = command.output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        if self.states == 0 {
            let [generated, distinct] = ["generated", "states"].map(|name| report[name].as_u64().unwrap());
            let bad = report["bad"].as_array().unwrap().len() as u64;
            return Found { generated, distinct, bad, unread: 0, report };
        }
        let counts = |name: &str| report["offline"]["counts"][name].as_u64().unwrap();
        let [generated, distinct, bad, unread] = ["generated", "distinct", "bad", "unread"].map(counts);
        Found { generated, distinct, bad, unread, report }
    }

    /// Everything is good, whoever judges.
    pub fn assert_good(&self, name: &str) -> Found {
        let found = self.run();
        println!(
            "{name}, seed {}: {} distinct states of {}, {} bad",
            self.seed, found.distinct, found.generated, found.bad
        );
        let mounted = found.report["bad"].as_array().unwrap().len();
        assert_eq!((found.bad, found.unread, mounted), (0, 0, 0), "{name}, seed {}: {:#}", self.seed, found.report);
        assert!(found.distinct > 100, "{name}: {:#}", found.report);
        found
    }
}

/// A configuration without what these tests do not use, so that mutants are compiled sooner, and with encrypted files.
pub fn reduced() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ordering_rig/reduced.config")
}

pub fn is_ready() -> bool {
    kernel_with_streams().is_some() && has("mkfs.ext4") && has("perl")
}
