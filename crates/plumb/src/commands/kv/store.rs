//! Finding and opening a store, and what its errors mean for somebody at a terminal.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};

use betree::{Add, Append, Database, Error, Options, Patch, Tree};
use clap::Args;
use storage::{File, FileOptions, StorageError};
use units::ByteSize;

use crate::failure::Failure;

/// Which store, and what of it.
#[derive(Args)]
pub struct StoreFlags {
    /// A file or a block device with a store on it
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// Which of its trees
    #[arg(long, value_name = "NAME", default_value = "default")]
    tree: String,
    /// Memory for what was read
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    cache: ByteSize,
}

impl StoreFlags {
    pub fn options(&self) -> Options {
        // The engine's own operators, under the numbers that its documentation gives them.
        Options { cache_bytes: self.cache.0 as usize, ..Options::default() }
            .operator(1, Add)
            .operator(2, Append)
            .operator(3, Patch)
    }

    /// Opens the store, which recovers it.
    pub fn open(&self) -> Result<Database, Failure> {
        Database::open(file(&self.store, None)?, self.options()).map_err(|error| fault(&self.store, &error))
    }

    /// Opens the store to read it: nothing is written, not even what recovery would.
    pub fn open_to_read(&self) -> Result<Database, Failure> {
        let file = file_as(&self.store, &FileOptions { read_only: true, ..FileOptions::default() })?;
        Database::open_read_only(file, self.options()).map_err(|error| fault(&self.store, &error))
    }

    /// The tree, made where there is none.
    pub fn tree_to_write(&self, database: &Database) -> Result<Tree, Failure> {
        database.tree(&self.tree).map_err(|error| fault(&self.store, &error))
    }

    /// The tree, which must be there: reading makes none.
    pub fn tree_to_read(&self, database: &Database) -> Result<Tree, Failure> {
        let names = database.tree_names();
        if names.contains(&self.tree) {
            return database.open_tree(&self.tree).map_err(|error| fault(&self.store, &error));
        }
        let there = match names.len() {
            0 => "it has none yet; `plumb kv put` and `plumb kv load` make one".to_owned(),
            _ => format!("it has {}; choose one with --tree", names.join(", ")),
        };
        Err(Failure::input(format!("{}: there is no tree {:?}: {there}", self.store.display(), self.tree)))
    }

    pub fn fault(&self, error: &Error) -> Failure {
        fault(&self.store, error)
    }
}

/// The file or device under a store.
pub fn file(path: &Path, capacity_bytes: Option<u64>) -> Result<File, Failure> {
    file_as(path, &FileOptions { capacity_bytes, ..FileOptions::default() })
}

/// The same, opened in this way.
fn file_as(path: &Path, options: &FileOptions) -> Result<File, Failure> {
    File::open(path, options).map_err(|error| match &error {
        StorageError::Open { source: Some(source), .. } if source.kind() == std::io::ErrorKind::NotFound => {
            let path = path.display();
            Failure::input(format!(
                "{path}: there is no such file; make a store with `plumb kv create {path} --size 1GiB`"
            ))
        }
        StorageError::Open { .. } => Failure::input(error),
        _ => Failure::Machine(error.to_string()),
    })
}

/// A number that no other store has.
pub fn new_id() -> u128 {
    // Seeded from the system's source of random numbers.
    let random = || u128::from(RandomState::new().build_hasher().finish());
    random() << 64 | random()
}

/// An error of the engine, with the store's name and what to do.
pub fn fault(path: &Path, error: &Error) -> Failure {
    let path = path.display();
    match error {
        Error::NotAStore => Failure::input(format!(
            "{path}: {error}; make one with `plumb kv create`, which refuses to write over a store"
        )),
        Error::AlreadyAStore => Failure::input(format!("{path}: {error}")),
        Error::TooSmall { .. } | Error::Unsupported { .. } | Error::TooLarge { .. } => {
            Failure::input(format!("{path}: {error}"))
        }
        Error::UnknownOperator { .. } => Failure::input(format!(
            "{path}: {error}: a program with operators of its own wrote this store, and only it can read those values"
        )),
        Error::Corrupt { what, .. } if what.starts_with("log:") => Failure::Machine(format!(
            "{path}: {error}; `plumb kv verify {path}` lists the damage. A copy from a backup is the safe way. What was \
             committed before the damage is put into a new store by `plumb kv repair {path} --into NEW`"
        )),
        Error::Corrupt { .. } => {
            Failure::Machine(format!("{path}: {error}; `plumb kv verify {path}` lists everything that is damaged"))
        }
        Error::Full => Failure::Machine(format!(
            "{path}: {error}; `plumb kv delete` works on a full store, or load it into a larger one: \
             plumb kv scan {path} | plumb kv load LARGER -"
        )),
        _ => Failure::Machine(format!("{path}: {error}")),
    }
}
