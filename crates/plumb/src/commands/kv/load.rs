//! Many entries from a file, in batches.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use betree::{Batch, Database, Durability, Tree};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::super::Done;
use super::store::StoreFlags;
use super::text;
use crate::failure::Failure;

/// Bytes of one batch in the log: fewer than a quarter of a small log, which is what a store takes.
const BATCH_BYTES: usize = 48 << 10;

/// Bytes of an entry in the log besides its own.
const ENTRY_BYTES: usize = 32;

/// The longest line: a key and a value of the greatest lengths, every byte escaped.
const LINE_BYTES_MAX: u64 = 4 * (betree::KEY_BYTES_MAX + betree::VALUE_BYTES_MAX) as u64 + 2;

#[derive(Args)]
#[command(
    after_help = "Each line is a key, a tab and a value, as `plumb kv scan` prints them: \\xNN, \\t, \\n and \\\\ stand
for bytes. Entries go in many at a time; when it ends all of them are durable. Interrupted, it can be run
again from the beginning."
)]
pub struct LoadArguments {
    #[command(flatten)]
    store: StoreFlags,
    /// The file, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print what was done as an object
    #[arg(long)]
    json: bool,
}

fn bar(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:30} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left"),
        None => (ProgressBar::no_length(), "{spinner} {bytes}, {bytes_per_sec}"),
    };
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Puts them in.
pub fn load(arguments: &LoadArguments) -> Done {
    let name = arguments.file.display().to_string();
    let refused = |error: std::io::Error| Failure::input(format!("{name}: {error}"));
    let (source, bytes): (Box<dyn Read>, Option<u64>) = if name == "-" {
        (Box::new(std::io::stdin()), None)
    } else {
        let file = File::open(&arguments.file).map_err(refused)?;
        let bytes = file.metadata().map_err(refused)?.len();
        (Box::new(file), Some(bytes))
    };
    let database = arguments.store.open()?;
    let tree = arguments.store.tree_to_write(&database)?;
    let bar = bar(bytes);
    let began = Instant::now();
    let mut loaded = Loaded { database: &database, tree: &tree, batch: Batch::new(), batch_bytes: 0, entries: 0 };
    let read = lines(source, |number, line| {
        bar.inc(line.len() as u64 + 1);
        let (key, value) =
            text::parse(line).map_err(|error| Failure::input(format!("{name}, line {number}: {error}")))?;
        loaded.add(key, value).map_err(|error| match error {
            betree::Error::TooLarge { .. } => Failure::input(format!("{name}, line {number}: {error}")),
            error => arguments.store.fault(&error),
        })
    });
    let (kept, entries) = (loaded.finish(), loaded.entries);
    bar.finish_and_clear();
    match (read, kept) {
        (Ok(()), Ok(())) => {}
        (Ok(()), Err(error)) => return Err(arguments.store.fault(&error)),
        (Err(LineError::Read(error)), _) => return Err(Failure::Machine(format!("{name}: {error}"))),
        (Err(LineError::Failed(failure)), kept) => {
            if kept.is_ok() && entries > 0 {
                eprintln!("{entries} entries before are in the store.");
            }
            return Err(failure);
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    if arguments.json {
        println!("{}", json!({ "entries": entries, "seconds": seconds }));
    } else {
        println!("{entries} entries in {seconds:.1} s");
    }
    Ok(ExitCode::SUCCESS)
}

struct Loaded<'a> {
    database: &'a Database,
    tree: &'a Tree,
    batch: Batch,
    batch_bytes: usize,
    entries: usize,
}

impl Loaded<'_> {
    fn add(&mut self, key: Vec<u8>, value: Vec<u8>) -> betree::Result<()> {
        for (what, bytes, max_bytes) in
            [("a key", key.len(), betree::KEY_BYTES_MAX), ("a value", value.len(), betree::VALUE_BYTES_MAX)]
        {
            if bytes > max_bytes {
                return Err(betree::Error::TooLarge { what, bytes, max_bytes });
            }
        }
        let bytes = ENTRY_BYTES + key.len() + value.len();
        if self.batch_bytes + bytes > BATCH_BYTES {
            self.commit()?;
        }
        self.batch_bytes += bytes;
        self.batch.insert(self.tree, key, value);
        Ok(())
    }

    fn commit(&mut self) -> betree::Result<()> {
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        self.database.commit(&batch, Durability::None)?;
        self.entries += batch.len();
        Ok(())
    }

    fn finish(&mut self) -> betree::Result<()> {
        self.commit()?;
        self.database.sync()
    }
}

enum LineError {
    Read(std::io::Error),
    Failed(Failure),
}

/// Gives each line with its number.
fn lines(source: Box<dyn Read>, mut each: impl FnMut(u64, &[u8]) -> Result<(), Failure>) -> Result<(), LineError> {
    let mut source = BufReader::with_capacity(1 << 20, source);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let mut bounded = source.by_ref().take(LINE_BYTES_MAX);
        if bounded.read_until(b'\n', &mut line).map_err(LineError::Read)? == 0 {
            break;
        }
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        each(number, line).map_err(LineError::Failed)?;
    }
    Ok(())
}
