//! The power goes twice in the same place of the log: what the first recovery did not find never comes back.

use std::collections::BTreeSet;

use crash::{Cuts, VolatileCache};
use storage::{Image, Memory, Recorded};

use super::workload::{Map, content, tiny};
use crate::{Batch, Database, Durability, Error, Options};

const SECTOR_BYTES: u32 = 512;

fn failed(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

/// All values in the frame.
fn options() -> Options {
    Options { large_value_bytes: usize::MAX, ..tiny(0) }
}

/// What recovery finds.
fn recovered(image: Image) -> Result<Map, String> {
    let database = Database::open(Memory::from_image(image), options()).map_err(failed("open"))?;
    content(&database.tree("t").map_err(failed("tree"))?).map_err(failed("read"))
}

/// One batch that is not waited for, as one frame of three sectors, and each way in which a cut may tear it. The batches
/// differ in their first value; the others are such as a program writes again and again.
fn torn(before: &Image, first: u8) -> Result<Vec<Image>, String> {
    let (recorded, recording) = Recorded::new(Memory::from_image(before.clone()));
    let database = Database::open(recorded, options()).map_err(failed("open"))?;
    let tree = database.tree("t").map_err(failed("tree"))?;
    recording.mark(1);
    let mut batch = Batch::new();
    batch.insert(&tree, "a", vec![first; 300]);
    batch.insert(&tree, "b", vec![1; 400]);
    batch.insert(&tree, "c", vec![2; 400]);
    database.commit(&batch, Durability::Batch).map_err(failed("commit"))?;
    let log = recording.take();
    let cut = Cuts::new(before.clone(), &log, VolatileCache::default()).last().ok_or("there is no cut")?;
    if cut.mark != Some(1) || cut.undecided.len() != 1 {
        return Err(format!("{} writes are undecided, not the frame alone", cut.undecided.len()));
    }
    Ok((0..8u32).map(|kept| cut.image(SECTOR_BYTES, |_, sector| sector < 3 && kept >> sector & 1 == 1)).collect())
}

/// Tears one frame in every way, recovers, tears another in the same place in every way, and recovers again. Returns how
/// many of the second recoveries found the second frame, and how many found none.
pub(super) fn torn_twice() -> Result<(u64, u64), String> {
    let memory = Memory::new(1 << 20);
    let database = Database::create(memory.clone(), options(), 7).map_err(failed("create"))?;
    database.tree("t").map_err(failed("tree"))?;
    drop(database);
    let mut counts = (0, 0);
    let mut lost = BTreeSet::new();
    for (kept, image) in torn(&memory.image(), 7)?.into_iter().enumerate() {
        let found = recovered(image.clone())?;
        if !found.is_empty() {
            continue;
        }
        lost.insert(kept);
        for (kept_then, image) in torn(&image, 9)?.into_iter().enumerate() {
            let found = recovered(image)?;
            match found.get(&b"a"[..]) {
                None => counts.1 += 1,
                Some(value) if value[..] == [9; 300] => counts.0 += 1,
                Some(_) => return Err(format!("sectors {kept:#b} and then {kept_then:#b}: a lost batch came back")),
            }
        }
    }
    // Whole it is found, and only then.
    if lost.len() == 7 { Ok(counts) } else { Err(format!("lost with {lost:?} of its sectors")) }
}

#[test]
fn a_frame_that_was_lost_stays_lost() {
    let (found, none) = torn_twice().unwrap();
    assert!(found >= 7 && none > 0, "{found} and {none}");
}
