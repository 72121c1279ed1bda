//! Tables on disk.

use std::fs;
use std::path::{Path, PathBuf};

use super::csv::{CsvError, Sheet};
use super::drive::{FioError, read_fio};
use super::table::{Table, TableError, recognise};

/// Why there are no tables.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A file is none.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A result of fio's is none.
    #[error(transparent)]
    Fio(#[from] FioError),
    /// A folder without any.
    #[error("{} holds no .csv or .json file", path.display())]
    NoTables {
        /// The folder.
        path: PathBuf,
    },
}

/// The tables in `paths`, each a file or a folder whose `.csv` and `.json` files are taken
/// in the order of their names.
///
/// # Errors
/// When one cannot be read or has columns of no known kind.
pub fn read_tables(paths: &[PathBuf]) -> Result<Vec<Table>, FilesError> {
    let mut tables = Vec::new();
    for path in paths {
        if path.is_dir() {
            let files = table_files(path)?;
            if files.is_empty() {
                return Err(FilesError::NoTables { path: path.clone() });
            }
            for file in files {
                tables.push(read_table(&file)?);
            }
        } else {
            tables.push(read_table(path)?);
        }
    }
    Ok(tables)
}

fn read_table(path: &Path) -> Result<Table, FilesError> {
    if has_extension(path, "json") {
        return Ok(read_fio(path)?);
    }
    Ok(recognise(&Sheet::read(path).map_err(TableError::from)?)?)
}

fn table_files(folder: &Path) -> Result<Vec<PathBuf>, TableError> {
    let fail = |source| CsvError::Read { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if has_extension(&path, "csv") || has_extension(&path, "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}
