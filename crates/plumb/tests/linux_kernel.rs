//! What the kernel of `plumb linux` can host, each proved by using it: BPF programs on tracepoints, pressure
//! figures, the multi-generational LRU, network delay, FUSE passthrough, RAM disks with snapshots, seccomp, quotas.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use std::path::{Path, PathBuf};
use std::process::Command;

use linux::{Charges, Ended, FileSystem, Kernel, Linux};
use linux_rig::{has, kernel, on_memory};
use tempfile::TempDir;

/// What `script` prints; it must not fail.
fn printed(kernel: &Kernel, run: &Linux, script: &str) -> String {
    let mut run = run.clone();
    run.environment = vec![("PATH".into(), "/usr/sbin:/usr/bin:/sbin:/bin".into())];
    let outcome = run.script(script).run(kernel).unwrap();
    let errors = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert_eq!(outcome.ended, Ended::Exited(0), "{}{errors}{}", outcome.text(), outcome.log);
    outcome.text()
}

fn on_file_system(file_system: FileSystem) -> Linux {
    let mut run = on_memory();
    run.file_system = file_system;
    run
}

/// A program of the folder `linux_kernel`, compiled; the guest sees it at the same path.
struct Helper {
    program: PathBuf,
    _folder: TempDir,
}

impl Helper {
    fn compile(name: &str) -> Option<Self> {
        if !has("gcc") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/linux_kernel").join(name).with_extension("c");
        let output = Command::new("gcc").args(["-O1", "-Wall", "-o"]).arg(&program).arg(source).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(Self { program, _folder: folder })
    }

    fn path(&self) -> String {
        self.program.display().to_string()
    }
}

/// The numbers of a line.
fn numbers(line: &str) -> Vec<u64> {
    line.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

#[test]
fn a_bpf_program_on_a_tracepoint_counts_the_pages_that_mincore_finds() {
    let (Some(kernel), Some(helper)) = (kernel(), Helper::compile("tracepoint")) else { return };
    if !has("mkfs.ext4") {
        return;
    }
    let script = format!(
        "dd if=/dev/zero of=file bs=1M count=9 2>/dev/null; sync; echo 3 > /proc/sys/vm/drop_caches; {} file",
        helper.path()
    );
    let text = printed(&kernel, &on_file_system(FileSystem::Ext4), &script);
    let [first, second] = text.lines().map(numbers).collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(first, [9 << 8, 9 << 8], "pages added, and pages cached");
    assert_eq!(second, first, "a second reading adds none");
}

#[test]
fn pressure_is_the_time_that_was_waited() {
    let Some(kernel) = kernel() else { return };
    // 1000 reads of 80 us, and the little that the shell reads.
    let total = "sed -n 's/some.*total=//p' /proc/pressure/io";
    let script =
        format!("{total}; dd if=$PLUMB_DEVICE of=/dev/null bs=4k count=1000 iflag=direct 2>/dev/null; {total}");
    let totals: Vec<u64> = printed(&kernel, &on_memory(), &script).lines().map(|line| line.parse().unwrap()).collect();
    let [before, after] = totals.try_into().unwrap();
    assert!((75_000..90_000).contains(&(after - before)), "{before} {after} us");
}

#[test]
fn generations_of_pages_are_kept_once_they_are_switched_on() {
    let Some(kernel) = kernel() else { return };
    let script = "cd /sys/kernel/mm/lru_gen; cat enabled; echo y > enabled; cat enabled
        grep -c '^ *[0-9]* *[0-9]* *[0-9]* *[0-9]* *$' /sys/kernel/debug/lru_gen";
    let text = printed(&kernel, &on_memory(), script);
    let [off, on, generations] = text.lines().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(off, "0x0000", "as kernels without it by default");
    assert_ne!(on, off);
    assert!(generations.parse::<u32>().unwrap() >= 2, "{text}");
}

#[test]
fn the_network_can_be_slow() {
    let (Some(kernel), Some(helper)) = (kernel(), Helper::compile("loopback")) else { return };
    if !has("tc") {
        return;
    }
    let program = helper.path();
    let script = format!("{program}; tc qdisc add dev lo root netem delay 7ms; {program}");
    let text = printed(&kernel, &on_memory(), &script);
    assert_eq!(text.lines().collect::<Vec<_>>(), ["0", "7000"], "microseconds");
}

#[test]
fn fuse_passes_reads_through() {
    let (Some(kernel), Some(helper)) = (kernel(), Helper::compile("passthrough")) else { return };
    if !has("mkfs.ext4") {
        return;
    }
    let script = format!("echo -n contents > file; mkdir /tmp/shown; {} /tmp/shown file", helper.path());
    let text = printed(&kernel, &on_file_system(FileSystem::Ext4), &script);
    assert_eq!(text, "contents\n0 reads\n");
}

#[test]
fn a_snapshot_of_a_ram_disk_leaves_it_as_it_was() {
    let Some(kernel) = kernel() else { return };
    if !has("dmsetup") {
        return;
    }
    let script = "test ! -e /dev/ram0
        for n in 0 1 2; do mknod /tmp/ram$n b 1 $n; : < /tmp/ram$n; done
        blockdev --getsize64 /dev/ram0; free -m | awk '/^Mem/ { print ($3 < 1000) }'
        page() { dd if=$1 bs=4k skip=$2 count=1 2>/dev/null | head -1; }
        write() { yes $1 | dd of=$2 bs=4k count=10 seek=$3 iflag=fullblock conv=fsync 2>/dev/null; }
        write before. /dev/ram0 0
        dmsetup create cut --noudevsync --table '0 2097152 snapshot /dev/ram0 /dev/ram1 N 8'; dmsetup mknodes
        write after.. /dev/mapper/cut 3
        page /dev/mapper/cut 3; page /dev/ram0 3; page /dev/mapper/cut 2
        dmsetup status cut
        dmsetup create empty --noudevsync --table '0 2000000000 zero'; dmsetup mknodes
        dmsetup create sparse --noudevsync --table '0 2000000000 snapshot /dev/mapper/empty /dev/ram2 N 8'
        dmsetup mknodes; write sparse. /dev/mapper/sparse 249999900; page /dev/mapper/sparse 249999909
        page /dev/mapper/sparse 0 | tr -d '\\0' | wc -c";
    let text = printed(&kernel, &on_memory(), script);
    let lines: Vec<&str> = text.lines().collect();
    // 10 pages are 80 sectors.
    let snapshot = "0 2097152 snapshot 80/2147483648 0";
    let seen = ["1099511627776", "1", "after..", "before.", "before.", snapshot, "sparse.", "0"];
    assert_eq!(lines, seen, "RAM disks of 1 TiB that take no memory");
}

#[test]
fn a_seccomp_filter_hands_calls_to_its_tracer() {
    let (Some(kernel), Some(helper)) = (kernel(), Helper::compile("seccomp")) else { return };
    let text = printed(&kernel, &on_memory(), &helper.path());
    assert_eq!(text, "424242 1 -1 EXDEV\n3 stops, status 0\n");
}

#[test]
fn quotas_are_kept() {
    let Some(kernel) = kernel() else { return };
    if !has("mkfs.ext4") || !has("mkfs.xfs") || !has("xfs_quota") || !has("setpriv") {
        return;
    }
    let mut ext4 = on_file_system(FileSystem::Ext4);
    ext4.mkfs_options = "-O quota".to_owned();
    ext4.mount_options = "usrquota".to_owned();
    let mut xfs = on_file_system(FileSystem::Xfs);
    xfs.mount_options = "uquota".to_owned();
    for run in [ext4, xfs] {
        // 1 MiB for the user 1234, and none for the others.
        let script = "chmod 777 .; xfs_quota -f -x -c 'limit -u bhard=1m 1234' .
            write() { setpriv --reuid=$1 --clear-groups dd if=/dev/zero of=of$1 bs=64k count=32 conv=fsync 2>&1 || true; }
            write 1234 | grep -o 'quota exceeded'; write 1235 | grep -c error || true; stat -c %s of1234 of1235";
        let text = printed(&kernel, &run, script);
        let [error, other_errors, full, whole] = text.lines().collect::<Vec<_>>().try_into().unwrap();
        assert_eq!((error, other_errors, whole), ("quota exceeded", "0", "2097152"), "{text}");
        let full: u64 = full.parse().unwrap();
        assert!((1 << 19..=1 << 20).contains(&full), "{:?}: {text}", run.file_system);
    }
}

/// Nothing takes time but what is said to: a program that only waits would wait for ever.
#[test]
fn loops_that_wait_for_a_coarse_clock_or_yield_come_to_an_end() {
    let Some(kernel) = kernel() else { return };
    let Some(spin) = Helper::compile("spin") else { return };
    // Also where copying costs: a clock's reading is no copy, and nobody idles for it.
    for charge in [None, Some(Charges { copy_ns_per_kib: 40, ..Charges::least() })] {
        let mut run = on_memory();
        run.charge = charge;
        let text = printed(&kernel, &run, &format!("timeout 60 {}", spin.path()));
        let lines: Vec<&str> = text.lines().collect();
        let [monotonic, realtime, "done"] = lines[..] else { panic!("{text}") };
        for reads in [monotonic, realtime] {
            assert!(reads.parse::<u32>().unwrap() < 20_000, "{text}");
        }
    }
}
