//! States of ext4 that are judged without a kernel, beside the verdicts of mounts, over everything that files can be made of.

#![allow(clippy::unwrap_used)]

mod crash_rig;
mod linux_rig;

use std::collections::BTreeSet;

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

/// What is done to a file of each kind, as little as can be: its name, the words of mkfs, what is there before, and the command.
const STEPS: [(&str, &str, &str, &str); 8] = [
    ("preallocated", "-b 4096", ": > f", "fallocate -l 16384 f; sync f; WRITE seek=1; sync f"),
    ("punched", "-b 4096", "yes h | head -c 40000 > f", "fallocate -p -o 8192 -l 8192 f; sync f; WRITE seek=2; sync f"),
    (
        "collapsed",
        "-b 4096",
        "yes h | head -c 40000 > f",
        "fallocate -c -o 4096 -l 8192 f; sync f; WRITE seek=7; sync f",
    ),
    ("zeroed", "-b 4096", "yes h | head -c 40000 > f", "fallocate -z -o 4096 -l 8192 f; sync f; WRITE seek=9; sync f"),
    (
        "in its inode",
        "-b 4096 -I 256 -O inline_data",
        "echo a > f",
        "echo small >> f; sync f; yes 1 | head -c 130 >> f; sync f",
    ),
    ("1 KiB", "-b 1024", "yes h | head -c 9000 > f", "fallocate -p -o 2048 -l 2048 f; sync f; WRITE seek=2; sync f"),
    ("full", "-b 4096", "yes h | head -c 40000 > f; FILL", "WRITE seek=9; sync f; WRITE seek=19 || true; sync f"),
    ("deep", "-b 1024", DEEP, "WRITE seek=901; sync f; fallocate -p -o 20480 -l 1024 f; sync f"),
];

/// The one of them that is looked at in the short suite.
const SHORT: usize = 5;

/// One block each with a hole behind it: a leaf holds 84 extents of 1 KiB blocks and an inode four entries, so that more than 336 of them
/// take two levels of blocks above the leaves, which debugfs sees.
const DEEP: &str = "perl -e 'open(F, \">\", \"f\"); for (1 .. 400) { sysseek(F, $_ * 2048, 0); syswrite(F, \"deep\" x 256); }'; sync; echo 3 > /proc/sys/vm/drop_caches
    debugfs -R 'extents /f' $(df --output=source . | tail -n 1) 2> /dev/null | grep -q '^ 0/ 2'";

/// Every subset of what is undecided on a drive that says that it keeps the order, and does not: what is bad when the kernel mounts it
/// is bad without, state by state, and nothing else is.
#[test]
fn each_state_of_each_kind_is_told_as_the_kernel_tells_it() {
    // Each takes ten seconds.
    let steps = if linux_rig::is_long() { &STEPS[..] } else { &STEPS[SHORT..][..1] };
    for (name, words, before, script) in steps {
        let Some(trial) = Trial::new("ext4") else { return };
        if linux_rig::kernel_with_streams().is_none() {
            return;
        }
        let script =
            script.replace("WRITE", "yes w | dd of=f bs=4096 count=1 conv=notrunc iflag=fullblock status=none");
        let fill = "yes filler | head -c 20000000 > filler || true; sync";
        let before =
            format!("yes OLD | head -c 3000000 > old; sync; rm old; sync; {}; sync", before.replace("FILL", fill));
        let flags =
            ["--size", "16MiB", "--mkfs-options", words, "--setup", &before, "--ordering", "streams:one,counted"];
        let all = ["--set", "order=\"ignored\"", "--exhaustive", "10", "--offline-states", "1000000"];
        let (status, report) = trial.run(&[&flags[..], &all].concat(), &script);
        let counts = &report["offline"]["counts"];
        let named = |bad: &serde_json::Value| bad.as_str().unwrap().to_owned();
        let mounted: BTreeSet<String> = bad(&report).iter().map(|bad| named(&bad["verdict"]["state"])).collect();
        let shown = report["offline"]["shown"].as_array().unwrap();
        let without: BTreeSet<String> = shown.iter().map(|bad| named(&bad["state"])).collect();
        println!("{name}: {counts}; mounted {}, {} of them bad", report["states"], mounted.len());
        assert_eq!(mounted, without, "{name}: {report:#}");
        assert_eq!((status, counts["unread"].as_u64()), (1, Some(0)), "{name}: {counts}");
        assert_eq!(counts["distinct"].as_u64(), report["states"].as_u64(), "{name}: {counts}");
        assert!(!mounted.is_empty(), "{name}: {counts}");
    }
}
