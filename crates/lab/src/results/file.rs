//! Files of a results folder: whole, or as they were before.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::table::Column;
use super::{Kind, ResultError, Table, csv, parquet};

/// Rows that are held before they are written.
const ROWS: usize = 1 << 16;

/// Between a file's name and the number of the process that is at it.
const MARK: &str = ".partial-";
/// Times that a file may go between being made and being locked.
const TRIES: u32 = 16;

/// Removes what processes that are no more had begun in `folder`: they were killed. Who is at a file has locked it.
pub(super) fn remove_abandoned(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.rsplit_once(MARK)).map_or("", |(_, number)| number);
        let is_partial = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        // What cannot be removed hinders nobody.
        if is_partial && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The lock says that this process is alive.
fn create_locked(path: &Path) -> io::Result<File> {
    for _ in 0..TRIES {
        let file = File::create(path)?;
        // File systems without locks give none to who tidies up, either.
        let _ = file.try_lock();
        // Who tidied up in between has removed it.
        let there = fs::metadata(path);
        if there.is_ok_and(|there| file.metadata().is_ok_and(|own| own.ino() == there.ino())) {
            return Ok(file);
        }
    }
    Err(io::Error::other("it is removed again and again while it is made"))
}

/// A file that takes its name when it is whole.
pub(super) struct Partial {
    out: BufWriter<File>,
    hasher: blake3::Hasher,
    path: PathBuf,
    partial: PathBuf,
    kept: bool,
}

impl Partial {
    /// Begins the file at `path`, and the folders above it.
    pub(super) fn create(path: &Path) -> Result<Self, ResultError> {
        let fail = |source| ResultError::Write { path: path.to_owned(), source };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(fail)?;
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!("{MARK}{}", std::process::id()));
        let partial = path.with_file_name(name);
        let out = BufWriter::with_capacity(1 << 16, create_locked(&partial).map_err(fail)?);
        Ok(Self { out, hasher: blake3::Hasher::new(), path: path.to_owned(), partial, kept: false })
    }

    fn fail(&self) -> impl FnOnce(io::Error) -> ResultError + use<> {
        let path = self.path.clone();
        |source| ResultError::Write { path, source }
    }

    /// Gives the file its name; the hash of its contents.
    pub(super) fn keep(mut self, sync: bool) -> Result<String, ResultError> {
        let fail = self.fail();
        let kept = self.out.flush().and_then(|()| {
            if sync {
                self.out.get_ref().sync_all()?;
            }
            fs::rename(&self.partial, &self.path)
        });
        kept.map_err(fail)?;
        self.kept = true;
        Ok(hash_text(&self.hasher))
    }
}

impl Write for Partial {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept {
            // A full disk must not stay full of our leftovers.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

fn hash_text(hasher: &blake3::Hasher) -> String {
    hasher.finalize().to_hex()[..32].to_owned()
}

/// The hash of a file's contents, as [`Partial::keep`] gives it; `None` where
/// it cannot be read.
pub(super) fn hash_of(path: &Path) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path).ok()?).ok()?;
    Some(hash_text(&hasher))
}

/// A table on its way into a CSV file, a Parquet file, or both, in parts: a
/// large sweep's tables do not fit into memory at once.
pub(super) struct TableFile {
    table: Table,
    csv: Option<(String, Partial)>,
    parquet: Option<(String, parquet::Writer<Partial>)>,
}

impl TableFile {
    /// `NAME.csv` if `csv`, and `NAME.parquet` if `parquet`, in `folder`.
    pub(super) fn create(
        folder: &Path,
        name: &str,
        columns: Vec<(String, Kind)>,
        [csv, parquet]: [bool; 2],
    ) -> Result<Self, ResultError> {
        let table = Table::new(columns);
        let begin = |extension: &str| {
            let name = format!("{name}.{extension}");
            Partial::create(&folder.join(&name)).map(|file| (name, file))
        };
        let csv = csv.then(|| begin("csv").and_then(|file| with_header(file, &table.columns))).transpose()?;
        let parquet = parquet
            .then(|| {
                let (name, file) = begin("parquet")?;
                let path = file.path.clone();
                let writer = parquet::Writer::new(&table.columns, file).map_err(|error| failed(&path, error))?;
                Ok((name, writer))
            })
            .transpose()?;
        Ok(Self { table, csv, parquet })
    }

    /// Adds a row.
    pub(super) fn push(&mut self, row: Vec<super::Cell>) -> Result<(), ResultError> {
        self.table.push(row);
        if self.table.rows.len() >= ROWS { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), ResultError> {
        if let Some((_, file)) = &mut self.csv {
            let fail = file.fail();
            csv::write_rows(&self.table, file).map_err(fail)?;
        }
        if let Some((name, file)) = &mut self.parquet
            && !self.table.rows.is_empty()
        {
            file.write(&self.table).map_err(|error| failed(Path::new(name), error))?;
        }
        self.table.rows.clear();
        Ok(())
    }

    /// Keeps the files; their names and hashes.
    pub(super) fn finish(mut self) -> Result<Vec<(String, String)>, ResultError> {
        self.write()?;
        let mut kept = Vec::new();
        if let Some((name, file)) = self.csv {
            kept.push((name, file.keep(true)?));
        }
        if let Some((name, writer)) = self.parquet {
            let file = writer.finish().map_err(|error| failed(Path::new(&name), error))?;
            kept.push((name, file.keep(true)?));
        }
        Ok(kept)
    }
}

fn with_header((name, mut file): (String, Partial), columns: &[Column]) -> Result<(String, Partial), ResultError> {
    let fail = file.fail();
    csv::write_header(columns, &mut file).map_err(fail)?;
    Ok((name, file))
}

fn failed(path: &Path, error: ::parquet::errors::ParquetError) -> ResultError {
    ResultError::Write { path: path.to_owned(), source: io::Error::other(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_had_begun_goes_and_what_is_being_written_stays() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let other_names = ["spec.toml.partial-", "spec.toml.partial-12x", "notes.partial-draft"];
        for name in ["spec.toml.partial-12"].iter().chain(&other_names) {
            fs::write(at(name), "half").unwrap();
        }
        let mut under_way = Partial::create(&at("runs.csv")).unwrap();
        under_way.write_all(b"whole").unwrap();
        remove_abandoned(folder.path());
        assert!(!at("spec.toml.partial-12").exists());
        assert!(other_names.iter().all(|name| at(name).exists()));
        under_way.keep(false).unwrap();
        assert_eq!(fs::read(at("runs.csv")).unwrap(), b"whole");
        remove_abandoned(&at("absent"));
    }
}
