//! Who uses a disk that is about to go.

use std::path::Path;

use observe::mounts::Mounts;

/// Where file systems on a ublk disk or its partitions are mounted, as far as this
/// process's mount namespace shows them. Empty where `/proc` or `/sys` is not there.
pub(crate) fn of(id: u32) -> Vec<String> {
    on(&Mounts::now().unwrap_or_default(), &format!("/dev/ublkb{id}"))
}

/// Mount points of `disk` and its partitions.
fn on(mounts: &Mounts, disk: &str) -> Vec<String> {
    let mounted = mounts.iter().filter(|mount| is_of(&mount.source, disk));
    mounted.map(|mount| mount.point.display().to_string()).collect()
}

/// Whether a device is `disk` or one of its partitions.
fn is_of(device: &Path, disk: &str) -> bool {
    let Some(partition) = device.to_str().and_then(|device| device.strip_prefix(disk)) else { return false };
    let number = partition.strip_prefix('p');
    partition.is_empty() || number.is_some_and(|number| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_and_partitions() {
        let mounts = b"\
36 35 98:0 / /mnt1 rw,noatime master:1 - ext4 /dev/ublkb1 rw,errors=continue
37 35 98:1 / /mnt2 rw - xfs /dev/ublkb1p2 rw
38 35 98:2 / /mnt3 rw - xfs /dev/ublkb12 rw
39 35 98:2 / /mnt4 rw shared:2 - tmpfs tmpfs rw
broken";
        let mounts = Mounts::parse(mounts);
        assert_eq!(on(&mounts, "/dev/ublkb1"), ["/mnt1", "/mnt2"]);
        assert_eq!(on(&mounts, "/dev/ublkb12"), ["/mnt3"]);
        assert!(on(&mounts, "/dev/ublkb3").is_empty());
    }
}
