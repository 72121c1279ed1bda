//! Memory pressure: a workload that fills its memory cgroup through the loop
//! device, and a server inside one.
#![allow(clippy::unwrap_used)]

mod loop_rig;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use loop_rig::{FileSystem, PATIENCE, Rig, SMALL_DRIVE, Tried, finish, skipped};

/// A memory cgroup for a test, of version 1 or 2.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// `None` where none can be made. `name` tells it from the groups of this
    /// program's other tests, which run beside this one.
    fn new(name: &str, limit_bytes: u64) -> Option<Self> {
        let name = format!("plumb-test-{}-{name}", std::process::id());
        for (root, file) in [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")] {
            let group = PathBuf::from(root).join(&name);
            if fs::create_dir(&group).is_err() {
                continue;
            }
            let group = Self(group);
            // The kernel makes the file; in a plain folder there is none.
            let set = fs::OpenOptions::new().write(true).open(group.0.join(file));
            if set.and_then(|mut set| set.write_all(limit_bytes.to_string().as_bytes())).is_ok() {
                return Some(group);
            }
        }
        None
    }

    /// A command that runs inside, with the arguments that follow.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.0.display());
        command.args(["-c", &enter, "sh", program]);
        command
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn write_buffered(rig: &Rig, group: &MemoryGroup, megabytes: u64) {
    let mut fio = group.command("fio");
    fio.args(["--name=w", "--rw=write", "--bs=1m", "--end_fsync=1", &format!("--size={megabytes}m")])
        .arg(format!("--directory={}", rig.place().display()))
        .current_dir(rig.path(""));
    finish(&mut fio, PATIENCE).ok();
}

/// Buffered writes of several times what the workload may have in memory: the
/// kernel must write to the device to go on.
#[test]
fn a_workload_short_of_memory_goes_on() {
    let programs = [&FileSystem::Ext4.programs()[..], &["fio"]].concat();
    if skipped(&programs) {
        return;
    }
    let Some(group) = MemoryGroup::new("workload", 128 << 20) else {
        println!("skipped: no memory cgroup can be made");
        return;
    };
    let mut rig = Rig::start(SMALL_DRIVE);
    rig.mkfs(FileSystem::Ext4);
    rig.mount(FileSystem::Ext4);
    write_buffered(&rig, &group, 700);
    rig.unmount();
    FileSystem::Ext4.check(&rig.device).unwrap();
    rig.stop();
}

/// A server in a group with a limit is refused, for its contents would have to be
/// written to itself; with memory for all of its contents set aside it is fast,
/// also when the workload fills the same group.
#[test]
fn a_server_short_of_memory_is_refused_or_prepared() {
    let programs = [&FileSystem::Ext4.programs()[..], &["fio"]].concat();
    if skipped(&programs) {
        return;
    }
    let Some(group) = MemoryGroup::new("server", 1200 << 20) else {
        println!("skipped: no memory cgroup can be made");
        return;
    };
    let small: Vec<&str> = SMALL_DRIVE
        .iter()
        .map(|argument| if argument.starts_with("namespaces") { "namespaces=[\"700MiB\"]" } else { argument })
        .collect();
    let refused = finish(group.command(env!("CARGO_BIN_EXE_plumb")).args(["serve", "--loop"]).args(&small), PATIENCE);
    assert!(!refused.status.success());
    let said: String = refused.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("memory cgroup") && said.contains("--prefault 734003200"), "{said}");

    let mut rig =
        Rig::start_as(group.command(env!("CARGO_BIN_EXE_plumb")), &[&small[..], &["--prefault", "734003200"]].concat());
    rig.mkfs(FileSystem::Ext4);
    rig.mount(FileSystem::Ext4);
    write_buffered(&rig, &group, 500);
    rig.unmount();
    FileSystem::Ext4.check(&rig.device).unwrap();
    rig.stop();
}
