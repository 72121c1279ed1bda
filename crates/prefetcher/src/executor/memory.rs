//! How much memory may be used, looked at ten times a second: what the machine has available, what the control groups of the
//! launcher leave (its command is in the same one, and so are the pages that are loaded), and whether tasks wait for memory
//! already.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::policies::Limits;
use crate::shared::{Header, Table};

/// What is left to everybody else: an eighth of what is available is never counted on.
const SHARE_LEFT: u64 = 8;

/// One window is at most this: twice what a fast device delivers (4 GB/s) in the time that is allowed for below.
const WINDOW_BYTES: u64 = 8 << 20;

/// What passes besides the device's own time before a window is there: it waits behind others, and the executor has to be woken.
const BEHIND_OTHERS_NS: u64 = 1_000_000;

/// A file's windows that are ahead of its readers.
const AHEAD_WINDOWS: u64 = 8;

/// Percent of the time in which some task waited for memory (`some avg10` of /proc/pressure/memory) from which on nothing is loaded.
const PRESSURE_PERCENT: f64 = 10.0;

/// The budget.
pub struct Memory {
    asked_bytes: Option<u64>,
    groups: Vec<PathBuf>,
    free_bytes: AtomicU64,
}

impl Memory {
    /// With as much as was asked for, if anything was. The limits of `others`, folders of control groups, count beside those of the own.
    pub fn new(asked_bytes: Option<u64>, others: Vec<PathBuf>) -> Self {
        let mut groups = fs::read_to_string("/proc/self/cgroup").map_or_else(|_| Vec::new(), |text| groups(&text));
        groups.extend(others);
        Self { asked_bytes, groups, free_bytes: AtomicU64::new(0) }
    }

    /// Looks how much there is, and tells programs how far they may plan.
    pub fn look(&self, table: &Table) {
        let available = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text)).unwrap_or(0);
        let least = self.groups.iter().filter_map(|group| left(group)).fold(available, u64::min);
        let pressure = fs::read_to_string("/proc/pressure/memory").ok().and_then(|text| pressure(&text));
        let free = if pressure.is_some_and(|percent| percent >= PRESSURE_PERCENT) {
            0
        } else {
            budget(self.asked_bytes, least)
        };
        self.free_bytes.store(free, Ordering::Relaxed);
        let window = window_bytes(&table.header, (free / AHEAD_WINDOWS).min(WINDOW_BYTES));
        table.header.window_bytes.store(window, Ordering::Relaxed);
        table.header.ahead_bytes.store(window * AHEAD_WINDOWS, Ordering::Relaxed);
    }

    /// Bytes that may be loaded now.
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }
}

/// The window for the device, as far as it has been measured: within `most_bytes`.
fn window_bytes(header: &Header, most_bytes: u64) -> u64 {
    if header.is_measured.load(Ordering::Acquire) == 0 {
        return most_bytes;
    }
    let latency_ns = header.latency_ns.load(Ordering::Relaxed).saturating_add(BEHIND_OTHERS_NS);
    Limits::window_bytes(header.bandwidth_bytes_per_second.load(Ordering::Relaxed), latency_ns, most_bytes)
}

/// What may be used of what is available.
fn budget(asked_bytes: Option<u64>, available_bytes: u64) -> u64 {
    let usable = available_bytes - available_bytes / SHARE_LEFT;
    asked_bytes.unwrap_or(available_bytes / 2).min(usable)
}

/// `MemAvailable` of /proc/meminfo.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// `some avg10` of a pressure file.
fn pressure(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("some avg10="))?.split(' ').next()?.parse().ok()
}

/// The folders of the control group that /proc/self/cgroup names, and of those that it is in.
fn groups(text: &str) -> Vec<PathBuf> {
    let Some(path) = text.lines().find_map(|line| line.strip_prefix("0::/")) else { return Vec::new() };
    let root = Path::new("/sys/fs/cgroup");
    // The root itself has no limits.
    root.join(path).ancestors().take_while(|folder| *folder != root).map(Path::to_owned).collect()
}

/// What a group may still take in: up to its limit, or to where it is slowed down; pages that nobody has used lately make room.
fn left(group: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let limit = [number("memory.max"), number("memory.high")].into_iter().flatten().min()?;
    let used = number("memory.current")?;
    let inactive = read("memory.stat")?.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok());
    Some(limit.saturating_sub(used.saturating_sub(inactive.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_proc_are_read() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   16 kB\n"), Some(16384));
        assert_eq!((available(""), available("MemAvailable: x kB")), (None, None));
        assert_eq!(pressure("some avg10=12.50 avg60=0.00 avg300=0.00 total=0\nfull avg10=1.00"), Some(12.5));
        assert_eq!(groups("1:cpu:/a\n0::/a/b\n"), [Path::new("/sys/fs/cgroup/a/b"), Path::new("/sys/fs/cgroup/a")]);
        assert!(groups("0::/\n").is_empty() && groups("").is_empty());
        assert!(available(&fs::read_to_string("/proc/meminfo").unwrap()).is_some());
    }

    #[test]
    fn a_group_leaves_what_its_limit_does() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("memory.max", "max\n");
        write("memory.high", "1000\n");
        write("memory.current", "700\n");
        write("memory.stat", "anon 5\ninactive_file 100\nactive_file 3\n");
        assert_eq!(left(folder.path()), Some(400));
        write("memory.max", "500\n");
        assert_eq!(left(folder.path()), Some(0));
        write("memory.max", "max\n");
        write("memory.high", "max\n");
        assert_eq!(left(folder.path()), None);
    }

    #[test]
    fn windows_are_of_the_device_when_it_has_been_measured() {
        let shared = crate::table::Shared::make(&crate::settings::Settings::default(), false).unwrap();
        let header = &shared.table().header;
        let window = |bandwidth: u64, latency: u64, is_measured| {
            header.bandwidth_bytes_per_second.store(bandwidth, Ordering::Relaxed);
            header.latency_ns.store(latency, Ordering::Relaxed);
            header.is_measured.store(is_measured, Ordering::Relaxed);
            window_bytes(header, WINDOW_BYTES)
        };
        assert_eq!(window(500_000_000, 100_000, 0), WINDOW_BYTES);
        let page_bytes = 4096;
        assert_eq!(window(500_000_000, 100_000, 1), 1_100_000 / page_bytes * page_bytes);
        assert_eq!(window(150_000_000, 8_000_000, 1), 2_700_000 / page_bytes * page_bytes);
        assert_eq!(window(6_000_000_000, 60_000, 1), WINDOW_BYTES);
    }

    #[test]
    fn a_budget_never_takes_all() {
        assert_eq!((budget(None, 800), budget(Some(100), 800), budget(Some(u64::MAX), 800)), (400, 100, 700));
        assert_eq!((budget(None, 0), budget(Some(5), u64::MAX)), (0, 5));
    }
}
