//! Defragments, by the programs that a person would start.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use units::Printable;

use super::access::nanoseconds;
use super::{Cell, CellPlace, StudyError, Tool};
use crate::migrate;
use crate::run::{FileOutcome, Report};

/// F2FS has no defragmenter: files are written again in steps of this.
const REWRITE_BYTES: usize = 1 << 20;
/// Words of a program that an error repeats.
const WORDS_MAX: usize = 600;

/// What a tool did, by its own account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// From start to end of the program, or programs.
    pub elapsed_ns: u64,
    /// Bytes of data moved, where it says so.
    pub moved_bytes: Option<u64>,
}

/// Records what `command` reads and writes in the cell's folder, where the tool needs to know.
pub fn trace(cell: &Cell, place: &CellPlace, command: &[OsString]) -> Result<(), StudyError> {
    if cell.tool != Tool::Traced {
        return Ok(());
    }
    let mut trace = place.plumb(["defrag", "trace", "--quiet", "--path"]);
    trace.arg(&place.folder).arg("--out").arg(place.trace()).arg("--").args(command);
    ran(&mut trace, "plumb").map(drop)
}

/// Defragments the files.
pub fn apply(cell: &Cell, place: &CellPlace, system: &str, files: &[PathBuf]) -> Result<Used, StudyError> {
    let began = Instant::now();
    let moved_bytes = match cell.tool {
        Tool::None => return Ok(Used::default()),
        Tool::Bypass => {
            Some(plumb(place.plumb(["defrag", "run", "--json", "--mode", "bypass"]).arg(&place.folder), files)?)
        }
        Tool::Whole => {
            Some(plumb(place.plumb(["defrag", "run", "--json", "--mode", "whole"]).arg(&place.folder), files)?)
        }
        Tool::Traced => {
            let mut run = place.plumb(["defrag", "run", "--json", "--hotness"]);
            run.arg(cell.hotness.0.to_string()).arg("--trace").arg(place.trace());
            Some(plumb(&mut run, files)?)
        }
        Tool::Conventional => {
            conventional(system, files)?;
            None
        }
        Tool::Conventional128k if system == "btrfs" => {
            btrfs(files, &["-t", "128K"])?;
            None
        }
        Tool::Conventional128k => {
            return Err(StudyError::NoTool { tool: "conventional-128k", system: system.to_owned() });
        }
    };
    Ok(Used { elapsed_ns: nanoseconds(began), moved_bytes })
}

/// Runs `plumb defrag run`; bytes of data moved.
fn plumb(command: &mut Command, files: &[PathBuf]) -> Result<u64, StudyError> {
    // A file that no means fits is no row of the plan, and a cell where nothing was done must not look like one where
    // nothing had to be.
    if let Some(path) = files.first() {
        let why = match migrate::refusal(path, None, false) {
            Ok(None) => None,
            Ok(Some(refusal)) => Some(refusal.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = why {
            return Err(StudyError::Refused { path: path.display().to_string(), why });
        }
    }
    let said = ran(command.arg("--quiet"), "plumb")?;
    let answer = |why: String| StudyError::Answer { program: "plumb defrag run --json".to_owned(), why };
    let report: Report = serde_json::from_str(&said).map_err(|error| answer(error.to_string()))?;
    for file in &report.files {
        let (FileOutcome::Refused(why) | FileOutcome::Failed(why)) = &file.outcome else { continue };
        return Err(StudyError::Refused { path: Printable::path(&file.path).to_string(), why: why.clone() });
    }
    Ok(report.written_bytes())
}

fn conventional(system: &str, files: &[PathBuf]) -> Result<(), StudyError> {
    let each = |program: &str, package| {
        files.iter().try_for_each(|path| ran(Command::new(program).arg(path), package).map(drop))
    };
    match system {
        "ext4" => each("e4defrag", "e2fsprogs"),
        "xfs" => each("xfs_fsr", "xfsdump"),
        "btrfs" => btrfs(files, &[]),
        "f2fs" => files.iter().try_for_each(|path| rewrite(path)),
        other => Err(StudyError::NoTool { tool: "conventional", system: other.to_owned() }),
    }
}

fn btrfs(files: &[PathBuf], more: &[&str]) -> Result<(), StudyError> {
    let mut command = Command::new("btrfs");
    command.args(["filesystem", "defragment", "-f"]).args(more);
    // Some hundred at a time, within what a command line holds.
    for files in files.chunks(256) {
        let mut command = again(&command);
        ran(command.args(files), "btrfs-progs")?;
    }
    Ok(())
}

fn again(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args());
    copy
}

/// Reads a file and writes it where it was; a file system that writes elsewhere puts it together.
fn rewrite(path: &Path) -> Result<(), StudyError> {
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(StudyError::file("open", path))?;
    let size = file.metadata().map_err(StudyError::file("look at", path))?.len();
    let mut memory = vec![0; REWRITE_BYTES];
    for start in (0..size).step_by(REWRITE_BYTES) {
        let length = usize::try_from(size - start).unwrap_or(REWRITE_BYTES).min(REWRITE_BYTES);
        let part = memory.get_mut(..length).unwrap_or_default();
        file.read_exact_at(part, start).map_err(StudyError::file("read", path))?;
        file.write_all_at(part, start).map_err(StudyError::file("write", path))?;
    }
    file.sync_all().map_err(StudyError::file("write out", path))
}

/// Runs a program of the package `package` to its end; what it printed.
pub fn ran(command: &mut Command, package: &'static str) -> Result<String, StudyError> {
    let name = || {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let mut words: Vec<String> = words.take(12).map(|word| word.to_string_lossy().into_owned()).collect();
        if command.get_args().len() > 11 {
            words.push("...".to_owned());
        }
        words.join(" ")
    };
    let name = name();
    let output = command.env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = output.map_err(|error| StudyError::Missing { program: name.clone(), package, error })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let said = text.trim().chars().take(WORDS_MAX).collect();
    Err(StudyError::Program { program: name, status: output.status, said })
}
