//! Who has a block device in use, in words for the operator.

use std::fs;
use std::io;
use std::path::Path;

use observe::mounts::Mounts;

use super::loop_device::LoopNumber;

/// The loop devices' major number.
const LOOP_MAJOR: u32 = 7;
/// Processes named at most; more are "and others".
const PROCESSES_MAX: usize = 5;

/// Detaches the device with this label, as [`LoopNumber::detach`] does; who has it in use until it is let go. It is held before they are
/// looked for: they are its own, and nobody else's who has got its number.
pub(crate) fn detach_from_users(device: LoopNumber, label: &str) -> io::Result<Vec<String>> {
    let held = device.hold(|found| found == label)?;
    let users = users(device);
    held.detach()?;
    Ok(users)
}

/// What keeps `device` busy: mounts (of this mount namespace), swap, devices on
/// top of it, and processes that have it open. Empty where nothing was found.
pub(crate) fn users(device: LoopNumber) -> Vec<String> {
    let path = device.path();
    let mut users = mounted_at(&Mounts::now().unwrap_or_default(), device);
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().any(|line| line.split_whitespace().next().is_some_and(|first| Path::new(first) == path)) {
        users.push("used as swap".to_owned());
    }
    if let Ok(holders) = fs::read_dir(format!("/sys/block/loop{}/holders", device.0)) {
        users.extend(holders.flatten().map(|holder| format!("under {}", holder.file_name().to_string_lossy())));
    }
    users.extend(open_in(&path));
    users
}

/// Where a device is mounted. A file system of several devices has a device number of its own and names one of
/// them as its source.
fn mounted_at(mounts: &Mounts, device: LoopNumber) -> Vec<String> {
    let (number, path) = (rustix::fs::makedev(LOOP_MAJOR, device.0), device.path());
    let of_device = mounts.iter().filter(|mount| mount.kernel_device == number || mount.source == path);
    of_device.map(|mount| format!("mounted at {}", mount.point.display())).collect()
}

/// The processes that have `path` open, as far as /proc shows them.
fn open_in(path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(processes) = fs::read_dir("/proc") else { return found };
    let own = std::process::id();
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else { continue };
        let opens = |entry: fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|target| target == path);
        if pid == own || !descriptors.flatten().any(opens) {
            continue;
        }
        if found.len() == PROCESSES_MAX {
            found.push("and others".to_owned());
            break;
        }
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        found.push(format!("opened by {} (process {pid})", name.trim()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_mounts_by_number_and_by_source() {
        let mounts = b"\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
90 22 7:3 / /mnt/a\\040b rw,relatime - ext4 /dev/loop3 rw
91 22 0:51 / /mnt/btrfs rw - btrfs /dev/loop3 rw,ssd
92 22 7:30 / /mnt/other rw - xfs /dev/loop30 rw
short line
";
        let mounts = Mounts::parse(mounts);
        assert_eq!(mounted_at(&mounts, LoopNumber(3)), ["mounted at /mnt/a b", "mounted at /mnt/btrfs"]);
        assert_eq!(mounted_at(&mounts, LoopNumber(0)), [""; 0]);
    }
}
