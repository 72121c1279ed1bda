//! Where keys begin with paths: a walk is in the order of keys, a rename of much is one small batch, and what it owes is paid step by step,
//! whatever happens in between.

use std::collections::BTreeMap;

use crash::{Cuts, VolatileCache};
use storage::{Memory, Recorded};

use super::action::bytes;
use super::compare::{Tree, difference, tree};
use super::side::entries;
use super::traces::{PATHS, at, long, tiny};
use crate::operations::{
    Caller, Error, InodeNumber, Kind, Name, Operations, Permissions, RenameFlags, SetAttributes, XattrName,
};
use crate::schema::{self, Format, Schema};
use crate::{Volume, VolumeOptions};

const ROOT: InodeNumber = InodeNumber::ROOT;
/// Of a file that no step moves whole.
const LARGE_BYTES: usize = 4 * 65_536 + 77;

fn words(error: impl Into<Error>) -> String {
    error.into().to_string()
}

fn caller(time: u64) -> Caller<'static> {
    Caller { uid: 0, gid: 0, groups: &[], umask: 0, now: at(time) }
}

/// Two entries, or a granule or two, are moved at a time.
fn options() -> VolumeOptions {
    VolumeOptions { write_bytes_max: 100 << 10, moved_entries_max: 2, ..tiny(PATHS) }
}

fn name(name: &[u8]) -> Result<Name<'_>, Error> {
    Name::new(name)
}

fn file(fs: &Volume, parent: InodeNumber, called: &[u8], bytes: &[u8]) -> Result<InodeNumber, Error> {
    let made = fs.create(&caller(1), parent, name(called)?, Permissions::of_mode(0o644))?.inode;
    fs.write(&caller(1), made, 0, bytes, false)?;
    fs.release(made)?;
    Ok(made)
}

fn directory(fs: &Volume, parent: InodeNumber, called: &[u8]) -> Result<InodeNumber, Error> {
    Ok(fs.mkdir(&caller(1), parent, name(called)?, Permissions::of_mode(0o755))?.inode)
}

/// A tree with files of all sizes, patches, attributes and names in several places.
fn tree_of(fs: &Volume) -> Result<InodeNumber, Error> {
    let top = directory(fs, ROOT, b"top")?;
    let other = directory(fs, ROOT, b"other")?;
    let mut this = top;
    for depth in 0..3u8 {
        for number in 0..7u8 {
            let length = [0, 700, 3000, 70_000][usize::from(number % 4)];
            let made = file(fs, this, &[b'a' + number], &bytes(u64::from(depth * 9 + number), length))?;
            if number == 3 {
                fs.write(&caller(2), made, 5000, b"patched", false)?;
                fs.setxattr(
                    &caller(2),
                    made,
                    XattrName::new(b"user.a")?,
                    b"value",
                    crate::operations::SetXattr::Either,
                )?;
            }
            if number == 2 {
                fs.link(&caller(2), made, other, name(&[b'0' + depth])?)?;
            }
        }
        fs.symlink(&caller(2), this, name(b"link")?, b"a")?;
        let below = directory(fs, this, b"below")?;
        directory(fs, this, b"empty")?;
        this = below;
    }
    let large = file(fs, this, b"large", &bytes(77, LARGE_BYTES))?;
    fs.write(&caller(2), large, 200_000, b"patched", false)?;
    Ok(top)
}

fn rename(fs: &Volume, from: &[u8], parent: InodeNumber, to: &[u8]) -> Result<(), Error> {
    fs.rename(&caller(5), ROOT, name(from)?, parent, name(to)?, RenameFlags::Replace)
}

fn clean(fs: &Volume, when: &str) -> Result<(), String> {
    match fs.check().map_err(words)?.first() {
        Some(finding) => Err(format!("{when}: {finding}")),
        None => Ok(()),
    }
}

/// What is at the paths below one.
fn below(all: &Tree, top: &[u8]) -> Tree {
    let paths = all.iter().filter_map(|(path, thing)| {
        let rest = path.strip_prefix(top).filter(|rest| rest.starts_with(b"/"))?;
        let mut thing = thing.clone();
        thing.same_as = None;
        Some((rest.to_vec(), thing))
    });
    paths.collect()
}

/// Entries come as a walk meets them, all of a directory before those of the directories in it, and data of files in the same order.
fn in_order(fs: &Volume) -> Result<(), String> {
    fs.settle().map_err(words)?;
    let (store, _) = fs.now();
    let (mut walk, mut of_data) = (Vec::new(), Vec::new());
    let mut left = vec![ROOT];
    while let Some(this) = left.pop() {
        let mut directories = Vec::new();
        let mut found = entries(fs, this, 9).map_err(words)?;
        found.sort_by_key(|(name, _)| schema::cookie(store.seed, name));
        for (called, attributes) in found {
            walk.push((this, called));
            if attributes.kind == Kind::Directory {
                directories.push(attributes.inode);
            } else if attributes.links == 1 {
                of_data.push(attributes.inode);
            }
        }
        left.extend(directories.into_iter().rev());
    }
    let mut keys = Vec::new();
    for found in schema::names(Schema::Path, store.entries.iter()) {
        let (key, _) = found.map_err(words)?;
        let (parent, _, name) = schema::parse_entry_key(Schema::Path, &key).map_err(words)?;
        keys.push((parent, name.to_vec()));
    }
    if keys != walk {
        return Err(format!("entries lie as {keys:?}, and a walk meets {walk:?}"));
    }
    let place: BTreeMap<_, _> = of_data.iter().enumerate().map(|(place, inode)| (*inode, place)).collect();
    let mut last = 0;
    for found in store.data.iter() {
        let (key, _) = found.map_err(words)?;
        let (inode, ..) = schema::parse_data_key(Schema::Path, &key).map_err(words)?;
        // What has several names lies at its number.
        let Some(place) = place.get(&inode) else { continue };
        if *place < last {
            return Err(format!("data of inode {} comes after that of another", inode.0));
        }
        last = *place;
    }
    Ok(())
}

fn pay(fs: &Volume) -> Result<usize, String> {
    let mut steps = 0;
    while fs.reap(1).map_err(words)? {
        steps += 1;
        if steps > 10_000 {
            return Err("there is no end of it".to_owned());
        }
    }
    let owed = fs.owed().map_err(words)?;
    if owed == (0, 0) { Ok(steps) } else { Err(format!("{owed:?} is owed still")) }
}

/// A walk goes through keys in their order: as things are made, after renames, and after what they owe is paid.
pub(super) fn order() -> Result<(), String> {
    let fs = Volume::create(Memory::new(16 << 20), options(), 1, at(0)).map_err(words)?;
    tree_of(&fs).map_err(words)?;
    in_order(&fs)?;
    let elsewhere = fs.lookup(ROOT, name(b"other").map_err(words)?).map_err(words)?.inode;
    rename(&fs, b"top", elsewhere, b"moved").map_err(words)?;
    pay(&fs)?;
    in_order(&fs)?;
    clean(&fs, "moved")
}

/// A tree is renamed by little, the old path is used again at once, and steps, mounts and changes in between hide nothing.
pub(super) fn moves() -> Result<(), String> {
    let memory = Memory::new(16 << 20);
    let mut fs = Volume::create(memory.clone(), options(), 1, at(0)).map_err(words)?;
    let top = tree_of(&fs).map_err(words)?;
    let before = below(&tree(&fs).map_err(words)?, b"/top");
    rename(&fs, b"top", ROOT, b"moved").map_err(words)?;
    if fs.owed().map_err(words)? != (1, 0) {
        return Err("a rename moved what is not small".to_owned());
    }
    let again = directory(&fs, ROOT, b"top").map_err(words)?;
    for number in 0..4u8 {
        file(&fs, again, &[b'a' + number], &[number; 9000]).map_err(words)?;
    }
    let anew = below(&tree(&fs).map_err(words)?, b"/top");
    let (mut steps, mut under_way) = (0, 0);
    while fs.reap(1).map_err(words)? {
        steps += 1;
        clean(&fs, "partly moved")?;
        let all = tree(&fs).map_err(words)?;
        difference(&before, &below(&all, b"/moved")).map_or(Ok(()), |what| Err(format!("step {steps}: {what}")))?;
        difference(&anew, &below(&all, b"/top")).map_or(Ok(()), |what| Err(format!("step {steps}, anew: {what}")))?;
        under_way += fs.owed().map_err(words)?.1;
        if steps % 3 == 0 {
            fs.syncfs().map_err(words)?;
            drop(fs);
            fs = Volume::open(memory.clone(), options()).map_err(words)?;
        }
        // It is renamed again before all of it has come.
        if steps == 4 {
            let moved = rename(&fs, b"moved", again, b"further");
            moved
                .and_then(|()| {
                    fs.rename(&caller(6), again, name(b"further")?, ROOT, name(b"moved")?, RenameFlags::Replace)
                })
                .map_err(words)?;
            // Times of the directory that it was in for a while.
            fs.setattr(&caller(6), again, &SetAttributes::default()).map_err(words)?;
        }
        if steps > 1000 {
            return Err("there is no end of it".to_owned());
        }
    }
    if steps < 10 || under_way == 0 {
        return Err(format!("{steps} steps, {under_way} of them in the midst of something"));
    }
    pay(&fs)?;
    in_order(&fs)?;
    // Removed, it leaves nothing.
    fs.remove_tree(&caller(7), ROOT, name(b"moved").map_err(words)?).map_err(words)?;
    for number in 0..3u8 {
        let other = fs.lookup(ROOT, name(b"other").map_err(words)?).map_err(words)?.inode;
        fs.unlink(&caller(7), other, name(&[b'0' + number]).map_err(words)?).map_err(words)?;
    }
    pay(&fs)?;
    clean(&fs, "removed")?;
    let (keys, stays) = (fs.data_keys().map_err(words)?, fs.getattr(top));
    if keys == 4 && stays == Err(Error::Stale) {
        Ok(())
    } else {
        Err(format!("{keys} keys of data are left, {stays:?}"))
    }
}

/// A large file is read, written, shortened and removed while it is on the way.
pub(super) fn large() -> Result<(), String> {
    let fs = Volume::create(Memory::new(16 << 20), options(), 1, at(0)).map_err(words)?;
    let mut holds = bytes(7, LARGE_BYTES);
    let number = file(&fs, ROOT, b"file", &holds).map_err(words)?;
    let write = |holds: &mut Vec<u8>, offset: usize, bytes: &[u8]| {
        holds.resize(holds.len().max(offset + bytes.len()), 0);
        holds[offset..offset + bytes.len()].copy_from_slice(bytes);
        fs.write(&caller(2), number, offset as u64, bytes, false).map(drop).map_err(words)
    };
    write(&mut holds, 70_000, b"before")?;
    rename(&fs, b"file", ROOT, b"moved").map_err(words)?;
    let mut step = 0;
    loop {
        write(&mut holds, 65_530, b"across an edge")?;
        write(&mut holds, 131_072, &[step; 65_536])?;
        let mut read = vec![0; holds.len() + 9];
        let length = fs.read(&super::compare::reader(), number, 0, &mut read).map_err(words)?;
        if read[..length] != holds[..] {
            return Err(format!("step {step}: other bytes"));
        }
        clean(&fs, "on the way")?;
        if !fs.reap(1).map_err(words)? {
            break;
        }
        step += 1;
        if step == 2 {
            if fs.owed().map_err(words)? != (1, 1) {
                return Err("it is not on the way".to_owned());
            }
            let shorter = SetAttributes { size_bytes: Some(200_000), ..Default::default() };
            fs.setattr(&caller(3), number, &shorter).map_err(words)?;
            holds.truncate(200_000);
            // A second name, and another place to go to.
            fs.link(&caller(3), number, ROOT, name(b"second").map_err(words)?).map_err(words)?;
        }
    }
    if step < 3 {
        return Err(format!("{step} steps"));
    }
    for called in [&b"moved"[..], b"second"] {
        fs.unlink(&caller(4), ROOT, name(called).map_err(words)?).map_err(words)?;
    }
    pay(&fs)?;
    let keys = fs.data_keys().map_err(words)?;
    if keys == 0 { Ok(()) } else { Err(format!("{keys} keys of data are left")) }
}

/// Paths that no key has room for are paths nevertheless, and moved as others are.
pub(super) fn deep() -> Result<(), String> {
    let fs = Volume::create(Memory::new(16 << 20), options(), 1, at(0)).map_err(words)?;
    let top = directory(&fs, ROOT, b"top").map_err(words)?;
    let long = [b'n'; 255];
    let mut this = top;
    for _ in 0..40 {
        this = directory(&fs, this, &long).map_err(words)?;
        file(&fs, this, b"file", &[7; 900]).map_err(words)?;
    }
    file(&fs, this, &long, &[8; 9000]).map_err(words)?;
    let before = below(&tree(&fs).map_err(words)?, b"/top");
    clean(&fs, "deep")?;
    rename(&fs, b"top", ROOT, b"another name that is longer").map_err(words)?;
    pay(&fs)?;
    clean(&fs, "moved")?;
    difference(&before, &below(&tree(&fs).map_err(words)?, b"/another name that is longer")).map_or(Ok(()), Err)
}

/// Whatever survives of a move, everything is where it was or where it goes.
pub(super) fn cuts(every: usize) -> Result<usize, String> {
    let mut options = options();
    // Each batch is durable by a checkpoint of its own.
    (options.store.memtable_bytes, options.store.fresh_bytes) = (1, 1);
    options.store.pacing = betree::Pacing::AtOnce;
    let memory = Memory::new(16 << 20);
    let fs = Volume::create(memory.clone(), options.clone(), 1, at(0)).map_err(words)?;
    tree_of(&fs).map_err(words)?;
    fs.syncfs().map_err(words)?;
    let old = below(&tree(&fs).map_err(words)?, b"/top");
    drop(fs);
    let before = memory.image();
    let (recorded, recording) = Recorded::new(memory);
    let fs = Volume::open(recorded, options.clone()).map_err(words)?;
    rename(&fs, b"top", ROOT, b"moved").map_err(words)?;
    fs.syncfs().map_err(words)?;
    recording.mark(1);
    pay(&fs)?;
    fs.syncfs().map_err(words)?;
    drop(fs);
    let log = recording.take();
    let mut states = 0;
    for (number, cut) in Cuts::new(before, &log, VolatileCache::default()).enumerate() {
        if number % every > 0 {
            continue;
        }
        for survives in [false, true] {
            let when = format!("cut after {} entries", cut.entries);
            let image = Memory::from_image(cut.image(4096, |_, _| survives));
            let fs = Volume::open(image, options.clone()).map_err(words)?;
            clean(&fs, &when)?;
            let all = tree(&fs).map_err(words)?;
            let (stays, moved) = (below(&all, b"/top"), below(&all, b"/moved"));
            let found = if cut.mark.is_some() || stays.is_empty() { moved } else { stays };
            difference(&old, &found).map_or(Ok(()), |what| Err(format!("{when}: {what}")))?;
            states += 1;
            if number % (4 * every) == 0 {
                pay(&fs).map_err(|what| format!("{when}: {what}"))?;
                clean(&fs, &when)?;
            }
        }
    }
    Ok(states)
}

/// A program that does not know paths in keys does not take such a file system for another.
pub(super) fn said() -> Result<(), String> {
    let memory = Memory::new(16 << 20);
    let fs = Volume::create(memory.clone(), options(), 1, at(0)).map_err(words)?;
    tree_of(&fs).map_err(words)?;
    fs.syncfs().map_err(words)?;
    let (store, _) = fs.now();
    let said = store.system.get(schema::FORMAT_KEY).map_err(words)?.unwrap_or_default();
    let format = Format::decode(&said).map_err(words)?;
    if (format.features, fs.schema()) != (1, Schema::Path) {
        return Err(format!("{format:?}"));
    }
    let mut batch = betree::Batch::new();
    batch.insert(&store.system, schema::FORMAT_KEY, Format { features: 2, ..format }.encode());
    store.commit(&batch).map_err(words)?;
    fs.syncfs().map_err(words)?;
    drop(fs);
    match Volume::open(memory, options()) {
        Err(Error::Corrupt(what)) if what.contains("does not know") => Ok(()),
        other => Err(format!("a feature that nobody knows: {other:?}")),
    }
}

#[test]
fn paths_are_kept_and_paid_for() {
    type Case = fn() -> Result<(), String>;
    let cases: [(&str, Case); 5] =
        [("order", order), ("moves", moves), ("large", large), ("deep", deep), ("said", said)];
    for (name, case) in cases {
        case().unwrap_or_else(|what| panic!("{name}: {what}"));
    }
}

#[test]
fn a_cut_leaves_a_move_where_it_was() {
    // Every one in the long suite.
    let states = cuts(if long() { 1 } else { 12 }).unwrap_or_else(|what| panic!("{what}"));
    println!("{states} states");
    assert!(states > 20);
}
