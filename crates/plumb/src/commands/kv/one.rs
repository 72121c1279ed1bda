//! Making a store; one key, or the keys of a range.

use std::io::{IsTerminal, Read, Write};
use std::ops::Bound;
use std::path::PathBuf;
use std::process::ExitCode;

use betree::{Batch, Compression, Database, Durability, Error, Options};
use clap::{Args, ValueEnum};
use units::ByteSize;

use super::super::{Done, EXIT_FAILED, made};
use super::store::{self, StoreFlags};
use super::text;
use crate::failure::Failure;

/// How blocks are compressed.
#[derive(Clone, Copy, ValueEnum)]
pub enum Packing {
    None,
    Lz4,
    #[cfg(feature = "zstandard")]
    Zstd,
}

impl Packing {
    pub fn compression(self) -> Compression {
        match self {
            Self::None => Compression::None,
            Self::Lz4 => Compression::Lz4,
            #[cfg(feature = "zstandard")]
            Self::Zstd => Compression::Zstd,
        }
    }
}

#[derive(Args)]
pub struct CreateArguments {
    /// The file to make, or a block device
    #[arg(value_name = "STORE")]
    store: PathBuf,
    /// Its size; a block device is used whole
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteSize>,
    /// Size of its log
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    log: ByteSize,
}

/// Makes a store.
pub fn create(arguments: &CreateArguments) -> Done {
    let path = &arguments.store;
    if arguments.size.is_none() && !path.exists() {
        return Err(Failure::input(format!("{}: say how large it is to be, as with --size 1GiB", path.display())));
    }
    let options = Options { log_bytes: arguments.log.0, ..Options::default() };
    let needed_bytes = options.least_capacity_bytes();
    // Where there will be no store no file is left.
    if let Some(ByteSize(capacity_bytes)) = arguments.size
        && !path.exists()
        && capacity_bytes < needed_bytes
    {
        return Err(store::fault(path, &Error::TooSmall { capacity_bytes, needed_bytes }));
    }
    let was_there = path.exists();
    let file = store::file(path, arguments.size.map(|size| size.0))?;
    let created = Database::create(file, options, store::new_id()).map_err(|error| store::fault(path, &error));
    made(path, was_there, created)?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Args)]
pub struct PutArguments {
    #[command(flatten)]
    store: StoreFlags,
    /// The key; \xNN, \t, \n and \\ stand for bytes
    #[arg(value_name = "KEY")]
    key: String,
    /// Its value, with the same escapes [default: what comes on standard input, as it is]
    #[arg(value_name = "VALUE")]
    value: Option<String>,
}

/// A key or value of the command line.
pub fn bytes(what: &str, text: &str) -> Result<Vec<u8>, Failure> {
    text::unescape(text.as_bytes()).map_err(|error| Failure::input(format!("{what} {text:?}: {error}")))
}

/// Gives a key a value, durably.
pub fn put(arguments: &PutArguments) -> Done {
    let key = bytes("the key", &arguments.key)?;
    let value = match &arguments.value {
        Some(value) => bytes("the value", value)?,
        None => {
            let mut value = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut value);
            read.map_err(|error| Failure::Machine(format!("standard input: {error}")))?;
            value
        }
    };
    let database = arguments.store.open()?;
    let tree = arguments.store.tree_to_write(&database)?;
    tree.insert(key, value, Durability::Sync).map_err(|error| arguments.store.fault(&error))?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Args)]
pub struct GetArguments {
    #[command(flatten)]
    store: StoreFlags,
    /// The key; \xNN, \t, \n and \\ stand for bytes
    #[arg(value_name = "KEY")]
    key: String,
    /// Print key and value as an object; a key without a value has null
    #[arg(long)]
    json: bool,
}

/// Prints a value as it is; on a terminal with a line end.
pub fn get(arguments: &GetArguments) -> Done {
    let key = bytes("the key", &arguments.key)?;
    let database = arguments.store.open_to_read()?;
    let tree = arguments.store.tree_to_read(&database)?;
    let value = tree.get(&key).map_err(|error| arguments.store.fault(&error))?;
    if arguments.json {
        println!("{}", text::json_line(&key, value.as_deref()));
    }
    let Some(value) = value else {
        eprintln!("{}: the key {:?} has no value", arguments.store.store.display(), arguments.key);
        return Ok(ExitCode::from(EXIT_FAILED));
    };
    if !arguments.json {
        let mut out = std::io::stdout().lock();
        let end: &[u8] = if out.is_terminal() { b"\n" } else { b"" };
        if let Err(error) = out.write_all(&value).and_then(|()| out.write_all(end)) {
            crate::output::failed(error);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Which keys.
#[derive(Args)]
pub struct RangeFlags {
    /// The first key
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// The key to stop before
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// Only keys that begin so
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    prefix: Option<String>,
}

/// The first and the last key of a range.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

impl RangeFlags {
    pub fn is_given(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.prefix.is_some()
    }

    /// The bounds.
    pub fn bounds(&self) -> Result<Bounds, Failure> {
        let bound = |text: &Option<String>| text.as_deref().map(|text| bytes("the key", text)).transpose();
        if let Some(prefix) = bound(&self.prefix)? {
            let mut end = prefix.clone();
            while end.last() == Some(&0xff) {
                end.pop();
            }
            let end = match end.last_mut() {
                Some(last) => {
                    *last += 1;
                    Bound::Excluded(end)
                }
                None => Bound::Unbounded,
            };
            return Ok((Bound::Included(prefix), end));
        }
        let start = bound(&self.from)?.map_or(Bound::Unbounded, Bound::Included);
        Ok((start, bound(&self.to)?.map_or(Bound::Unbounded, Bound::Excluded)))
    }
}

#[derive(Args)]
pub struct DeleteArguments {
    #[command(flatten)]
    store: StoreFlags,
    /// The key; \xNN, \t, \n and \\ stand for bytes
    #[arg(value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    range: RangeFlags,
}

/// Takes keys away, durably: whether they were there is not looked at.
pub fn delete(arguments: &DeleteArguments) -> Done {
    if arguments.key.is_some() == arguments.range.is_given() {
        return Err(Failure::input("name a key, or a range by --from, --to or --prefix: one of the two"));
    }
    let key = arguments.key.as_deref().map(|key| bytes("the key", key)).transpose()?;
    let range = arguments.range.bounds()?;
    let database = arguments.store.open()?;
    let tree = arguments.store.tree_to_read(&database)?;
    let mut batch = Batch::new();
    match key {
        Some(key) => batch.remove(&tree, key),
        None => batch.remove_range::<Vec<u8>>(&tree, range),
    }
    database.commit(&batch, Durability::Sync).map_err(|error| arguments.store.fault(&error))?;
    Ok(ExitCode::SUCCESS)
}
