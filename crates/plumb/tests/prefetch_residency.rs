//! What says which pages of a file are in memory agrees with mincore, page by page: bitmaps of BPF programs and cachemap(2), under a real
//! kernel in virtual time, and the bitmaps on this machine's kernel, which has large folios. The published record of readahead, which
//! reclaim does not clear, does not: that is what the comparison has to see.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use std::path::{Path, PathBuf};
use std::process::Command;

use linux::{FileSystem, FrontEnd};
use linux_rig::{has, kernel_named, on_memory};
use serde_json::Value;

/// `examples/agree.rs` of the crate `prefetcher`, beside this test's own program.
fn agree() -> Option<PathBuf> {
    let programs = std::env::current_exe().unwrap();
    let folder = programs.parent().and_then(Path::parent).unwrap();
    let program = folder.join("examples/agree");
    if !program.exists() {
        println!("skipped: {} is not built (cargo build -p plumb-prefetcher --example agree)", program.display());
        return None;
    }
    Some(program)
}

fn operations() -> u64 {
    if std::env::var_os("PLUMB_LONG").is_some() { 1_000_000 } else { 3_000 }
}

/// What it printed, and whether the exact ones were.
fn of(output: &[u8], exact: &[&str]) -> Value {
    let found: Value = serde_json::from_slice(output).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(output)));
    for name in exact {
        let wrong = &found["wrong"][name];
        assert_eq!((wrong["gone"].as_u64(), wrong["missed"].as_u64()), (Some(0), Some(0)), "{name}: {found}");
    }
    for kind in ["read", "write", "dontneed", "willneed", "truncate", "punch", "rename", "reuse", "fault", "direct"] {
        assert!(found["operations"][kind].as_u64() > Some(0), "{kind}: {found}");
    }
    assert!(found["inodes_reused"].as_u64() > Some(0), "{found}");
    found
}

#[test]
fn bitmaps_and_the_call_are_exact_and_the_published_record_is_not() {
    let (Some(kernel), Some(program)) = (kernel_named("cachemap"), agree()) else { return };
    if !has("mkfs.ext4") {
        return;
    }
    let run = || {
        let mut run = on_memory();
        run.front_end = FrontEnd::NullBlk;
        run.file_system = FileSystem::Ext4;
        run.mkfs_options = "-b 4096".into();
        // Less than the files: reclaim of the group's own, too.
        let script = format!(
            "set -e\ncd \"$PLUMB_MOUNT\"\necho +memory > /sys/fs/cgroup/cgroup.subtree_control\nmkdir /sys/fs/cgroup/agree\n\
             echo 18M > /sys/fs/cgroup/agree/memory.max\necho 0 > /sys/fs/cgroup/agree/cgroup.procs\n\
             {} . 7 {} /sys/fs/cgroup/agree/memory.reclaim\n",
            program.display(),
            operations()
        );
        run.script(&script).run(&kernel).unwrap()
    };
    let outcome = run();
    let said = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert_eq!(outcome.ended, linux::Ended::Exited(0), "{said} {}", String::from_utf8_lossy(&outcome.stdout));
    let found = of(&outcome.stdout, &["bpf", "call"]);
    assert!(found["operations"]["reclaim"].as_u64() > Some(0), "{found}");
    let record = &found["wrong"]["bitmap"];
    assert!(record["gone"].as_u64() > Some(0) && record["missed"].as_u64() > Some(0), "{found}");
    println!("{found}");
    if std::env::var_os("PLUMB_LONG").is_none() {
        assert_eq!(outcome.stdout, run().stdout, "the same digits");
    }
}

#[test]
fn bitmaps_are_exact_on_this_kernel() {
    let Some(program) = agree() else { return };
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let output =
        Command::new(program).arg(folder.path()).args(["11", &operations().min(50_000).to_string()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("no bitmaps of BPF programs") {
        println!("skipped: {}", said.trim());
        return;
    }
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stdout));
    println!("{}", of(&output.stdout, &["bpf"]));
}

/// Reads 16 KiB of every 128 KiB of a file, without a library that could be preloaded.
const STRIDES: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    static char buffer[16384];
    int file = open(argv[1], O_RDONLY);
    long sum = 0, at = 0;
    for (; pread(file, buffer, sizeof buffer, at) == sizeof buffer; at += 131072) {
        sum += buffer[at / 131072];
        if (at == 0) usleep(100000);
    }
    printf("%ld\n", sum);
    return argc != 2;
}
"#;

/// The program, and a file for it that is not in memory.
fn strides(folder: &Path) -> Option<[PathBuf; 2]> {
    if !has("gcc") {
        return None;
    }
    let [source, program, data] = ["strides.c", "strides", "data"].map(|name| folder.join(name));
    std::fs::write(&source, STRIDES).unwrap();
    let built = Command::new("gcc").args(["-O1", "-static", "-o"]).arg(&program).arg(&source).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    std::fs::write(&data, vec![3; 32 << 20]).unwrap();
    Some([program, data])
}

#[test]
fn a_static_program_is_watched_in_the_kernel() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let Some([program, data]) = strides(folder.path()) else { return };
    let file = std::fs::File::open(&data).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let report = folder.path().join("report.json");
    let output = Command::new(linux_rig::PLUMB)
        .args(["prefetch", "run", "--stats", "--json"])
        .args([&report, Path::new("--"), &program, &data])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"768\n"[..]), "{said}");
    if !said.contains("seen in the kernel instead") {
        println!("skipped: reads cannot be watched in this kernel, or not by this user");
        return;
    }
    let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    assert!(report["accesses"].as_u64() > Some(128), "{report} {said}");
    assert!(report["requests"].as_u64() > Some(0), "{report}");
}

#[test]
fn an_agent_loads_for_a_control_group() {
    let Some(kernel) = kernel_named("cachemap") else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some([program, data]) = strides(folder.path()) else { return };
    if !has("mkfs.ext4") {
        return;
    }
    // The second time another group of the same agent is no memory for: nothing is loaded that others would have to make room for.
    for (limit, loads) in [("max", true), ("0", false)] {
        let mut run = on_memory();
        run.file_system = FileSystem::Ext4;
        let (plumb, program, data) = (linux_rig::PLUMB, program.display(), data.display());
        let script = format!(
            "set -e\necho +memory > /sys/fs/cgroup/cgroup.subtree_control\n\
             mkdir /sys/fs/cgroup/served /sys/fs/cgroup/beside\necho {limit} > /sys/fs/cgroup/beside/memory.high\n\
             cp {data} $PLUMB_MOUNT/data; sync; echo 3 > /proc/sys/vm/drop_caches\n\
             {plumb} prefetch agent --socket /tmp/agent --prefetch-for /sys/fs/cgroup/served \
             --prefetch-for /sys/fs/cgroup/beside 2> /tmp/said &\n\
             while ! [ -e /tmp/agent ]; do sleep 0.01; done; sleep 0.2\n\
             sh -c \"echo 0 > /sys/fs/cgroup/served/cgroup.procs; exec {program} $PLUMB_MOUNT/data\"\n\
             {plumb} prefetch agent --socket /tmp/agent --status\n\
             kill -INT $!; wait $!; cat /tmp/said >&2\n"
        );
        let outcome = run.script(&script).run(&kernel).unwrap();
        let said = String::from_utf8_lossy(&outcome.stderr).into_owned();
        assert_eq!(outcome.ended, linux::Ended::Exited(0), "{said}");
        let printed = String::from_utf8(outcome.stdout).unwrap();
        let (read, status) = printed.split_once('\n').unwrap();
        assert_eq!(read, "768", "{printed}");
        let status: Value = serde_json::from_str(status).unwrap();
        let of = |name: &str| status["groups"][name].as_u64().unwrap_or_else(|| panic!("{name}: {status}"));
        assert!(of("reads_seen") > 128, "{status}");
        assert_eq!(of("windows_loaded") > 0, loads, "memory.high {limit}: {status}");
        assert_eq!(of("loaded_bytes") > 0, loads, "memory.high {limit}: {status}");
        assert!(said.contains(&format!("{} reads seen", of("reads_seen"))), "{said} {status}");
    }
}
