//! A cell from the empty folder to its numbers.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rustix::fs::{Advice, fadvise, syncfs};

use super::access::{self, nanoseconds};
use super::device::Device;
use super::tool::ran;
use super::{Cell, Interleaved, Measured, Operation, StudyError, database, interleaved, tool, tree};
use crate::ByteRange;
use crate::extents::{self, Direction, ExtentMap, WriteBack};

/// Where a cell is measured.
#[derive(Clone, Debug)]
pub struct CellPlace {
    /// The plumb program.
    pub program: PathBuf,
    /// An empty folder of the file system: nothing else may use its device.
    pub folder: PathBuf,
    /// A folder of another file system, for scripts and traces.
    pub scratch: PathBuf,
    /// Of everything random.
    pub seed: u64,
}

impl CellPlace {
    /// The plumb program with arguments.
    pub(super) fn plumb<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        command
    }

    /// Where the trace is kept.
    pub(super) fn trace(&self) -> PathBuf {
        self.scratch.join("io.trace")
    }

    /// Where the cell's description is kept, for [`pass`].
    fn cell(&self) -> PathBuf {
        self.scratch.join("cell.json")
    }
}

/// Makes the data, applies the tool, does the I/O.
///
/// # Errors
/// When a program is missing or fails, a file cannot be made, or the tool refuses the file system: a cell that did not
/// do what it says has no numbers.
pub fn run(cell: &Cell, place: &CellPlace) -> Result<Measured, StudyError> {
    cell.check()?;
    let device = Device::under(&place.folder)?;
    let system = device.system.as_str();
    let files = if let Some(data) = &cell.interleaved {
        interleaved::lay_out(data, &place.folder, system, place.seed)?
    } else if let Some(data) = &cell.database {
        database::make(data, place)?
    } else if let Some(data) = &cell.tree {
        tree::make(data, place)?
    } else {
        Vec::new()
    };
    let sync = || {
        let folder = File::open(&place.folder).map_err(StudyError::file("open", &place.folder))?;
        syncfs(&folder).map_err(|errno| StudyError::file("write out", &place.folder)(errno.into()))
    };
    sync()?;
    let mut measured = Measured::default();
    let maps = maps(&files)?;
    measured.count("files", files.len() as u64);
    measured.count("data_bytes", maps.iter().map(ExtentMap::size_bytes).sum());
    measured.count("pieces_before", pieces(&maps));

    forget(&files)?;
    tool::trace(cell, place, &command(cell, place)?)?;
    sync()?;
    let (before, began) = (device.now()?, Instant::now());
    let used = tool::apply(cell, place, system, &files)?;
    sync()?;
    let tool_ns = nanoseconds(began);
    let done = device.now()? - before;
    let maps = self::maps(&files)?;
    measured.count("pieces_after", pieces(&maps));
    measured.count("tool_written_bytes", done.written_bytes);
    measured.count("tool_discards", done.discards);
    measured.count("tool_ns", if used.elapsed_ns == 0 { 0 } else { tool_ns });
    if let Some(bytes) = used.moved_bytes {
        measured.count("tool_moved_bytes", bytes);
    }
    match &cell.interleaved {
        Some(data) => direct(data, place, &device, &files, &maps, &mut measured)?,
        None => by_command(&command(cell, place)?, &device, &files, &mut measured)?,
    }
    Ok(measured)
}

/// One pass over the files of a layout that are there already: what is traced.
///
/// # Errors
/// When the folder does not hold what the cell describes.
pub fn pass(cell: &Path, folder: &Path, seed: u64) -> Result<(), StudyError> {
    let text = std::fs::read(cell).map_err(StudyError::file("read", cell))?;
    let answer = |why: String| StudyError::Answer { program: cell.display().to_string(), why };
    let parsed: Cell = serde_json::from_slice(&text).map_err(|error| answer(error.to_string()))?;
    parsed.check()?;
    let data = parsed.interleaved.as_ref().ok_or_else(|| answer("it has no interleaved files".to_owned()))?;
    access::pass(data, &interleaved::paths(data, folder), seed).map(drop)
}

/// The program that does the cell's I/O once.
fn command(cell: &Cell, place: &CellPlace) -> Result<Vec<OsString>, StudyError> {
    if cell.database.is_some() {
        return Ok(database::command(place));
    }
    if cell.tree.is_some() {
        return Ok(tree::command(place));
    }
    let path = place.cell();
    let text = serde_json::to_vec(cell).map_err(|error| StudyError::Spec { message: error.to_string() })?;
    std::fs::write(&path, text).map_err(StudyError::file("write", &path))?;
    let program = place.program.as_os_str().to_owned();
    let seed = place.seed.to_string();
    let words = [program, "defrag-study".into(), "pass".into(), path.into(), place.folder.clone().into(), seed.into()];
    Ok(words.into())
}

/// Passes of direct I/O: one to warm up what the file system keeps of where things lie, then those that count.
fn direct(
    data: &Interleaved,
    place: &CellPlace,
    device: &Device,
    files: &[PathBuf],
    maps: &[ExtentMap],
    measured: &mut Measured,
) -> Result<(), StudyError> {
    access::pass(data, files, place.seed)?;
    let mut before = device.now()?;
    let mut requests = 0;
    for _ in 0..data.passes {
        let passed = access::pass(data, files, place.seed)?;
        let now = device.now()?;
        let done = now - before;
        before = now;
        // Of the last pass: what is written in the background disturbs the first ones.
        requests = if data.operation == Operation::Update { done.writes } else { done.reads };
        measured.latencies_ns.extend(passed.latencies_ns);
        measured.bytes += passed.bytes;
        measured.elapsed_ns += passed.elapsed_ns;
    }
    measured.is_write = data.operation == Operation::Update;
    measured.count("requests", requests);
    measured.count("pass_ns", measured.elapsed_ns / u64::from(data.passes.max(1)));
    // Updates of a file system that writes elsewhere go where nobody can foretell.
    if data.operation == Operation::Read
        && let Some(path) = files.first()
    {
        let limits = extents::limits_of(path)?;
        let places = access::places(data, place.seed);
        let one = |(file, start): &(usize, u64)| {
            let range = ByteRange { start: *start, end: (*start + data.request.0).min(data.size.0) };
            maps.get(*file).map_or(0, |map| extents::requests(map, range, &limits, Direction::Read))
        };
        measured.count("predicted_requests", places.iter().map(one).sum());
    }
    Ok(())
}

/// One run of a program, with nothing of the files in the page cache.
fn by_command(
    command: &[OsString],
    device: &Device,
    files: &[PathBuf],
    measured: &mut Measured,
) -> Result<(), StudyError> {
    let Some((program, rest)) = command.split_first() else { return Ok(()) };
    forget(files)?;
    let (before, began) = (device.now()?, Instant::now());
    ran(Command::new(program).args(rest), "sqlite3, or grep")?;
    let pass_ns = nanoseconds(began);
    let done = device.now()? - before;
    measured.count("requests", done.reads);
    measured.count("pass_ns", pass_ns);
    Ok(())
}

/// Has the page cache forget the files.
fn forget(files: &[PathBuf]) -> Result<(), StudyError> {
    for path in files {
        let file = File::open(path).map_err(StudyError::file("open", path))?;
        fadvise(&file, 0, None, Advice::DontNeed)
            .map_err(|errno| StudyError::file("drop from the page cache", path)(errno.into()))?;
    }
    Ok(())
}

fn maps(files: &[PathBuf]) -> Result<Vec<ExtentMap>, StudyError> {
    let one = |path: &PathBuf| {
        let file = File::open(path).map_err(StudyError::file("open", path))?;
        let size_bytes = file.metadata().map_err(StudyError::file("look at", path))?.len();
        extents::read_map(&file, size_bytes, WriteBack::First)
            .map_err(|error| StudyError::Extents { path: path.clone(), error })
    };
    files.iter().map(one).collect()
}

fn pieces(maps: &[ExtentMap]) -> u64 {
    maps.iter().map(|map| map.piece_count(map.whole())).sum()
}
