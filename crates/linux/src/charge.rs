//! What the processor's work costs where it is charged.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use units::ServerCosts;

use crate::error::LinuxError;

/// The parameter that a process sets to 1 for itself and those it starts, so that they pay.
pub const OWN_SWITCH: &str = "/sys/module/charge/parameters/self";

/// A cost is some seconds at most: a larger one is a slip of the hand.
const MOST_NS: u32 = 1_000_000_000;

/// A table of costs, measured on a machine (`plumb calibrate cpu`): in the guest each process of the command sleeps for what it owes
/// before it goes on in its own code (`kernel/time-travel/0008-*.patch` and `0010-*.patch`). What programs compute stays free, and every
/// process has a processor of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Charges {
    /// Entering the kernel and leaving it. Not for reads of clocks, which are no system calls elsewhere.
    pub system_call_ns: u32,
    /// To user space or from there.
    pub copy_ns_per_kib: u32,
    /// A path that a call names, of no components.
    pub path_ns: u32,
    /// Each component of one.
    pub path_component_ns: u32,
    /// A file that is opened, and closed again.
    pub open_ns: u32,
    /// A name that a folder gets or loses.
    pub name_change_ns: u32,
    /// A write to a file: what the file system does for it, however long it is.
    pub file_write_ns: u32,
    /// Each page of the page cache that it fills, or a part of it.
    pub page_write_ns: u32,
    /// A page that is mapped when it is touched.
    pub page_fault_ns: u32,
    /// A page that is put into the page cache, read or written.
    pub page_cache_add_ns: u32,
    /// Going on after having waited for something.
    pub context_switch_ns: u32,
    /// What a request to a FUSE server and its answer cost besides system calls, copies and switches.
    #[serde(default)]
    pub fuse_request_ns: u32,
    /// What the server of betrfs computes in its own code; free without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plumb_fs: Option<ServerCosts>,
}

impl Charges {
    /// What a program pays that would otherwise stop the clock: one that does not wait for anything, such as a loop that reads cached
    /// files, has system calls without end in no time at all. Round figures of the size that docs/charged-time.md measured.
    pub fn floor() -> Self {
        Self {
            system_call_ns: 200,
            copy_ns_per_kib: 40,
            page_fault_ns: 500,
            context_switch_ns: 1000,
            ..Self::default()
        }
    }

    /// Less than any processor takes, of calls and faults alone: what a program's figures hardly show, and what keeps one that never
    /// waits from stopping the clock.
    pub fn least() -> Self {
        Self { system_call_ns: 100, page_fault_ns: 250, ..Self::default() }
    }

    /// Reads a table that [`to_toml`](Self::to_toml) wrote.
    ///
    /// # Errors
    /// [`LinuxError::Invalid`] with the file and the line where it cannot be read, lacks an entry or has one that is none.
    pub fn read(file: &Path) -> Result<Self, LinuxError> {
        let invalid = |error: &dyn std::fmt::Display| LinuxError::Invalid {
            message: format!(
                "the table of processor costs {}: {error} (`plumb calibrate cpu --out FILE` makes one)",
                file.display()
            ),
        };
        let text = fs::read_to_string(file).map_err(|error| invalid(&error))?;
        let charges: Self = toml::from_str(&text).map_err(|error| invalid(&error.to_string().trim_end()))?;
        let of_server = charges.plumb_fs.iter().flat_map(ServerCosts::entries);
        match charges.entries().into_iter().chain(of_server).find(|(_, ns)| *ns > MOST_NS) {
            Some((name, ns)) => Err(invalid(&format!("{name} = {ns} is more than a second"))),
            None => Ok(charges),
        }
    }

    /// The table as a file, with `about` as comments above it.
    pub fn to_toml(&self, about: &[String]) -> String {
        let comments: String = about.iter().map(|line| format!("# {line}\n")).collect();
        let lines =
            |entries: &[(&str, u32)]| entries.iter().map(|(name, ns)| format!("{name} = {ns}\n")).collect::<String>();
        let of_server = self.plumb_fs.as_ref().map(|server| format!("\n[plumb_fs]\n{}", lines(&server.entries())));
        comments + &lines(&self.entries()) + &of_server.unwrap_or_default()
    }

    /// What a result says of the processor's time.
    pub fn word(charge: Option<&Self>) -> &'static str {
        match charge {
            None => "free",
            Some(charge) if *charge == Self::least() => "100 ns a system call",
            Some(_) => "charged",
        }
    }

    /// Names and values, as in the file, of what the kernel does.
    pub fn entries(&self) -> [(&'static str, u32); 12] {
        [
            ("system_call_ns", self.system_call_ns),
            ("copy_ns_per_kib", self.copy_ns_per_kib),
            ("path_ns", self.path_ns),
            ("path_component_ns", self.path_component_ns),
            ("open_ns", self.open_ns),
            ("name_change_ns", self.name_change_ns),
            ("file_write_ns", self.file_write_ns),
            ("page_write_ns", self.page_write_ns),
            ("page_fault_ns", self.page_fault_ns),
            ("page_cache_add_ns", self.page_cache_add_ns),
            ("context_switch_ns", self.context_switch_ns),
            ("fuse_request_ns", self.fuse_request_ns),
        ]
    }

    /// Words for the kernel's command line.
    pub fn parameters(&self) -> Vec<String> {
        self.entries().map(|(name, ns)| format!("charge.{name}={ns}")).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Charges, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        Charges::read(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let charges = Charges { system_call_ns: 1, copy_ns_per_kib: 2, page_fault_ns: 3, ..Charges::default() };
        assert_eq!(read(&charges.to_toml(&["one".to_owned(), "two".to_owned()])).unwrap(), charges);
        let plumb_fs = Some(ServerCosts { change_ns: 4, loaded_ns_per_kib: 5, ..ServerCosts::default() });
        let charges = Charges { plumb_fs, ..charges };
        assert_eq!(read(&charges.to_toml(&[])).unwrap(), charges);
    }

    #[test]
    fn a_table_that_is_none_is_refused_with_its_place() {
        let good = Charges::default().to_toml(&[]);
        for (text, words) in [
            (String::new(), "missing field"),
            (good.replace("system_call_ns", "syscall_ns"), "syscall_ns"),
            (good.replace("page_fault_ns = 0", "page_fault_ns = -1"), "line 9"),
            (good.replace("page_fault_ns = 0", "page_fault_ns = 2000000000"), "more than a second"),
            (format!("{good}[plumb_fs]\nchange_ns = 1\n"), "missing field"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(words) && error.contains("calibrate cpu"), "{error}");
        }
    }
}
