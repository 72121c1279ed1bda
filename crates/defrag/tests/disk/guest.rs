//! What this kernel has not, F2FS or an older kernel's events, under a real kernel in virtual time: the test runs
//! itself once more, inside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::System;

const INSIDE: &str = "PLUMB_DEFRAG_INSIDE";

/// Runs `test` here if this kernel has F2FS, otherwise the test called `name` of this program under `plumb linux`.
pub fn with_f2fs(name: &str, test: impl FnOnce()) {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    here_or_inside(known.split_whitespace().any(|word| word == System::F2fs.name()), name, test);
}

/// The same for a kernel that does not tell what readahead asks for (before Linux 6.18).
pub fn without_readahead_events(name: &str, test: impl FnOnce()) {
    let events = Path::new("/sys/kernel/tracing/events");
    here_or_inside(events.join("filemap").exists() && !events.join("readahead").exists(), name, test);
}

/// Always there: what would hold up everybody on this machine.
pub fn inside(name: &str, test: impl FnOnce()) {
    here_or_inside(false, name, test);
}

fn here_or_inside(here: bool, name: &str, test: impl FnOnce()) {
    if here || std::env::var_os(INSIDE).is_some() {
        return test();
    }
    let program = match plumb() {
        Ok(program) => program,
        Err(why) => return println!("skipped: {why}"),
    };
    let inside = Command::new(program)
        .args(["linux", "--device", "optane-905p-960gb", "--quiet"])
        .args(["--env", &format!("{INSIDE}=1"), "--env", "TMPDIR=/dev/shm", "--"])
        .arg(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    println!("{}", text(&inside.stdout));
    assert!(inside.status.success(), "{}\n{}", inside.status, text(&inside.stderr));
    assert!(text(&inside.stdout).contains("1 passed"), "the program inside has no test {name}");
}

/// The program beside this test, with a kernel for virtual time.
fn plumb() -> Result<PathBuf, String> {
    let own = std::env::current_exe().unwrap();
    let beside = own.parent().and_then(|deps| deps.parent()).map(|folder| folder.join("plumb"));
    let program = std::env::var_os("PLUMB_PROGRAM").map(PathBuf::from).or(beside).filter(|program| program.exists());
    let program = program.ok_or("no plumb program beside the tests (cargo build -p plumb) for F2FS in virtual time")?;
    let status = Command::new(&program).args(["linux", "status"]).output().unwrap();
    if status.status.success() {
        Ok(program)
    } else {
        Err("no kernel for virtual time is built (plumb linux build)".to_owned())
    }
}
