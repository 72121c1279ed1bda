//! A folder tree after the work of a file server, then read from end to end.
//!
//! FileBench's `fileserver` makes a file, appends to one, reads one and removes one, from many threads at once and past
//! the page cache. Here the streams take turns, a chunk each, so that the same seed gives the same tree. Sizes follow
//! its gamma distribution (shape 1.5).

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Gamma};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::access::Buffer;
use super::{CellPlace, StudyError, Tree};

/// FileBench's default for its gamma distributions.
const GAMMA_SHAPE: f64 = 1.5;
/// Files in one folder.
const WIDTH: u32 = 20;
const BLOCK: u64 = 4096;

/// Makes the tree and ages it; every file that is left.
pub fn make(data: &Tree, place: &CellPlace) -> Result<Vec<PathBuf>, StudyError> {
    let root = root(&place.folder);
    fs::create_dir(&root).map_err(StudyError::file("make", &root))?;
    let sizes = Gamma::new(GAMMA_SHAPE, data.mean.0 as f64 / GAMMA_SHAPE)
        .map_err(|error| StudyError::Spec { message: format!("tree.mean: {error}") })?;
    let mut server = Server {
        data,
        root,
        random: Xoshiro256PlusPlus::seed_from_u64(place.seed),
        sizes,
        memory: Buffer::new(data.append.0),
        files: Vec::new(),
        made: 0,
        streams: (0..data.streams).map(|_| None).collect(),
    };
    // The files of the start, as many at a time as there are streams.
    while server.made < data.files || server.streams.iter().any(Option::is_some) {
        server.turn(|server| if server.made < data.files { Action::Make } else { Action::Nothing })?;
    }
    let mut begun = 0;
    while begun < data.operations || server.streams.iter().any(Option::is_some) {
        server.turn(|server| {
            if begun == data.operations {
                return Action::Nothing;
            }
            begun += 1;
            // Each a third, and never fewer than half of the files.
            match server.random.random_range(0..3_u32) {
                0 => Action::Make,
                1 => Action::Append,
                _ if server.files.len() as u32 > data.files / 2 => Action::Remove,
                _ => Action::Make,
            }
        })?;
    }
    let mut files = server.files;
    files.sort();
    Ok(files)
}

fn root(folder: &Path) -> PathBuf {
    folder.join("tree")
}

/// The command that reads all of it. What it looks for is in none of the files, which grep says by its status.
pub fn command(place: &CellPlace) -> Vec<OsString> {
    let script = "grep -raF -- 'a line that no file of random bytes has' \"$0\"; test $? -le 1";
    ["sh".into(), "-c".into(), script.into(), root(&place.folder).into()].into()
}

enum Action {
    Make,
    Append,
    Remove,
    Nothing,
}

/// A file that is being written.
struct Stream {
    file: File,
    path: PathBuf,
    at: u64,
    left: u64,
}

struct Server<'a> {
    data: &'a Tree,
    root: PathBuf,
    random: Xoshiro256PlusPlus,
    sizes: Gamma<f64>,
    memory: Buffer,
    /// That are complete.
    files: Vec<PathBuf>,
    made: u32,
    streams: Vec<Option<Stream>>,
}

impl Server<'_> {
    /// One chunk of every stream; a stream with nothing to do asks what comes next.
    fn turn(&mut self, mut next: impl FnMut(&mut Self) -> Action) -> Result<(), StudyError> {
        for number in 0..self.streams.len() {
            let stream = self.streams.get_mut(number).and_then(Option::take);
            let stream = match stream {
                Some(stream) => Some(stream),
                None => match next(self) {
                    Action::Make => Some(self.make_file()?),
                    Action::Append => self.append()?,
                    Action::Remove => {
                        self.remove()?;
                        None
                    }
                    Action::Nothing => None,
                },
            };
            let written = stream.map(|stream| self.chunk(stream)).transpose()?.flatten();
            if let Some(slot) = self.streams.get_mut(number) {
                *slot = written;
            }
        }
        Ok(())
    }

    fn make_file(&mut self) -> Result<Stream, StudyError> {
        let folder = self.root.join(format!("d{}", self.made / WIDTH));
        fs::create_dir_all(&folder).map_err(StudyError::file("make", &folder))?;
        let path = folder.join(format!("f{}", self.made));
        self.made += 1;
        let bytes = self.sizes.sample(&mut self.random) as u64;
        let left = bytes.next_multiple_of(BLOCK).clamp(BLOCK, self.data.mean.0.saturating_mul(16));
        Ok(Stream { file: open(&path, true)?, path, at: 0, left })
    }

    fn append(&mut self) -> Result<Option<Stream>, StudyError> {
        let Some(path) = self.take_file() else { return Ok(None) };
        let file = open(&path, false)?;
        let at = file.metadata().map_err(StudyError::file("look at", &path))?.len();
        Ok(Some(Stream { file, path, at, left: self.data.append.0 }))
    }

    fn remove(&mut self) -> Result<(), StudyError> {
        let Some(path) = self.take_file() else { return Ok(()) };
        fs::remove_file(&path).map_err(StudyError::file("remove", &path))
    }

    fn take_file(&mut self) -> Option<PathBuf> {
        if self.files.is_empty() {
            return None;
        }
        let number = self.random.random_range(0..self.files.len());
        Some(self.files.swap_remove(number))
    }

    /// Writes the next chunk; the stream, if it has more.
    fn chunk(&mut self, mut stream: Stream) -> Result<Option<Stream>, StudyError> {
        let memory = self.memory.first(stream.left.min(self.data.append.0));
        self.random.fill(&mut *memory);
        stream.file.write_all_at(memory, stream.at).map_err(StudyError::file("write", &stream.path))?;
        let length = memory.len() as u64;
        stream.at += length;
        stream.left -= length.min(stream.left);
        if stream.left > 0 {
            return Ok(Some(stream));
        }
        self.files.push(stream.path);
        Ok(None)
    }
}

fn open(path: &Path, new: bool) -> Result<File, StudyError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(new).custom_flags(libc::O_DIRECT);
    options.open(path).map_err(StudyError::file("open", path))
}
