//! A full device: what adds is refused and does nothing, what removes always works, and the space comes back.

use storage::Memory;

use super::action::bytes;
use super::side::entries;
use super::traces::{at, seeds_of_both, tiny};
use crate::operations::{Caller, Error, InodeNumber, Name, Operations, Permissions, SetAttributes};
use crate::{Volume, VolumeOptions};

const ROOT: InodeNumber = InodeNumber::ROOT;

fn caller(time: u64) -> Caller<'static> {
    Caller { uid: 0, gid: 0, groups: &[], umask: 0o022, now: at(time) }
}

fn options(seed: u64) -> VolumeOptions {
    let mut options = tiny(seed);
    // As large beside their headers as in use: a leaf that was emptied keeps its header until it joins another.
    (options.store.leaf_bytes, options.store.basement_bytes) = (128 << 10, 8 << 10);
    options.store.log_bytes = 512 << 10;
    options.store.memtable_bytes = 32 << 10;
    options.store.fresh_bytes = 64 << 10;
    options
}

/// How a device is filled.
#[derive(Clone, Copy, Debug)]
pub(super) enum Filler {
    /// Files of so many bytes.
    Files(usize),
    /// One file, by single bytes and blocks here and there.
    Patches,
}

/// Fills and empties a file system several times; how much fits is about the same each time.
pub(super) fn fill_and_empty(seed: u64, filler: Filler, capacity_bytes: u64, rounds: usize) -> Result<(), String> {
    let failed = |what: &'static str| move |error: Error| format!("{what}: {error}");
    let memory = Memory::new(capacity_bytes);
    let fs = Volume::create(memory.clone(), options(seed), 1, at(0)).map_err(failed("create"))?;
    let mut fitted = Vec::new();
    let mut time = 0;
    for _ in 0..rounds {
        let mut count = 0u64;
        loop {
            time += 1;
            let caller = caller(time);
            let done = match filler {
                Filler::Files(length) => {
                    let name = format!("file-{count}");
                    let name = Name::new(name.as_bytes()).map_err(failed("name"))?;
                    fs.create(&caller, ROOT, name, Permissions::of_mode(0o644)).and_then(|made| {
                        let done = fs.write(&caller, made.inode, 0, &bytes(time, length), false).map(drop);
                        fs.release(made.inode).and(done)
                    })
                }
                Filler::Patches => {
                    let name = Name::new(b"one").map_err(failed("name"))?;
                    let inode = match fs.lookup(ROOT, name) {
                        Ok(found) => found.inode,
                        Err(_) => {
                            let made = fs.create(&caller, ROOT, name, Permissions::of_mode(0o644));
                            let inode = made.map_err(failed("create"))?.inode;
                            fs.release(inode).map_err(failed("release"))?;
                            inode
                        }
                    };
                    let length = if count.is_multiple_of(3) { 4096 } else { 100 };
                    fs.write(&caller, inode, count * 7000, &bytes(time, length), false).map(drop)
                }
            };
            match done {
                Ok(()) => count += 1,
                Err(Error::NoSpace) => break,
                Err(error) => return Err(format!("filling: {error}")),
            }
            if count > 200_000 {
                return Err("it never got full".to_owned());
            }
        }
        fitted.push(count);
        let findings = fs.check().map_err(failed("check"))?;
        if let Some(finding) = findings.first() {
            return Err(format!("full: {finding}"));
        }
        // What is there can be changed and renamed, and goes away.
        let changes = SetAttributes { uid: Some(7), ..Default::default() };
        for (number, (name, attributes)) in entries(&fs, ROOT, 100).map_err(failed("readdir"))?.into_iter().enumerate()
        {
            time += 1;
            let (caller, name) = (caller(time), Name::new(&name).map_err(failed("name"))?);
            if number.is_multiple_of(5) {
                fs.setattr(&caller, attributes.inode, &changes).map_err(failed("setattr on a full device"))?;
            }
            if number.is_multiple_of(7) {
                let new_name = Name::new(b"renamed").map_err(failed("name"))?;
                let done = fs.rename(&caller, ROOT, name, ROOT, new_name, Default::default());
                done.map_err(failed("rename on a full device"))?;
                fs.unlink(&caller, ROOT, new_name).map_err(failed("unlink on a full device"))?;
            } else {
                fs.unlink(&caller, ROOT, name).map_err(failed("unlink on a full device"))?;
            }
        }
        fs.syncfs().map_err(failed("syncfs on a full device"))?;
        fs.database().quiesce().map_err(|error| format!("quiesce: {error}"))?;
    }
    let (first, last) = (fitted[0], fitted[fitted.len() - 1]);
    if last * 10 < first * 8 {
        return Err(format!("at first {first} fitted, and {last} at last"));
    }
    drop(fs);
    let findings = crate::check(memory, &options(seed)).map_err(failed("check"))?;
    findings.first().map_or(Ok(()), |finding| Err(finding.to_string()))
}

/// `PLUMB_LONG=1`: a larger device, and more rounds.
#[test]
fn removing_always_works_and_gives_the_space_back() {
    let (capacity_bytes, rounds) = if std::env::var_os("PLUMB_LONG").is_some() { (16 << 20, 5) } else { (5 << 20, 2) };
    for filler in [Filler::Files(150), Filler::Files(5000), Filler::Files(100_000), Filler::Patches] {
        // In the short suite one of paths.
        for seed in seeds_of_both(1, u64::from(matches!(filler, Filler::Files(5000)))) {
            let done = fill_and_empty(seed, filler, capacity_bytes, rounds);
            done.unwrap_or_else(|what| panic!("{filler:?}, {seed}: {what}"));
        }
    }
}
