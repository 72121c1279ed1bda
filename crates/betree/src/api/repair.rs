//! Saving what a damaged store still has into a new one.

use storage::Storage;

use crate::api::{Batch, Database, Snapshot};
use crate::engine::Salvaged;
use crate::error::{Error, Result};
use crate::options::{Durability, Options};

/// Bytes of entries that go into the new store together.
const BATCH_BYTES: usize = 256 << 10;

/// Keys of which not everything could be read. What is said of them in the new store is what newer messages say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The tree.
    pub tree: String,
    /// The first of the keys.
    pub start: Vec<u8>,
    /// The first key behind them; none: they are the tree's last.
    pub end: Option<Vec<u8>>,
    /// What was met.
    pub why: String,
}

/// What a repair saved, and what it did not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Repaired {
    /// Trees in the new store.
    pub trees: u64,
    /// Entries in the new store.
    pub entries: u64,
    /// In the order of the trees' names and their keys.
    pub lost: Vec<Lost>,
    /// Why batches at the end of the log are lost, if any are.
    pub log: Option<String>,
    /// Snapshots: they are not saved.
    pub snapshots: Vec<String>,
}

/// Reads a store, whatever is damaged, and puts all that can be read into a new one on another storage. The damaged store is
/// not written to. `progress` is told how many entries were saved.
///
/// # Errors
///
/// [`Error::NotAStore`] and [`Error::Corrupt`] where no superblock or not its catalog can be read, for then nothing is known of the
/// trees; [`Error::UnknownOperator`]; what the new storage met.
pub fn repair(
    from: impl Storage + Clone + 'static,
    to: impl Storage + 'static,
    options: Options,
    store_id: u128,
    mut progress: impl FnMut(u64),
) -> Result<Repaired> {
    let mut repaired = Repaired::default();
    let old = match Database::open_read_only(from.clone(), options.clone()) {
        Err(error @ Error::Corrupt { .. }) => {
            repaired.log = Some(error.to_string());
            Database::open_read_only(from, Options { accept_log_damage: true, ..options.clone() })?
        }
        opened => opened?,
    };
    let new = Database::create(to, Options { accept_log_damage: false, ..options }, store_id)?;
    let view = old.snapshot();
    for name in old.tree_names() {
        repaired.trees += 1;
        tree(&old, &view, &new, &name, &mut repaired, &mut progress)?;
    }
    repaired.snapshots = old.snapshot_names();
    new.checkpoint()?;
    Ok(repaired)
}

fn tree(
    old: &Database,
    view: &Snapshot,
    new: &Database,
    name: &str,
    repaired: &mut Repaired,
    progress: &mut impl FnMut(u64),
) -> Result<()> {
    let (from, to) = (old.open_tree(name)?, new.tree(name)?);
    let (mut batch, mut bytes) = (Batch::new(), 0);
    view.salvage(&from, &mut |salvaged| {
        match salvaged {
            Salvaged::Entry(key, value) => {
                bytes += key.len() + value.len();
                batch.insert(&to, key, value);
                repaired.entries += 1;
                if bytes >= BATCH_BYTES {
                    new.commit(&std::mem::take(&mut batch), Durability::None)?;
                    bytes = 0;
                    progress(repaired.entries);
                }
            }
            Salvaged::Lost(range, error) => {
                let (start, end) = (range.start.into_vec(), range.end.map(|end| end.into_vec()));
                let why = error.to_string();
                // Cells beside each other that one block is missing for are one finding.
                match repaired.lost.last_mut() {
                    Some(last) if last.tree == name && last.why == why && last.end.as_ref() == Some(&start) => {
                        last.end = end
                    }
                    _ => repaired.lost.push(Lost { tree: name.to_owned(), start, end, why }),
                }
            }
        }
        Ok(())
    })?;
    new.commit(&batch, Durability::None)
}
