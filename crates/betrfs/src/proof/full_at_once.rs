//! A device that gets full at any moment of a mixed load: what adds is refused or done, nothing is half done, and with the ballast gone
//! everything goes on.

use storage::{Image, Memory};

use super::action::{Action, Scale, action, bytes, random};
use super::no_room::{compare, remove_all};
use super::side::{Answer, Side};
use super::traces::{PATHS, at, long, seeds_of_both, tiny};
use crate::operations::{Caller, Error, InodeNumber, Name, Operations, Permissions};
use crate::{Model, Volume, VolumeOptions, check};

const ROOT: InodeNumber = InodeNumber::ROOT;
const SCALE: Scale = Scale { file_bytes: 140_000, write_bytes: 30_000 };
const CAPACITY_BYTES: u64 = 5 << 20;
/// Operations of the load, and those that are tried when the device is full.
const STEPS: u64 = 40;
const TRIED: u64 = 12;

pub(super) fn options(seed: u64) -> VolumeOptions {
    // Nearly as much is held as such a device has for removing things; what paths move fits a quarter of the log.
    let write_bytes_max = if seed & PATHS == 0 { 100 << 10 } else { 64 << 10 };
    let mut options = VolumeOptions { write_bytes_max, ..tiny(seed) };
    // As large beside their headers as in use, so that what is there fits.
    (options.store.leaf_bytes, options.store.basement_bytes) = (64 << 10, 8 << 10);
    (options.store.memtable_bytes, options.store.fresh_bytes) = (32 << 10, 64 << 10);
    options.store.log_bytes = 512 << 10;
    options
}

fn words(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

fn caller(time: u64) -> Caller<'static> {
    Caller { uid: 0, gid: 0, groups: &[], umask: 0o022, now: at(time) }
}

/// Fills what is left by larger and smaller pieces of one file, and by files; their names.
fn fill(real: &Volume, model: &Model) -> Result<Vec<Vec<u8>>, String> {
    let mut names = vec![b"ballast".to_vec()];
    let name = Name::new(b"ballast").map_err(words("name"))?;
    let permissions = Permissions::of_mode(0o600);
    let by = &caller(1000);
    let ours = real.create(by, ROOT, name, permissions).map_err(words("ballast"))?.inode;
    let theirs = model.create(by, ROOT, name, permissions).map_err(words("ballast"))?.inode;
    let mut end = 0;
    for length in [65_536, 4096, 500] {
        loop {
            let piece = bytes(end + 1, length);
            match real.write(&caller(1001), ours, end, &piece, false) {
                Ok(_) => drop(model.write(&caller(1001), theirs, end, &piece, false).map_err(words("the model"))?),
                Err(Error::NoSpace) => break,
                Err(error) => return Err(format!("filling: {error}")),
            }
            end += length as u64;
            if end > CAPACITY_BYTES * 4 {
                return Err("it never got full".to_owned());
            }
        }
    }
    real.release(ours).and(model.release(theirs)).map_err(words("release"))?;
    for number in 0..10_000 {
        let name = format!("ballast {number}").into_bytes();
        let known = Name::new(&name).map_err(words("name"))?;
        match real.create(by, ROOT, known, permissions) {
            Ok(attributes) => {
                real.release(attributes.inode).map_err(words("release"))?;
                let attributes = model.create(by, ROOT, known, permissions).map_err(words("the model"))?;
                model.release(attributes.inode).map_err(words("release"))?;
            }
            Err(Error::NoSpace) => return Ok(names),
            Err(error) => return Err(format!("filling: {error}")),
        }
        names.push(name);
    }
    Err("it never got full".to_owned())
}

/// A file system at one moment of the load, and the model of it.
struct Moment {
    image: Image,
    model: Model,
    slots: [Vec<InodeNumber>; 2],
    time: u64,
}

/// Fills a file system, tries what there is to try, and takes the ballast away; how many operations were refused.
fn full_from(moment: Moment, seed: u64) -> Result<u64, String> {
    let memory = Memory::from_image(moment.image);
    let fs = Volume::open(memory.clone(), options(seed)).map_err(words("mount"))?;
    let (mut real, mut model) = (Side::new(fs), Side::new(moment.model));
    [real.slots, model.slots] = moment.slots;
    let names = fill(&real.fs, &model.fs)?;
    let mut random = random(seed ^ moment.time);
    let mut refused = 0;
    for tried in 0..TRIED {
        let now = at(2000 + tried);
        let action = action(&mut random, model.slots.len(), SCALE);
        let tell = |why: String| format!("full, {action:?}: {why}");
        let (before, opened) = (model.fs.copied(), model.opened.clone());
        let (slots, ends) = (model.slots.len(), (model.end, real.end));
        let found = real.apply(&action, now);
        if found == Answer::Error(Error::NotSupported) {
            continue;
        }
        let right = model.apply(&action, now);
        if found == Answer::Error(Error::NoSpace) {
            refused += 1;
            (model.fs, model.opened) = (before, opened);
            (model.end, real.end) = ends;
            model.slots.truncate(slots);
            compare(&real.fs, &model.fs).map_err(tell)?;
        } else if found != right {
            return Err(tell(format!("{found:?} instead of {right:?}")));
        }
    }
    let tell = |why: String| format!("full: {why}");
    // Also a copy of everything that there was, and of the moment.
    for name in [&b"a"[..], b"b"] {
        let name = Name::new(name).map_err(words("name"))?;
        let copy = Name::new(b"copy").map_err(words("name"))?;
        match real.fs.clone_tree(&caller(2100), ROOT, name, ROOT, copy) {
            Err(Error::NoSpace) => refused += 1,
            Err(Error::NotFound | Error::Exists) => {}
            Err(error) => return Err(tell(format!("a copy: {error}"))),
            Ok(_) => drop(
                model.fs.clone_tree(&caller(2100), ROOT, name, ROOT, copy).map_err(words("the model")).map_err(tell)?,
            ),
        }
    }
    let kept = real.fs.keep_snapshot(&caller(2101), "moment");
    match kept {
        Ok(()) => real.fs.drop_snapshot(&caller(2101), "moment").map_err(words("drop a snapshot")).map_err(tell)?,
        Err(Error::NoSpace) => {}
        Err(error) => return Err(tell(format!("a snapshot: {error}"))),
    }
    real.fs.syncfs().map_err(words("sync")).map_err(tell)?;
    compare(&real.fs, &model.fs).map_err(tell)?;
    for name in names {
        let name = Name::new(&name).map_err(words("name"))?;
        // The load may have given it to something else.
        let done = (real.fs.unlink(&caller(2102), ROOT, name), model.fs.unlink(&caller(2102), ROOT, name));
        if done.0 != done.1 || done.0 == Err(Error::NoSpace) {
            return Err(tell(format!("unlink: {:?} instead of {:?}", done.0, done.1)));
        }
    }
    // There is room again, at once.
    for step in 0..6 {
        let action = Action::Write { inode: step, offset: 0, length: 60_000, seed: 7, kill: false };
        let (found, right) = (real.apply(&action, at(2200)), model.apply(&action, at(2200)));
        if found != right {
            return Err(format!("without the ballast, {action:?}: {found:?} instead of {right:?}"));
        }
    }
    compare(&real.fs, &model.fs).map_err(|why| format!("without the ballast: {why}"))?;
    real.fs.syncfs().map_err(words("sync"))?;
    drop(real);
    let findings = check(memory.clone(), &options(seed)).map_err(words("check"))?;
    if let Some(finding) = findings.first() {
        return Err(finding.to_string());
    }
    let fs = Volume::open(memory, options(seed)).map_err(words("mount"))?;
    while fs.reap(50).map_err(words("reap"))? {}
    compare(&fs, &model.fs.remounted()).map_err(|why| format!("mounted again: {why}"))?;
    remove_all(&fs)?;
    Ok(refused)
}

/// A load whose device gets full before each of its operations, or some of them; moments and what was refused.
pub(super) fn at_every_moment(seed: u64, stride: u64) -> Result<(u64, u64), String> {
    let memory = Memory::new(CAPACITY_BYTES);
    let fs = Volume::create(memory.clone(), options(seed), 1, at(0)).map_err(words("create"))?;
    let (mut real, mut model) = (Side::new(fs), Side::new(Model::new(at(0))));
    let mut random = random(seed);
    let (mut moments, mut refused) = (0, 0);
    for time in 1..=STEPS {
        let action = action(&mut random, model.slots.len(), SCALE);
        let found = real.apply(&action, at(time));
        if found == Answer::Error(Error::NotSupported) {
            continue;
        }
        let right = model.apply(&action, at(time));
        if found != right {
            return Err(format!("step {time}, {action:?}: {found:?} instead of {right:?}"));
        }
        if time % stride == seed % stride {
            real.fs.syncfs().map_err(words("sync"))?;
            let slots = [real.slots.clone(), model.slots.clone()];
            let moment = Moment { image: memory.image(), model: model.fs.remounted(), slots, time };
            refused += full_from(moment, seed).map_err(|what| format!("seed {seed}, step {time}: {what}"))?;
            moments += 1;
        }
    }
    Ok((moments, refused))
}

/// `PLUMB_LONG=1`: before each operation of more loads.
#[test]
fn a_full_device_refuses_and_goes_on() {
    let (seeds, stride) = if long() { (24, 1) } else { (2, 13) };
    let (mut moments, mut refused) = (0, 0);
    for seed in seeds_of_both(seeds, 1) {
        let found = at_every_moment(seed, stride).unwrap_or_else(|what| panic!("{what}"));
        (moments, refused) = (moments + found.0, refused + found.1);
    }
    assert!(refused > moments, "of what is tried on a full device, some is refused");
    println!("full at {moments} moments, {refused} operations were refused");
}
