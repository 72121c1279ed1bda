//! Running the real `plumb` in a folder of its own.
#![allow(dead_code)] // each test file uses a part

pub mod disk;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A scratch folder and a `plumb` that works in it.
pub struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.current_dir(self.folder.path()).args(arguments).env("NO_COLOR", "1");
        command
    }

    pub fn plumb(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }
}

/// What a finished `plumb` said.
#[derive(Debug)]
pub struct Ran {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Asserts success.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.status, Some(0), "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts a failure with `status` whose message, line breaks aside, has every part.
    #[track_caller]
    pub fn fails(self, status: i32, parts: &[&str]) -> Self {
        assert_eq!(self.status, Some(status), "{}\n{}", self.stdout, self.stderr);
        // The error display wraps lines and draws a margin.
        let squeeze = |text: &str| text.chars().filter(|c| !c.is_whitespace() && *c != '│').collect::<String>();
        let said = squeeze(&self.stderr);
        for part in parts {
            assert!(said.contains(&squeeze(part)), "`{part}` is not in:\n{}", self.stderr);
        }
        self
    }
}

/// 2 MiB in 512 pieces: of ext4 and XFS a file of twice as many blocks from which every other was taken out, elsewhere one
/// of which every other block was written again to another place.
///
/// Nothing that was freed has to be given out elsewhere: whether the allocator does that depends on when the journal commits.
pub fn fragmented(path: &Path) {
    let file = File::create(path).unwrap();
    let write = |index: u64, seed: u64| file.write_all_at(&vec![(index * 7 + seed) as u8; 4096], index * 4096).unwrap();
    // One more at the end, since a range that reaches the end is not taken out.
    (0..1025).for_each(|index| write(index, 0));
    file.sync_all().unwrap();
    let takes_out = |index: u64| {
        let offset = (index * 4096).to_string();
        Command::new("fallocate").args(["-c", "-o", &offset, "-l", "4096"]).arg(path).output().unwrap().status.success()
    };
    if !(1..=512).all(takes_out) {
        (0..512).step_by(2).for_each(|index| write(index, 1));
    }
    file.set_len(2 << 20).unwrap();
    file.sync_all().unwrap();
}

/// Finished runs in the files of a results folder.
pub fn kept_runs(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder.join("runs")).into_iter().flatten().flatten();
    let bytes = files.filter_map(|file| std::fs::read(file.path()).ok());
    bytes.map(|bytes| bytes.windows(8).filter(|window| window == b"\x93Plumb1\n").count()).sum()
}

/// Copies a folder with all that is in it.
pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// Every file of a results folder that must not depend on how it came about.
pub fn results_bytes(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                files.push((name, std::fs::read(&path).unwrap()));
            }
        }
    }
    files.retain(|(name, _)| name != "origin.json");
    files.sort();
    files
}

/// Asserts that two results folders hold the same files with the same bytes.
#[track_caller]
pub fn assert_same_results(one: &Path, other: &Path) {
    let (one, other) = (results_bytes(one), results_bytes(other));
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    let differing: Vec<_> = one.iter().zip(&other).filter(|(a, b)| a != b).map(|(a, _)| &a.0).collect();
    assert!(differing.is_empty(), "these files differ: {differing:?}");
}

/// A sweep of six short runs.
pub const SWEEP: &str = r#"
title = "a small sweep"
[stack]
device = "samsung-980pro-1tb"
device_set.initial.fill = 0.1
[workload]
fio = """
[job]
rw=randrw
bs=4k
size=64m
io_size=4m
ioengine=libaio
direct=1
"""
[sweep]
"workload.set.iodepth" = [1, 4, 16]
[run]
repeats = 2
seed = 7
"#;
