//! What is measured, a row each.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;
use std::time::Instant;

use super::systems::{Made, run};
use crate::failure::Failure;

/// How much of everything.
pub struct Scale {
    pub file_bytes: u64,
    pub files: u32,
    pub writes: u32,
}

impl Scale {
    /// A file system that has room for it.
    pub fn image_bytes(&self) -> u64 {
        2 * self.file_bytes + u64::from(self.files) * 32_768 + (1 << 30)
    }
}

/// Bytes of a call that writes or reads in sequence.
const CALL_BYTES: usize = 1 << 20;
/// Files of a folder of the tree.
const FOLDER_FILES: u32 = 50;

/// One row. Later ones use what earlier ones made, if it is not there they make it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Row {
    SequentialWrite,
    SequentialRead,
    Write4B,
    Write4KUnaligned,
    Creates,
    SmallFiles,
    Find,
    Grep,
    Tar,
    Remove,
}

impl Row {
    pub const ALL: [Self; 10] = [
        Self::SequentialWrite,
        Self::SequentialRead,
        Self::Write4B,
        Self::Write4KUnaligned,
        Self::Creates,
        Self::SmallFiles,
        Self::Find,
        Self::Grep,
        Self::Tar,
        Self::Remove,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::SequentialWrite => "sequential-write",
            Self::SequentialRead => "sequential-read-cold",
            Self::Write4B => "random-4B-cold",
            Self::Write4KUnaligned => "random-4KiB-unaligned-cold",
            Self::Creates => "creates",
            Self::SmallFiles => "small-files",
            Self::Find => "find-cold",
            Self::Grep => "grep-cold",
            Self::Tar => "tar-cold",
            Self::Remove => "rm-cold",
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            Self::SequentialWrite | Self::SequentialRead => "MiB/s",
            Self::Write4B | Self::Write4KUnaligned => "us each",
            Self::Creates | Self::SmallFiles => "per s",
            Self::Find | Self::Grep | Self::Tar | Self::Remove => "s",
        }
    }

    pub fn less_is_better(self) -> bool {
        !matches!(self, Self::SequentialWrite | Self::SequentialRead | Self::Creates | Self::SmallFiles)
    }

    /// Measures it once.
    pub fn measure(self, on: &mut Made, scale: &Scale) -> Result<f64, Failure> {
        let (large, tree) = (on.folder().join("large"), on.folder().join("tree"));
        let failed = |error: io::Error| Failure::Machine(format!("{}: {error}", self.name()));
        match self {
            Self::SequentialWrite => {}
            Self::SequentialRead | Self::Write4B | Self::Write4KUnaligned if !large.exists() => {
                write_all(&large, scale.file_bytes).map_err(failed)?;
            }
            Self::Find | Self::Grep | Self::Tar | Self::Remove if !tree.exists() => {
                plant(&tree, scale.files).map_err(failed)?;
            }
            _ => {}
        }
        if !matches!(self, Self::SequentialWrite | Self::Creates | Self::SmallFiles) {
            on.cool()?;
        }
        let mib = scale.file_bytes as f64 / f64::from(1 << 20);
        let began = Instant::now();
        let seconds = || began.elapsed().as_secs_f64();
        Ok(match self {
            Self::SequentialWrite => {
                write_all(&large, scale.file_bytes).map_err(failed)?;
                mib / seconds()
            }
            Self::SequentialRead => {
                read_all(&large).map_err(failed)?;
                mib / seconds()
            }
            Self::Write4B | Self::Write4KUnaligned => {
                let bytes = if self == Self::Write4B { 4 } else { 4096 };
                write_here_and_there(&large, scale, bytes).map_err(failed)?;
                seconds() * 1e6 / f64::from(scale.writes)
            }
            Self::Creates => {
                make_empty(&on.folder().join("empty"), scale.files).map_err(failed)?;
                f64::from(scale.files) / seconds()
            }
            Self::SmallFiles => {
                plant(&tree, scale.files).map_err(failed)?;
                f64::from(scale.files) / seconds()
            }
            Self::Find => {
                run(Command::new("find").arg(&tree).args(["-name", "none", "-size", "+1k"]))?;
                seconds()
            }
            Self::Grep => {
                // Nothing is found: grep's status says so.
                let mut grep = Command::new("grep");
                grep.args(["-r", "there is no such line"]).arg(&tree).status().map_err(failed)?;
                seconds()
            }
            Self::Tar => {
                // tar(1) reads nothing where it sees that nobody wants it.
                let script = "tar -cf - -C \"$1\" . | cat > /dev/null";
                run(Command::new("sh").args(["-c", script, "sh"]).arg(&tree))?;
                seconds()
            }
            Self::Remove => {
                run(Command::new("rm").arg("-rf").arg(&tree))?;
                seconds()
            }
        })
    }
}

impl FromStr for Row {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|row| row.name() == given).ok_or_else(|| format!("{given}: none of {}", names()))
    }
}

/// Numbers that look random, the same in each run (xorshift64, Marsaglia 2003).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]));
    }
}

/// Writes a file in sequence, durably.
fn write_all(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut call = vec![0; CALL_BYTES];
    Numbers(42).fill(&mut call);
    let mut left = bytes;
    while left > 0 {
        let length = left.min(CALL_BYTES as u64) as usize;
        // No two calls write the same.
        call[..8].copy_from_slice(&left.to_le_bytes());
        file.write_all(&call[..length])?;
        left -= length as u64;
    }
    file.sync_all()
}

fn read_all(path: &Path) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut call = vec![0; CALL_BYTES];
    while file.read(&mut call)? > 0 {}
    Ok(())
}

fn write_here_and_there(path: &Path, scale: &Scale, bytes: usize) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let mut numbers = Numbers(7);
    let mut data = vec![0; bytes];
    for _ in 0..scale.writes {
        numbers.fill(&mut data);
        file.write_all_at(&data, numbers.next() % (scale.file_bytes - bytes as u64).max(1))?;
    }
    file.sync_all()
}

fn make_empty(folder: &Path, files: u32) -> io::Result<()> {
    fs::create_dir(folder)?;
    (0..files).try_for_each(|number| File::create(folder.join(format!("file-{number}"))).map(drop))
}

/// A tree of small files of 200 to 8,200 bytes, in folders that are filled in turn.
fn plant(tree: &Path, files: u32) -> io::Result<()> {
    fs::create_dir(tree)?;
    let folders = files.div_ceil(FOLDER_FILES).max(1);
    (0..folders).try_for_each(|folder| fs::create_dir(tree.join(format!("folder-{folder}"))))?;
    let mut numbers = Numbers(3);
    let mut data = vec![0; 8200];
    numbers.fill(&mut data);
    for number in 0..files {
        let path = tree.join(format!("folder-{}", number % folders)).join(format!("file-{number}"));
        let length = 200 + (numbers.next() % 8000) as usize;
        File::create(path)?.write_all(&data[..length])?;
    }
    Ok(())
}
