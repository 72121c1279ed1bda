//! States of ext4 that are judged without a kernel, beside the verdicts of mounts, over everything that files can be made of.

#![allow(clippy::unwrap_used)]

mod crash_rig;
mod linux_rig;

use crash_rig::{Trial, bad};

/// What a file system is made of, and the words of mkfs for it.
const KINDS: [(&str, &str); 4] = [
    ("4 KiB", "-b 4096"),
    ("1 KiB", "-b 1024"),
    ("2 KiB, small inodes", "-b 2048 -I 128"),
    ("in inodes", "-b 4096 -I 256 -O inline_data"),
];

/// Free blocks that hold something, so that whoever reads what was never written is seen; and then a disk that is nearly full.
const BEFORE: &str = "yes OLD | head -c 9000000 > old; sync; rm old; sync; yes filler | head -c FILLER > filler; sync";

/// Preallocated files, holes, ranges taken out, small files, long links, a tree of extents with inner blocks.
const SCRIPT: &str = "for i in 1 2 3; do
    fallocate -l 40000 p$i; yes $i | dd of=p$i bs=3000 count=2 seek=3 conv=notrunc status=none; sync p$i
    fallocate -n -l 80000 -o 20000 p$i; sync .
    yes h$i | head -c 60000 > h$i; fallocate -p -o 8192 -l 20480 h$i; sync h$i
    fallocate -c -o 4096 -l 8192 h$i; sync h$i
    fallocate -z -o 0 -l 8192 h$i; sync h$i
    echo small $i > s$i; yes $i | head -c 130 > t$i; ln -s target$i l$i; ln -s $(yes a | head -n 100 | tr -d '\\n') m$i; mkdir d$i; echo > d$i/x
    sync .; echo more >> s$i; sync s$i
    for at in $(seq 2 2 40); do dd if=/dev/zero of=e bs=4096 count=1 seek=$at conv=notrunc status=none; done; sync e
    yes full | head -c 1500000 > full$i || true; sync full$i; mv full$i full
done";

#[test]
fn what_is_preallocated_punched_or_in_inodes_is_read_as_the_kernel_reads_it() {
    let states = if linux_rig::is_long() { "20000" } else { "500" };
    for (name, words) in KINDS {
        let Some(trial) = Trial::new("ext4") else { return };
        let filler = if name == "4 KiB" { "9000000" } else { "100000" };
        let before = BEFORE.replace("FILLER", filler);
        let flags = ["--size", "16MiB", "--mkfs-options", words, "--setup", &before];
        let flags = [&flags[..], &["--states", "20", "--offline-states", states]].concat();
        let (status, report) = trial.run(&flags, SCRIPT);
        let counts = &report["offline"]["counts"];
        println!("{name}: {counts}; mounted {}", report["states"]);
        assert_eq!((counts["bad"].as_u64(), counts["unread"].as_u64()), (Some(0), Some(0)), "{name}: {report:#}");
        assert!(counts["distinct"].as_u64() > Some(100), "{name}: {counts}");
        assert_eq!((status, bad(&report).len()), (0, 0), "{name}: {report:#}");
    }
}
