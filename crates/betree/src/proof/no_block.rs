//! Free blocks that are refused, at every request of a run: batches are done or refused whole, no failure stays, and what was refused
//! goes when there is room again.

use rand::RngExt;
use storage::Memory;

use super::workload::{Map, batch, content, durability, random, tiny, unsound};
use crate::refusal;
use crate::{Database, Error};

const BATCHES: u64 = 80;

/// A run whose requests for free blocks of these numbers are refused; how many there were.
fn run(seed: u64, refused: std::ops::Range<u64>) -> Result<u64, String> {
    let failed = |what: &'static str| move |error: Error| format!("{what}: {error}");
    let memory = Memory::new(1 << 20);
    let database = Database::create(memory.clone(), tiny(seed), 3).map_err(failed("create"))?;
    let tree = database.tree("t").map_err(failed("tree"))?;
    let mut random = random(seed);
    let mut map = Map::new();
    refusal::refuse(refused);
    for number in 1..=BATCHES {
        let before = refusal::count();
        let mut next = map.clone();
        let batch = batch(&tree, number, &mut random, &mut next);
        match database.commit(&batch, durability(&mut random)) {
            Ok(()) => map = next,
            Err(Error::Full) if refusal::count() > before => {}
            Err(error) => return Err(format!("batch {number}: {error}")),
        }
        let done = match random.random_range(0..20) {
            0 => database.checkpoint(),
            1 => database.quiesce(),
            2 => database.sync(),
            3 => match database.snapshot_names().first() {
                Some(name) => database.remove_snapshot(name),
                None => database.save_snapshot("kept"),
            },
            _ => database.work(random.random_range(0..3000)).map(drop),
        };
        match done {
            Ok(()) => {}
            // Also for what was begun before.
            Err(Error::Full) if refusal::count() > 0 => {}
            Err(error) => return Err(format!("behind batch {number}: {error}")),
        }
        if refusal::count() > before {
            if content(&tree).map_err(failed("read"))? != map {
                return Err(format!("behind batch {number}: the content differs"));
            }
            if let Some(what) = unsound(&database) {
                return Err(format!("behind batch {number}: {what}"));
            }
        }
    }
    let requests = refusal::end();
    // There is room again.
    database.quiesce().map_err(failed("quiesce"))?;
    if let Some(what) = unsound(&database) {
        return Err(what);
    }
    drop((tree, database));
    let database = Database::open(memory, tiny(seed)).map_err(failed("open"))?;
    if content(&database.tree("t").map_err(failed("tree"))?).map_err(failed("read"))? != map {
        return Err("opened again, the content differs".to_owned());
    }
    unsound(&database).map_or(Ok(requests), Err)
}

/// Each request in turn, or some of them, and those behind it for a while or to the end; how many runs.
pub(super) fn at_every_request(seed: u64, stride: usize) -> Result<usize, String> {
    let requests = run(seed, u64::MAX..u64::MAX)?;
    let mut runs = 0;
    for first in (seed % stride as u64..requests).step_by(stride) {
        for end in [first + 1, first + 9, u64::MAX] {
            run(seed, first..end).map_err(|what| format!("seed {seed}, {first} to {end} of {requests}: {what}"))?;
            runs += 1;
        }
    }
    Ok(runs)
}

/// `PLUMB_LONG=1`: each request of more runs.
#[test]
fn what_has_no_block_is_refused_and_goes_later() {
    let (seeds, stride) = if std::env::var_os("PLUMB_LONG").is_some() { (60, 1) } else { (6, 11) };
    let mut runs = 0;
    for seed in 0..seeds {
        runs += at_every_request(seed, stride).unwrap_or_else(|what| panic!("{what}"));
    }
    println!("{runs} runs with free blocks refused");
}
