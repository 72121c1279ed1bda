//! Storage that fails: at every request of a run, once or from then on.

use storage::{Fault, FaultKind, Faulty, Memory, Operation};

use super::workload::{Map, batch, content, durability, number, random, tiny, unsound};
use crate::{Batch, Database, Durability, Error};

/// How many requests the run makes without a fault, with one at `at`, and whether it went through.
fn run(seed: u64, fault: Option<Fault>) -> Result<u64, String> {
    let memory = Memory::new(1 << 20);
    let options = tiny(seed);
    drop(Database::create(memory.clone(), options.clone(), 3).map_err(|error| error.to_string())?);
    let (faulty, faults) = Faulty::new(memory.clone());
    if let Some(fault) = fault {
        faults.add(fault);
    }
    let mut random = random(seed);
    let mut maps = vec![Map::new()];
    let mut acknowledged = 0;
    let worked: Result<(), Error> = (|| {
        let database = Database::open(faulty, options.clone())?;
        let tree = database.tree("t")?;
        for next in 1..40 {
            let mut map = maps.last().cloned().unwrap_or_default();
            let batch = batch(&tree, next, &mut random, &mut map);
            maps.push(map);
            let how = durability(&mut random);
            let committed = database.commit(&batch, how);
            if committed.is_ok() && how == Durability::Sync {
                acknowledged = maps.len() - 1;
            }
            if let Err(error) = committed {
                let after = database.commit(&Batch::new(), Durability::Sync);
                if after.is_ok() {
                    // It was refused because something could not be read.
                    maps.pop();
                    return Err(error);
                }
                // Nothing may be built on what is not known to be there.
                let again = tree.insert("after", "", Durability::Sync);
                assert!(
                    matches!((&after, &again), (Err(Error::PreviousIo), Err(Error::PreviousIo))),
                    "goes on after {error}: {again:?}"
                );
                return Err(error);
            }
            if next % 17 == 0 {
                database.checkpoint()?;
            }
            // Reads go on, right or with an error.
            match content(&tree) {
                Ok(found) => assert!(found == maps[maps.len() - 1], "a read is right or fails"),
                Err(Error::Storage(_) | Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })();
    if fault.is_none() {
        worked.map_err(|error| error.to_string())?;
        return Ok(faults.requests());
    }
    faults.clear();
    // Whatever happened, what was acknowledged is there.
    let database = Database::open(memory, options).map_err(|error| format!("open: {error}"))?;
    let tree = database.tree("t").map_err(|error| format!("tree: {error}"))?;
    let found = content(&tree).map_err(|error| format!("read: {error}"))?;
    let last = number(&found) as usize;
    if last < acknowledged {
        return Err(format!("batch {acknowledged} was acknowledged, and {last} is the last ({worked:?})"));
    }
    if maps.get(last) != Some(&found) {
        return Err(format!("batch {last} is the last, and the content is not what it left ({worked:?})"));
    }
    match unsound(&database) {
        Some(what) => Err(format!("{what} ({worked:?})")),
        None => Ok(faults.injected()),
    }
}

/// Fails each request of opening a store whose program was killed with batches in the log; opened again, they are all there.
pub(super) fn opening(seed: u64) -> Result<(), String> {
    let memory = Memory::new(1 << 20);
    let database = Database::create(memory.clone(), tiny(seed), 3).map_err(|error| error.to_string())?;
    let tree = database.tree("t").map_err(|error| error.to_string())?;
    let (mut random, mut map) = (random(seed), Map::new());
    for number in 1..12 {
        let batch = batch(&tree, number, &mut random, &mut map);
        database.commit(&batch, Durability::Sync).map_err(|error| error.to_string())?;
    }
    let killed = memory.image();
    for at in 0.. {
        let memory = Memory::from_image(killed.clone());
        let (faulty, faults) = Faulty::new(memory.clone());
        faults.add(Fault { operation: None, at, lasting: false, kind: FaultKind::Error });
        let opened = Database::open(faulty, tiny(seed)).map(drop);
        if faults.injected() == 0 {
            return if at > 5 { Ok(()) } else { Err(format!("only {at} requests")) };
        }
        let again = Database::open(memory, tiny(seed)).map_err(|error| format!("request {at}: {error}"))?;
        let found =
            again.tree("t").and_then(|tree| content(&tree)).map_err(|error| format!("request {at}: {error}"))?;
        if found != map {
            return Err(format!("request {at}, which made it {opened:?}: batches are missing"));
        }
    }
    Ok(())
}

#[test]
fn a_failed_opening_loses_nothing() {
    for seed in 0..6 {
        opening(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

/// Fails each request in turn; `stride` skips some.
pub(super) fn every_request(seed: u64, stride: usize) -> Result<(), String> {
    let requests = run(seed, None)?;
    for kind in [FaultKind::Error, FaultKind::Short] {
        for lasting in [false, true] {
            for at in (0..requests).step_by(stride) {
                let fault = Fault { operation: None, at, lasting, kind };
                let injected = run(seed, Some(fault)).map_err(|what| format!("{fault:?}: {what}"))?;
                assert!(injected > 0, "{fault:?} was not reached");
            }
        }
    }
    // A read that returns a wrong bit once is an error, never a wrong answer.
    for at in (0..requests).step_by(stride) {
        let kind = FaultKind::Corrupt { bit: at * 977 };
        let fault = Fault { operation: Some(Operation::Read), at, lasting: false, kind };
        run(seed, Some(fault)).map_err(|what| format!("{fault:?}: {what}"))?;
    }
    Ok(())
}

#[test]
fn a_failed_request_loses_nothing() {
    let stride = if std::env::var_os("PLUMB_LONG").is_some() { 1 } else { 11 };
    for seed in 0..2 {
        every_request(seed, stride).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}
