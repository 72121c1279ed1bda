//! A program that reads in known ways, hostile ones among them, and files that are not in memory.
#![allow(dead_code)] // Each test file uses its own part.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::common::{Ran, Scratch};

/// Ways of `probe.c` that a prefetcher could stumble over.
pub const HOSTILE: [&str; 14] = [
    "turn", "short", "truncate", "punch", "rename", "reuse", "fork", "vfork", "threads", "range", "seccomp", "unshare",
    "signals", "stress",
];

/// Whether a program is installed.
pub fn has(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).exists())
}

/// The program, built from `probe.c`.
pub struct Probe {
    folder: tempfile::TempDir,
}

impl Probe {
    /// None, said, where there is no C compiler.
    pub fn compile() -> Option<Self> {
        Self::compile_with("gcc", include_str!("probe.c"))
    }

    /// The same, with these options of gcc's; none, said, where it has not got them.
    pub fn sanitized(options: &[&str]) -> Option<Self> {
        let probe = Self::build("gcc", include_str!("probe.c"), options)?;
        if probe.is_none() {
            println!("skipped: gcc has no sanitizers here");
        }
        probe
    }

    /// Another one, built with these options of gcc's.
    pub fn compile_as(text: &str, options: &[&str]) -> Option<Self> {
        Self::build("gcc", text, options).map(|built| built.unwrap())
    }

    /// Another one, built by this compiler.
    pub fn compile_with(compiler: &str, text: &str) -> Option<Self> {
        Self::build(compiler, text, &[])?
    }

    /// None where the compiler is not there, said; none inside of that where it has not these options.
    fn build(compiler: &str, text: &str, options: &[&str]) -> Option<Option<Self>> {
        if !has(compiler) {
            println!("skipped: {compiler} is not here");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("probe.c");
        fs::write(&source, text).unwrap();
        let mut gcc = Command::new(compiler);
        gcc.args(["-O1", "-pthread", "-Wall", "-Werror", "-o"]).arg(folder.path().join("probe")).arg(&source);
        let output = gcc.args(options).output().unwrap();
        let is_built = output.status.success();
        assert!(is_built || !options.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(is_built.then_some(Self { folder }))
    }

    /// Its command line.
    pub fn command(&self, arguments: &[&str]) -> Vec<String> {
        let program = self.folder.path().join("probe").to_str().unwrap().to_owned();
        std::iter::once(program).chain(arguments.iter().map(|argument| (*argument).to_owned())).collect()
    }

    /// What it prints by itself.
    pub fn plain(&self, arguments: &[&str]) -> String {
        let words = self.command(arguments);
        let output = Command::new(&words[0]).args(&words[1..]).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Runs a command under `plumb prefetch run`, successfully: what it said, and the report.
pub fn run(scratch: &Scratch, options: &[&str], command: &[String]) -> (Ran, Value) {
    let mut words = vec!["prefetch", "run", "--json", "report.json"];
    words.extend(options);
    words.push("--");
    words.extend(command.iter().map(String::as_str));
    let ran = scratch.plumb(&words).ok();
    (ran, serde_json::from_slice(&fs::read(scratch.path("report.json")).unwrap()).unwrap())
}

/// A file of numbers, out of memory where its file system can do that.
pub fn cold_file(scratch: &Scratch, name: &str, bytes: u64) -> PathBuf {
    let path = scratch.path(name);
    let file = File::create(&path).unwrap();
    let mut block = vec![0_u8; 1 << 20];
    for at in 0..bytes >> 20 {
        for (index, word) in block.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&((at << 17 | index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes());
        }
        file.write_all_at(&block, at << 20).unwrap();
    }
    file.sync_all().unwrap();
    drop(file);
    let file = File::open(&path).unwrap();
    rustix::fs::fadvise(file.as_fd(), 0, None, rustix::fs::Advice::DontNeed).unwrap();
    path
}
