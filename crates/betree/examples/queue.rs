//! A queue that outlives its program: what was put and not taken is there again, in order, each item once.
//!
//! ```text
//! cargo run --release -p plumb-betree --example queue -- FILE put ITEM...|take COUNT
//! ```
//!
//! Items have ascending numbers. Those at the front are taken with one range delete, however many there are, under the condition that
//! the number of the first one is what it was; so two who take at once do not get the same.

use std::error::Error;
use std::path::Path;

use betree::{Batch, Database, Durability, Options, Tree};
use storage::{File, FileOptions};

struct Queue {
    database: Database,
    /// Number to item.
    items: Tree,
    /// `first` and `next`: numbers of the item at the front, and of the one that comes next.
    ends: Tree,
}

fn number(bytes: Option<Vec<u8>>) -> u64 {
    bytes.and_then(|bytes| bytes.first_chunk().copied()).map_or(0, u64::from_be_bytes)
}

impl Queue {
    fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let options = Options { log_bytes: 4 << 20, ..Options::default() };
        let is_new = !path.exists();
        let file = File::open(path, &FileOptions { capacity_bytes: Some(256 << 20), ..FileOptions::default() })?;
        let id = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos();
        let database = if is_new { Database::create(file, options, id)? } else { Database::open(file, options)? };
        let (items, ends) = (database.tree("items")?, database.tree("ends")?);
        Ok(Self { database, items, ends })
    }

    fn put(&self, items: &[String]) -> betree::Result<u64> {
        loop {
            let before = self.ends.get("next")?;
            let next = number(before.clone());
            let mut batch = Batch::new();
            batch.require(&self.ends, "next", before.as_deref());
            for (at, item) in (next..).zip(items) {
                batch.insert(&self.items, at.to_be_bytes(), item.as_str());
            }
            let end = next + items.len() as u64;
            batch.insert(&self.ends, "next", end.to_be_bytes());
            match self.database.commit(&batch, Durability::Sync) {
                Err(betree::Error::Conflict) => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(end - number(self.ends.get("first")?)),
            }
        }
    }

    fn take(&self, count: usize) -> betree::Result<Vec<Vec<u8>>> {
        loop {
            let before = self.ends.get("first")?;
            let first = number(before.clone());
            let front: Vec<_> = self.items.range(&first.to_be_bytes()[..]..).take(count).collect::<Result<_, _>>()?;
            let next = first + front.len() as u64;
            let mut batch = Batch::new();
            batch.require(&self.ends, "first", before.as_deref());
            batch.remove_range(&self.items, &first.to_be_bytes()[..]..&next.to_be_bytes()[..]);
            batch.insert(&self.ends, "first", next.to_be_bytes());
            match self.database.commit(&batch, Durability::Sync) {
                Err(betree::Error::Conflict) => {}
                result => return result.map(|()| front.into_iter().map(|(_, item)| item).collect()),
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [path, what, items @ ..] if what == "put" => {
            println!("{} wait", Queue::open(path.as_ref())?.put(items)?);
        }
        [path, what, count] if what == "take" => {
            for item in Queue::open(path.as_ref())?.take(count.parse()?)? {
                println!("{}", String::from_utf8_lossy(&item));
            }
        }
        _ => return Err("FILE put ITEM... or FILE take COUNT".into()),
    }
    Ok(())
}
