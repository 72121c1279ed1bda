//! Who uses a disk that is about to go.

use std::fs;

/// Where file systems on a ublk disk or its partitions are mounted, as far as this
/// process's mount namespace shows them. Empty where `/proc` or `/sys` is not there.
pub(crate) fn of(id: u32) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    on(&table, &format!("/dev/ublkb{id}"))
}

/// Mount points of `disk` and its partitions in a mount table (proc(5),
/// `/proc/PID/mountinfo`: the mount point is the fifth field, the source the second
/// after the dash).
fn on(table: &str, disk: &str) -> Vec<String> {
    let mounted = |line: &str| {
        let (place, rest) = line.split_once(" - ")?;
        let source = rest.split(' ').nth(1)?;
        let partition = source.strip_prefix(disk)?;
        let is_partition = partition.strip_prefix('p').is_some_and(|number| number.parse::<u32>().is_ok());
        (partition.is_empty() || is_partition).then(|| place.split(' ').nth(4).map(str::to_owned))?
    };
    table.lines().filter_map(mounted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_and_partitions() {
        let table = "\
36 35 98:0 / /mnt1 rw,noatime master:1 - ext4 /dev/ublkb1 rw,errors=continue
37 35 98:1 / /mnt2 rw - xfs /dev/ublkb1p2 rw
38 35 98:2 / /mnt3 rw - xfs /dev/ublkb12 rw
39 35 98:2 / /mnt4 rw shared:2 - tmpfs tmpfs rw
broken";
        assert_eq!(on(table, "/dev/ublkb1"), ["/mnt1", "/mnt2"]);
        assert_eq!(on(table, "/dev/ublkb12"), ["/mnt3"]);
        assert!(on(table, "/dev/ublkb3").is_empty());
    }
}
