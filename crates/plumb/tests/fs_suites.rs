//! What judges kernel file systems, on `plumb fs`: pjdfstest and fsx (from crates.io), and stress-ng's filesystem class.
#![allow(clippy::unwrap_used)]

mod fs_rig;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use fs_rig::{Rig, done, only_long, skipped};

/// A program of crates.io, built once into the target folder; `None` (and a word) where it cannot be had.
fn installed(name: &str, version: &str) -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fs-suites");
    let program = root.join("bin").join(name);
    let how = ["install", "--quiet", "--locked", "--root", root.to_str().unwrap(), &format!("{name}@{version}")];
    if !program.exists() && !Command::new("cargo").args(how).status().is_ok_and(|status| status.success()) {
        println!("skipped: {name} {version} cannot be built from crates.io here");
        return None;
    }
    Some(program)
}

/// Every rule of POSIX that the suite tests, but for mounting again as read-only, which keeps the rest of it from working.
#[test]
fn pjdfstest_finds_nothing() {
    if only_long() || skipped(&[]) {
        return;
    }
    let Some(program) = installed("pjdfstest", "0.2.2") else { return };
    // The users that the suite takes on.
    if !fs::read_to_string("/etc/passwd").unwrap().lines().any(|line| line.starts_with("tests:")) {
        done(Command::new("useradd").args(["--system", "--user-group", "tests"]));
    }
    let mut rig = Rig::new(1024);
    let settings = rig.outside("pjdfstest.toml");
    fs::write(
        &settings,
        "[features]\nposix_fallocate = {}\nutimensat = {}\nutime_now = {}\nrename_ctime = {}\n[settings]\nnaptime = 0.001\nallow_remount = false\n\
         [dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"tests\", \"tests\"]]\n",
    )
    .unwrap();
    done(Command::new("chmod").arg("755").arg(rig.outside("")));
    let mut suite = Command::new(program);
    suite.arg("-c").arg(settings).arg("-p").arg(rig.place());
    // Another file system, for links and renames across.
    let said = done(suite.args(["-s", "/dev/shm"]));
    println!("{}", said.lines().last().unwrap_or_default());
    rig.unmount();
}

/// Random reads, writes, mappings, cuts, holes and copies of a file, each checked; also past the page cache.
#[test]
fn fsx_finds_nothing() {
    if only_long() || skipped(&[]) {
        return;
    }
    let Some(program) = installed("fsx", "0.3.2") else { return };
    let mut rig = Rig::new(1024);
    let settings = rig.outside("fsx.toml");
    fs::write(
        &settings,
        "flen = 1048576\nnomsyncafterwrite = true\n[opsize]\nmax = 131072\n[weights]\nclose_open = 1.0\ninvalidate = 1.0\nmapread = 10.0\n\
         mapwrite = 10.0\nread = 10.0\nwrite = 10.0\ntruncate = 3.0\nfsync = 0.1\nfdatasync = 0.1\n\
         posix_fallocate = 1.0\npunch_hole = 3.0\nsendfile = 1.0\nposix_fadvise = 1.0\ncopy_file_range = 3.0\n",
    )
    .unwrap();
    for seed in ["1", "2", "3"] {
        let mut fsx = Command::new(&program);
        fsx.args(["-N", "100000", "-S", seed, "-f"]).arg(&settings).arg(rig.place().join("file"));
        // Where it leaves what it found.
        done(fsx.current_dir(rig.outside("")));
    }
    rig.unmount();
}

#[test]
fn stress_ng_finds_nothing() {
    if only_long() || skipped(&["stress-ng"]) {
        return;
    }
    let mut rig = Rig::new(4096);
    let mut stress = Command::new("stress-ng");
    stress.args(["--class", "filesystem", "--sequential", "2", "--timeout", "5s", "--verify", "--temp-path"]);
    done(stress.arg(rig.place()));
    rig.unmount();
}
