//! What a guest's script found: checks, values, what it could not do, and what its kernel complained about.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::Error;

/// One check of a script.
#[derive(Debug, Clone)]
pub struct Check {
    /// Its name; what it printed is in `out/NAME` of the transcript.
    pub name: String,
    /// Nothing, or why it failed.
    pub failure: Option<String>,
    /// How long it took in the guest.
    pub elapsed: Duration,
}

/// The results of one guest.
#[derive(Debug)]
pub struct Report {
    folder: PathBuf,
    checks: Vec<Check>,
    values: BTreeMap<String, String>,
    unable: BTreeMap<String, String>,
    complaints: Vec<String>,
    finished: bool,
    stopped: Option<String>,
}

impl Report {
    /// Reads the transcript of a guest.
    pub fn read(folder: &Path) -> Result<Report, Error> {
        let text = |name: &str| -> String {
            fs::read(folder.join(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
        };
        let mut report = Report {
            folder: folder.to_path_buf(),
            checks: Vec::new(),
            values: BTreeMap::new(),
            unable: BTreeMap::new(),
            complaints: complaints(&text("kernel.log")),
            finished: false,
            stopped: None,
        };
        for complaint in complaints(&text("console.log")) {
            if !report.complaints.contains(&complaint) {
                report.complaints.push(complaint);
            }
        }
        for line in text("results").lines() {
            report
                .line(line)
                .ok_or_else(|| Error::answer("the guest's results", format!("cannot read the line {line:?}")))?;
        }
        Ok(report)
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let mut fields = line.split('\t');
        match (fields.next()?, fields.next(), fields.next(), fields.next()) {
            ("check", Some(name), Some(status), Some(elapsed_us)) => self.checks.push(Check {
                name: name.to_owned(),
                failure: (status != "ok").then(|| status.to_owned()),
                elapsed: Duration::from_micros(elapsed_us.parse().ok()?),
            }),
            ("value", Some(name), Some(value), None) => drop(self.values.insert(name.to_owned(), value.to_owned())),
            ("unable", Some(name), Some(why), None) => drop(self.unable.insert(name.to_owned(), why.to_owned())),
            ("end", why, None, None) => {
                self.finished = true;
                self.stopped = why.map(str::to_owned);
            }
            _ => return None,
        }
        Some(())
    }

    /// Whether the script came to its end.
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// All checks in the order they ran.
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// What the kernel could not do, with the reason.
    pub fn unable(&self) -> &BTreeMap<String, String> {
        &self.unable
    }

    /// Warnings, bugs, hung tasks and the like in the kernel's log, but those that are the kernel's own.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// The folder of the transcript.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a check of this name ran and passed.
    pub fn passed(&self, name: &str) -> bool {
        self.checks.iter().any(|check| check.name == name && check.failure.is_none())
    }

    /// A value the script reported.
    pub fn value(&self, name: &str) -> Result<&str, Error> {
        self.values.get(name).map(String::as_str).ok_or_else(|| {
            Error::answer("the guest's results", format!("no value {name}; see {}", self.folder.display()))
        })
    }

    /// A value the script reported, as a number.
    pub fn number(&self, name: &str) -> Result<f64, Error> {
        let value = self.value(name)?;
        value.parse().map_err(|_| Error::answer(name, format!("{value:?} is no number")))
    }

    /// What a check printed.
    pub fn output(&self, name: &str) -> Result<String, Error> {
        let path = self.folder.join("out").join(name);
        let bytes = fs::read(&path).map_err(Error::file(&path))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What a check printed, as JSON; lines before the first `{` (a program's notes) are passed over.
    pub fn json(&self, name: &str) -> Result<Value, Error> {
        let text = self.output(name)?;
        let start = text.find('{').unwrap_or(0);
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(Error::answer(name, error.to_string())),
            None => Err(Error::answer(name, "printed nothing")),
        }
    }

    /// Everything that went wrong, in words; empty when all is well.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for check in &self.checks {
            if let Some(failure) = &check.failure {
                let printed = self.output(&check.name).unwrap_or_default();
                faults.push(format!("{}: {failure}\n{}", check.name, crate::host::tail(&printed, 8)));
            }
        }
        faults.extend(self.stopped.iter().cloned());
        if !self.finished {
            faults.push("the script did not reach its end".to_owned());
        }
        if self.checks.is_empty() {
            faults.push("no check ran".to_owned());
        }
        faults.extend(self.complaints.iter().map(|line| format!("kernel: {line}")));
        faults
    }
}

/// Warnings by which a kernel tells of a defect of its own, on any device.
const OWN: [&str; 1] = [
    // Linux 6.1: the cleaner removes an unused block group of a zoned device while it is still the one that metadata goes to.
    "fs/btrfs/block-group.c:1111 btrfs_remove_block_group",
];

/// Lines of a kernel log that no healthy run has (`kernel/panic.c`, `kernel/hung_task.c`, `lib/bug.c`, `kernel/locking/lockdep.c`).
fn complaints(log: &str) -> Vec<String> {
    const SIGNS: [&str; 15] = [
        "Kernel panic",
        "Oops",
        "BUG:",
        "kernel BUG at",
        "WARNING: CPU:",
        // lockdep
        "WARNING: possible",
        "inconsistent lock state",
        "suspicious RCU usage",
        "general protection fault",
        "blocked for more than",
        "soft lockup",
        "refcount_t:",
        "UBSAN:",
        "list_add corruption",
        "Out of memory",
    ];
    let message = |line: &str| {
        // /dev/kmsg writes "level,number,time,flags;text", the console "[ time] text".
        let text = line
            .split_once(';')
            .filter(|(head, _)| head.starts_with(|c: char| c.is_ascii_digit()))
            .map_or(line, |(_, text)| text);
        text.split_once("] ").filter(|_| text.starts_with('[')).map_or(text, |(_, text)| text).trim().to_owned()
    };
    let has = |line: &str, words: &[&str]| words.iter().any(|word| line.contains(word));
    log.lines().filter(|line| has(line, &SIGNS) && !has(line, &OWN)).map(message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(results: &str, kernel: &str) -> (tempfile::TempDir, Report) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("results"), results).unwrap();
        fs::write(folder.path().join("kernel.log"), kernel).unwrap();
        let report = Report::read(folder.path()).unwrap();
        (folder, report)
    }

    #[test]
    fn a_clean_run_has_no_faults() {
        let (_folder, report) = transcript("check\ta\tok\t5\nvalue\tx\t1.5\nend\n", "6,1,2,-;all is well\n");
        assert_eq!(report.faults(), Vec::<String>::new());
        assert_eq!(report.number("x").unwrap(), 1.5);
        assert!(report.passed("a"));
    }

    #[test]
    fn a_kernels_own_defect_is_no_fault_of_the_device() {
        let own =
            "4,1,2,-;WARNING: CPU: 0 PID: 431 at fs/btrfs/block-group.c:1111 btrfs_remove_block_group.cold+0x0/0x7e\n";
        let (_folder, report) = transcript("check\ta\tok\t5\nend\n", own);
        assert_eq!(report.faults(), Vec::<String>::new());
    }

    #[test]
    fn every_kind_of_failure_is_a_fault() {
        let healthy = "check\ta\tok\t5\nend\n";
        for (results, kernel) in [
            ("check\ta\tstatus 1\t5\nend\n", ""),
            ("check\ta\tok\t5\n", ""),
            ("end\n", ""),
            ("check\ta\tok\t5\nend\tstopped: a failed\n", ""),
            (healthy, "3,1,2,-;INFO: task fio:1 blocked for more than 60 seconds.\n"),
            (healthy, "4,1,2,-;WARNING: CPU: 0 PID: 1 at block/blk.c:1\n"),
            (healthy, "4,1,2,-;WARNING: possible circular locking dependency detected\n"),
        ] {
            let (_folder, report) = transcript(results, kernel);
            assert!(!report.faults().is_empty(), "{results:?} {kernel:?}");
        }
    }

    #[test]
    fn a_line_that_is_no_result_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("results"), "chekc\ta\tok\t5\n").unwrap();
        assert!(Report::read(folder.path()).is_err());
    }
}
