//! What judges kernel file systems, on `plumb fs`: pjdfstest and fsx (from crates.io), and stress-ng's filesystem class.
#![allow(clippy::unwrap_used)]

mod fs_rig;
mod suite_rig;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fs_rig::{Rig, done, only_long, skipped};
use suite_rig::{REGRESS, git_source, postgresql_source, sqlite_source};

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

/// A folder on the mount that belongs to a user without rights, who can come there and to the sources.
fn place_of_nobody(rig: &Rig, source: &Path) -> PathBuf {
    done(Command::new("chmod").arg("755").args([source, &rig.outside(""), &rig.place()]));
    let place = rig.place().join("nobodys");
    fs::create_dir(&place).unwrap();
    done(Command::new("chown").arg("65534:65534").arg(&place));
    place
}

/// What is given to it is run by that user.
fn as_nobody() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command
}

/// The whole of it, on a server whose data lie there.
#[test]
fn postgresqls_own_tests_pass() {
    if only_long() || skipped(&["psql", "setpriv"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    if !postgresql_source(folder.path()) {
        return;
    }
    let mut rig = Rig::new(2048);
    let place = place_of_nobody(&rig, folder.path());
    let mut server = as_nobody();
    server.args(["sh", "-c", REGRESS]);
    let said = done(server.current_dir(&place).env("SOURCE", folder.path().join("source")));
    assert!(said.contains("All 2") && said.contains(" tests passed"), "{said}");
    println!("{said}");
    rig.unmount();
}

/// What its makers run before each change; databases and journals lie on the mount.
#[test]
fn sqlites_own_tests_pass() {
    if only_long() || skipped(&["sqlite3", "gcc", "setpriv"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    if !sqlite_source(folder.path()) {
        return;
    }
    let mut rig = Rig::new(1024);
    let source = folder.path().join("source");
    let place = place_of_nobody(&rig, folder.path());
    // As root some of them do not work.
    let mut suite = as_nobody();
    suite.arg(source.join("testfixture")).arg(source.join("test/veryquick.test")).current_dir(place);
    let output = suite.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let end: Vec<&str> = said.lines().rev().take(12).collect();
    println!("{}", end.join("\n"));
    let errors = said.lines().find(|line| line.contains(" errors out of ")).unwrap_or_else(|| panic!("{end:?}"));
    assert!(output.status.success() && errors.starts_with("0 errors"), "{said}");
    rig.unmount();
}

/// Its basic commands, index, objects, references, checkouts, merges, packs and clones, in folders on the mount.
#[test]
fn gits_own_tests_pass() {
    if only_long() || skipped(&["git", "gcc"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    if !git_source(folder.path()) {
        return;
    }
    let mut rig = Rig::new(2048);
    let script = "cd source/t
        for test in t00*.sh t1[0-4]*.sh t2*.sh t3[0-3]*.sh t51*.sh t53*.sh t56*.sh t6[04]*.sh; do
            ./$test --root=\"$PLACE\" > said 2>&1 || { echo $test; grep '^not ok' said; tail -5 said; }
            grep -c '^ok' said
        done";
    let mut suite = Command::new("sh");
    suite.args(["-c", script]).current_dir(folder.path()).env("PLACE", rig.place());
    let said = done(&mut suite);
    let numbers: Option<Vec<u64>> = said.lines().map(|line| line.parse().ok()).collect();
    let Some(numbers) = numbers else { panic!("{said}") };
    println!("{} tests of {} scripts", numbers.iter().sum::<u64>(), numbers.len());
    assert!(numbers.len() > 300 && numbers.iter().sum::<u64>() > 5000, "{numbers:?}");
    rig.unmount();
}
