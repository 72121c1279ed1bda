//! Views and kept snapshots in every order: what is open never changes, whatever is removed, written and reused beside
//! it, and what nobody needs any more comes back.

use storage::Memory;

use super::workload::{Map, content, tiny, unsound};
use crate::{Batch, Database, Durability, Error, Options, Snapshot};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Write,
    RemoveRange,
    Checkpoint,
    View,
    Save,
    Open,
    CloneOldest,
    DropOldest,
    DropNewest,
    RemoveOldest,
    RemoveNewest,
    Reopen,
}

const STEPS: [Step; 12] = [
    Step::Write,
    Step::RemoveRange,
    Step::Checkpoint,
    Step::View,
    Step::Save,
    Step::Open,
    Step::CloneOldest,
    Step::DropOldest,
    Step::DropNewest,
    Step::RemoveOldest,
    Step::RemoveNewest,
    Step::Reopen,
];

/// Whether a step does something behind others: how many views are open and snapshots kept.
fn counts(path: &[Step]) -> Option<(usize, usize)> {
    let (mut views, mut kept) = (0usize, 0usize);
    for step in path {
        match step {
            Step::Write | Step::RemoveRange | Step::Checkpoint => {}
            Step::View => views += 1,
            Step::Save => kept += 1,
            Step::Open if kept > 0 => views += 1,
            Step::CloneOldest if views > 0 => views += 1,
            Step::DropOldest if views > 0 => views -= 1,
            // Of one view or snapshot the oldest is the newest.
            Step::DropNewest if views > 1 => views -= 1,
            Step::RemoveOldest if kept > 0 => kept -= 1,
            Step::RemoveNewest if kept > 1 => kept -= 1,
            Step::Reopen => views = 0,
            _ => return None,
        }
    }
    Some((views, kept))
}

struct Scene {
    memory: Memory,
    options: Options,
    database: Database,
    map: Map,
    views: Vec<(Snapshot, Map)>,
    kept: Vec<(String, Map)>,
    writes: u8,
    saves: u32,
}

impl Scene {
    fn new() -> Result<Self, Error> {
        let memory = Memory::new(1 << 20);
        let options = Options { cache_bytes: 0, large_value_bytes: 100, ..tiny(0) };
        let database = Database::create(memory.clone(), options.clone(), 3)?;
        let (map, views, kept) = (Map::new(), Vec::new(), Vec::new());
        let mut scene = Self { memory, options, database, map, views, kept, writes: 0, saves: 0 };
        scene.write()?;
        Ok(scene)
    }

    /// Writes over every value: in nodes, and apart.
    fn write(&mut self) -> Result<(), Error> {
        self.writes += 1;
        let tree = self.database.tree("t")?;
        let mut batch = Batch::new();
        for number in 0..8u8 {
            let value = vec![self.writes; if number == 3 { 4000 } else { 80 }];
            batch.insert(&tree, [number], value.clone());
            self.map.insert(vec![number], value);
        }
        self.database.commit(&batch, Durability::None)
    }

    fn carry_out(&mut self, step: Step) -> Result<(), Error> {
        match step {
            Step::Write => self.write()?,
            Step::RemoveRange => {
                self.database.tree("t")?.remove_range(&[2u8][..]..&[6u8][..], Durability::None)?;
                self.map.retain(|key, _| key[..] < [2][..] || key[..] >= [6][..]);
            }
            Step::Checkpoint => self.database.checkpoint()?,
            Step::View => self.views.push((self.database.snapshot(), self.map.clone())),
            Step::Save => {
                self.saves += 1;
                let name = format!("s{}", self.saves);
                self.database.save_snapshot(&name)?;
                self.kept.push((name, self.map.clone()));
            }
            Step::Open => {
                if let Some((name, then)) = self.kept.last() {
                    self.views.push((self.database.open_snapshot(name)?, then.clone()));
                }
            }
            Step::CloneOldest => self.views.extend(self.views.first().cloned()),
            Step::DropOldest => drop(self.views.remove(0)),
            Step::DropNewest => drop(self.views.pop()),
            Step::RemoveOldest => self.database.remove_snapshot(&self.kept.remove(0).0)?,
            Step::RemoveNewest => {
                if let Some((name, _)) = self.kept.pop() {
                    self.database.remove_snapshot(&name)?;
                }
            }
            Step::Reopen => {
                self.database.sync()?;
                self.views.clear();
                // The old store lets go before the new one begins.
                self.database = Database::create(Memory::new(1 << 20), self.options.clone(), 4)?;
                self.database = Database::open(self.memory.clone(), self.options.clone())?;
            }
        }
        Ok(())
    }

    fn judge(&self, when: &str) -> Result<(), String> {
        let failed = |error: Error| format!("{when}: {error}");
        let tree = self.database.tree("t").map_err(failed)?;
        if content(&tree).map_err(failed)? != self.map {
            return Err(format!("{when}: the content differs"));
        }
        for (number, (view, then)) in self.views.iter().enumerate() {
            let found: Map = view.range::<&[u8]>(&tree, ..).collect::<Result<_, Error>>().map_err(failed)?;
            if found != *then {
                return Err(format!("{when}: view {number} differs"));
            }
        }
        Ok(())
    }

    /// Blocks of the storage that something is in, or will be until a checkpoint.
    fn used_bytes(&self) -> u64 {
        let stats = self.database.stats();
        stats.capacity_bytes - stats.free_bytes
    }
}

/// One order of steps, with as much written behind it as takes every block that is free too early.
fn play(path: &[Step]) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let mut scene = Scene::new().map_err(failed)?;
    for (number, step) in path.iter().enumerate() {
        scene.carry_out(*step).map_err(|error| format!("step {number}: {error}"))?;
    }
    for round in 0..3 {
        scene.write().and_then(|()| scene.database.checkpoint()).map_err(failed)?;
        scene.judge(&format!("round {round}"))?;
    }
    let kept = std::mem::take(&mut scene.kept);
    for (name, then) in &kept {
        scene.views.push((scene.database.open_snapshot(name).map_err(failed)?, then.clone()));
        scene.database.remove_snapshot(name).map_err(failed)?;
    }
    scene.judge("every snapshot open and removed")?;
    scene.write().and_then(|()| scene.database.checkpoint()).map_err(failed)?;
    scene.judge("written again")?;
    if let Some(what) = unsound(&scene.database) {
        return Err(what);
    }
    // Without views and snapshots nothing keeps a block but the trees.
    scene.views.clear();
    for _ in 0..3 {
        scene.write().and_then(|()| scene.database.checkpoint()).map_err(failed)?;
    }
    let used = scene.used_bytes();
    let bound = (16 + 20 + 24) * 4096;
    if used > bound { Err(format!("{used} bytes are in use")) } else { Ok(()) }
}

/// Every order of up to `length` steps behind `path`; how many there were.
fn orders(path: &mut Vec<Step>, length: usize) -> Result<u64, String> {
    play(path).map_err(|what| format!("{path:?}: {what}"))?;
    let mut played = 1;
    for step in STEPS.iter().filter(|_| length > 0) {
        path.push(*step);
        if counts(path).is_some_and(|(views, kept)| views <= 3 && kept <= 2) {
            played += orders(path, length - 1)?;
        }
        path.pop();
    }
    Ok(played)
}

/// Every order of up to `length` steps, and of as many behind a snapshot that is kept and open.
pub(super) fn in_any_order(length: usize) -> Result<u64, String> {
    Ok(orders(&mut Vec::new(), length)? + orders(&mut vec![Step::Save, Step::Open], length - 1)?)
}

#[test]
fn open_views_never_change_in_any_order() {
    let length = if std::env::var_os("PLUMB_LONG").is_some() { 6 } else { 4 };
    let played = in_any_order(length).unwrap();
    println!("{played} orders of up to {length} steps");
}
