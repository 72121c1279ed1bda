//! Refusals for want of room at every point of a mixed load: what is refused says so and does nothing, everything else goes on, and what
//! is there can be removed and leaves nothing.

use storage::Memory;

use super::action::{Action, Scale, action, bytes, random};
use super::compare::{difference, tree};
use super::full_at_once;
use super::side::{Answer, Side, entries};
use super::traces::{at, long, seeds_of_both, tiny};
use crate::operations::{Caller, Error, InodeNumber, Name, Operations, Permissions};
use crate::refusal::{self, Refuser};
use crate::{Model, Volume, VolumeOptions};

const ROOT: InodeNumber = InodeNumber::ROOT;
const SCALE: Scale = Scale { file_bytes: 140_000, write_bytes: 30_000 };
const STEPS: u64 = 70;
const CAPACITY_BYTES: u64 = 8 << 20;

fn options(seed: u64) -> VolumeOptions {
    // Every operation is one batch, but for those of whole trees.
    VolumeOptions { write_bytes_max: 250 << 10, ..tiny(seed) }
}

fn words(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

/// Both file systems are alike, and the real one is sound.
pub(super) fn compare(real: &Volume, model: &Model) -> Result<(), String> {
    let (right, found) = (tree(model).map_err(words("the model"))?, tree(real).map_err(words("read"))?);
    if let Some(what) = difference(&right, &found) {
        return Err(what);
    }
    real.check().map_err(words("check"))?.first().map_or(Ok(()), |finding| Err(finding.to_string()))
}

/// What else than nothing an operation may have done that was refused: a tree loses its name before it is taken apart, a file its last
/// user before it goes.
fn may_have_begun(action: &Action) -> bool {
    matches!(action, Action::RemoveTree { .. } | Action::Release { .. })
}

/// A load with refusals; the requests that there were.
fn load(seed: u64, by: Refuser, first: u64, is_lasting: bool) -> Result<u64, String> {
    let memory = Memory::new(CAPACITY_BYTES);
    let fs = Volume::create(memory.clone(), options(seed), 1, at(0)).map_err(words("create"))?;
    let free_blocks = fs.statfs().map_err(words("statfs"))?.free_blocks;
    let (mut real, mut model) = (Side::new(fs), Side::new(Model::new(at(0))));
    let mut random = random(seed);
    refusal::refuse(by, first, is_lasting);
    for step in 1..=STEPS {
        let action = match step {
            // What there is to lose.
            1..6 => Action::Create { parent: 0, name: vec![b'a' + step as u8], mode: 0o644 },
            6..9 => Action::Mkdir { parent: 0, name: vec![b'f' + step as u8], mode: 0o755 },
            _ => action(&mut random, model.slots.len(), SCALE),
        };
        let tell = |why: String| format!("step {step}, {action:?}: {why}");
        let (before, opened, slots) = (model.fs.copied(), model.opened.clone(), model.slots.len());
        let ended = real.end;
        let refused = refusal::count();
        let found = real.apply(&action, at(step));
        // What is held is carried out, so that it is known what was refused.
        real.fs.settle().map_err(words("settle")).map_err(tell)?;
        let is_refused = refusal::count() > refused;
        if found == Answer::Error(Error::NotSupported) {
            continue;
        }
        let ends = (model.end, ended);
        let right = model.apply(&action, at(step));
        let mut happened = true;
        if is_refused && matches!(found, Answer::Error(Error::NoSpace)) {
            happened = may_have_begun(&action) && compare(&real.fs, &model.fs).is_ok();
            if let (true, Action::Release { inode }) = (happened, &action) {
                let inode = real.slots[inode % real.slots.len()];
                let place = real.opened.iter().position(|one| *one == inode).ok_or("nobody had opened it")?;
                real.opened.swap_remove(place);
            }
        } else if found != right {
            return Err(tell(format!("{found:?} instead of {right:?}")));
        }
        if is_refused && happened {
            happened = match action {
                // What was held of it had no room: who makes it durable hears of that.
                Action::Write { .. } | Action::WriteOn { .. } => match real.fs.syncfs() {
                    Err(Error::NoSpace) => false,
                    said => said.map(|()| true).map_err(words("sync")).map_err(tell)?,
                },
                // It was not noted.
                Action::Read { .. } => false,
                _ => true,
            };
        }
        if !happened {
            (model.fs, model.opened) = (before, opened);
            (model.end, real.end) = ends;
            model.slots.truncate(slots);
        }
        if is_refused {
            while real.fs.reap(9).map_err(words("reap"))? {}
            compare(&real.fs, &model.fs).map_err(tell)?;
            if matches!(action, Action::Release { .. }) {
                // What could not go with its last user goes with the next mount; until then numbers lead to it.
                break;
            }
        }
    }
    if by == Refuser::Store {
        refusal::end();
    }
    compare(&real.fs, &model.fs).map_err(|why| format!("at the end: {why}"))?;
    real.fs.syncfs().map_err(words("sync"))?;
    drop(real);
    let fs = Volume::open(memory.clone(), options(seed)).map_err(words("mount"))?;
    while fs.reap(9).map_err(words("reap"))? {}
    compare(&fs, &model.fs.remounted()).map_err(|why| format!("mounted again: {why}"))?;
    // Whatever is refused still, what is there can be removed.
    remove_all(&fs)?;
    let (requests, _) = refusal::end();
    let (keys, free) = (fs.data_keys().map_err(words("keys"))?, fs.statfs().map_err(words("statfs"))?.free_blocks);
    // The trees are there for good, and nodes that messages left behind.
    if keys > 0 || free + 64 < free_blocks {
        return Err(format!("{keys} keys of data are left, and {free} of {free_blocks} blocks are free"));
    }
    Ok(requests)
}

/// Removes everything, and takes the room back.
pub(super) fn remove_all(fs: &Volume) -> Result<(), String> {
    let caller = Caller { uid: 0, gid: 0, groups: &[], umask: 0, now: at(1 << 20) };
    for (name, _) in entries(fs, ROOT, 100).map_err(words("readdir"))? {
        let name = Name::new(&name).map_err(words("name"))?;
        match fs.unlink(&caller, ROOT, name) {
            Err(Error::IsDirectory) => fs.remove_tree(&caller, ROOT, name).map_err(words("remove a tree"))?,
            done => done.map_err(words("unlink"))?,
        }
    }
    fs.quiesce(&caller).map_err(words("quiesce"))?;
    match fs.check().map_err(words("check"))?.first() {
        Some(finding) => Err(format!("emptied: {finding}")),
        None if entries(fs, ROOT, 100).map_err(words("readdir"))?.is_empty() => Ok(()),
        None => Err("something is left".to_owned()),
    }
}

/// Every request of a load in turn, or some of them; how many.
pub(super) fn at_every_request(seed: u64, stride: usize) -> Result<usize, String> {
    let mut runs = 0;
    for (by, is_lasting) in [(Refuser::Store, false), (Refuser::Admission, false), (Refuser::Admission, true)] {
        let requests = load(seed, by, u64::MAX, false)?;
        for first in (seed % stride as u64..requests).step_by(stride) {
            load(seed, by, first, is_lasting)
                .map_err(|what| format!("seed {seed}, {by:?} refuses {first}, lasting: {is_lasting}: {what}"))?;
            runs += 1;
        }
    }
    Ok(runs)
}

/// What is held has room when it is let in; what is lost nevertheless is said by the next sync, once; and who only reads needs none.
pub(super) fn held() -> Result<(), String> {
    let caller = Caller { uid: 0, gid: 0, groups: &[], umask: 0, now: at(1) };
    let name = Name::new(b"file").map_err(words("name"))?;
    let new = |options: VolumeOptions| {
        let fs = Volume::create(Memory::new(5 << 20), options, 1, at(0)).map_err(words("create"))?;
        let file = fs.create(&caller, ROOT, name, Permissions::of_mode(0o600)).map_err(words("create"))?.inode;
        Ok::<_, String>((fs, file))
    };
    // Nearly as much is held as a small device has for removing things.
    for seed in 0..6 {
        let (fs, file) = new(full_at_once::options(seed))?;
        let mut end = 0;
        for length in [65_536, 4096, 500] {
            loop {
                match fs.write(&caller, file, end, &bytes(end, length), false) {
                    Ok(_) => end += length as u64,
                    Err(Error::NoSpace) => break,
                    Err(error) => return Err(format!("filling: {error}")),
                }
            }
        }
        fs.syncfs().map_err(words("what was let in has no room"))?;
    }
    let (fs, file) = new(options(0))?;
    fs.write(&caller, file, 0, &[7; 500], false).map_err(words("write"))?;
    refusal::refuse(Refuser::Store, 0, false);
    let settled = fs.settle();
    refusal::end();
    settled.map_err(words("settle"))?;
    if (fs.syncfs(), fs.syncfs()) != (Err(Error::NoSpace), Ok(())) {
        return Err("a lost write is not said once".to_owned());
    }
    fs.write(&caller, file, 0, &[7; 500], false).and_then(|_| fs.settle()).map_err(words("write"))?;
    let mut buffer = [0; 500];
    refusal::refuse(Refuser::Store, 0, false);
    let read = fs.read(&Caller { now: at(9), ..caller }, file, 0, &mut buffer);
    let (requests, _) = refusal::end();
    match (read, requests) {
        (Ok(500), 1) => Ok(()),
        other => Err(format!("a read that cannot be noted, and requests for room: {other:?}")),
    }
}

#[test]
fn what_is_held_has_room() {
    held().unwrap_or_else(|what| panic!("{what}"));
}

/// `PLUMB_LONG=1`: every request of more loads.
#[test]
fn whatever_is_refused_does_nothing() {
    let (seeds, stride) = if long() { (24, 1) } else { (6, 3) };
    let mut runs = 0;
    for seed in seeds_of_both(seeds, 1) {
        runs += at_every_request(seed, stride).unwrap_or_else(|what| panic!("{what}"));
    }
    println!("{runs} loads with a refusal");
}
