//! The ublk front-end under the stock 6.12 kernel (6.1 of Debian has no ublk).
#![allow(clippy::unwrap_used)]

mod common;

use common::{guest, judge_long, run};
use conformance::Series;

const START: &str = "\
need modules modprobe ublk_drv
";

#[test]
fn a_disk_is_made_used_and_taken_away() {
    judge_long(|| {
        let script = format!(
            "{START}
serve ssd --device samsung-980pro-1tb --set initial.fill=0 --ublk 0
device=/dev/ublkb0
check appears eventually 20 test -b $device
value flush $(cat /sys/block/ublkb0/queue/write_cache | tr ' ' -)
value fua $(cat /sys/block/ublkb0/queue/fua)
value discard $(cat /sys/block/ublkb0/queue/discard_max_bytes)
check raw fio_verify $device 16m
conventional_filesystems $device ext4
check discard blkdiscard -o 0 -l 16777216 $device
unserve ssd
check gone eventually 20 test ! -e $device
"
        );
        let report = run(&guest(Series::V6_12)?, "ublk", &script)?;
        assert_eq!(report.value("flush")?, "write-back");
        assert_eq!(report.value("fua")?, "1");
        assert!(report.number("discard")? > 0.0);
        Ok(())
    });
}

#[test]
fn zoned_and_conventional_disks_carry_file_systems() {
    judge_long(|| {
        let script = format!(
            "{START}
serve zoned --device wd-zn540 --set namespaces=[160] --set zone.size=\"16MiB\" --set zone.capacity=\"12MiB\" \
--set geometry.pages_per_block=12 --ublk 1
serve plain --device samsung-980pro-1tb --set initial.fill=0 --set lba=4096 --ublk 2
value model $(cat /sys/block/ublkb1/queue/zoned)
value append $(cat /sys/block/ublkb1/queue/zone_append_max_bytes)
check report blkzone report -c 3 /dev/ublkb1
check open blkzone open -o 0 -c 1 /dev/ublkb1
check close blkzone close -o 0 -c 1 /dev/ublkb1
check finish blkzone finish -o 0 -c 1 /dev/ublkb1
check full eventually 1 grep -q fu <(blkzone report -c 1 /dev/ublkb1)
check reset blkzone reset /dev/ublkb1
zoned_filesystems /dev/ublkb1 /dev/ublkb2 btrfs f2fs zonefs
conventional_filesystems /dev/ublkb2 xfs btrfs f2fs
unserve zoned
unserve plain
"
        );
        let report = run(&guest(Series::V6_12)?, "ublk-zoned", &script)?;
        assert_eq!(report.value("model")?, "host-managed");
        Ok(())
    });
}
