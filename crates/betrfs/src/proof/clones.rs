//! Copies of whole trees: of one moment, by who may, seen when they are whole, and gone where they are not.

use crash::{Cuts, VolatileCache};
use storage::{Memory, Recorded};

use super::compare::{Tree, difference, tree};
use super::traces::{PATHS, at, tiny};
use crate::operations::{Caller, Error, InodeNumber, Name, Operations, Permissions, SetAttributes};
use crate::volume::Cloning;
use crate::{Volume, VolumeOptions};

const ROOT: InodeNumber = InodeNumber::ROOT;
/// Granules of a file that takes several batches.
const LARGE_BYTES: usize = 5 * 65_536 + 77;

fn words(error: impl Into<Error>) -> String {
    error.into().to_string()
}

fn caller(uid: u32, time: u64) -> Caller<'static> {
    Caller { uid, gid: uid, groups: &[], umask: 0, now: at(time) }
}

fn options(seed: u64) -> VolumeOptions {
    VolumeOptions { write_bytes_max: 100 << 10, ..tiny(seed) }
}

/// A tree of one user with large, patched and linked files, of more entries than a step has.
fn tree_of(fs: &Volume) -> Result<(), Error> {
    let user = caller(1, 1);
    let open = SetAttributes { permissions: Some(Permissions::of_mode(0o777)), ..Default::default() };
    fs.setattr(&user, ROOT, &open)?;
    let permissions = Permissions::of_mode(0o2750);
    let top = fs.mkdir(&user, ROOT, Name::new(b"tree")?, permissions)?.inode;
    let below = fs.mkdir(&user, top, Name::new(b"below")?, permissions)?.inode;
    fs.mkdir(&user, below, Name::new(b"empty")?, permissions)?;
    for number in 0..230u32 {
        let name = format!("file {number}");
        let directory = if number % 3 == 0 { below } else { top };
        let file = fs.create(&user, directory, Name::new(name.as_bytes())?, permissions)?.inode;
        fs.write(&user, file, 0, &[number as u8; 700], false)?;
        match number {
            7 => drop(fs.write(&user, file, 0, &[7; LARGE_BYTES], false)?),
            // Bytes on a granule, bytes in a hole, and one name more in another directory.
            8 => {
                fs.write(&user, file, 300, b"patched", false)?;
                fs.write(&user, file, 200_000, b"behind a hole", false)?;
                fs.link(&user, file, below, Name::new(b"other name")?)?;
            }
            _ => {}
        }
        fs.release(file)?;
    }
    fs.symlink(&user, top, Name::new(b"link")?, b"below")?;
    Ok(())
}

/// What is below a path, with the paths from there.
fn below(all: &Tree, top: &[u8]) -> Tree {
    let paths = all.iter().filter_map(|(path, thing)| {
        let rest = path.strip_prefix(top).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))?;
        let mut thing = thing.clone();
        // Copying is a change of each, and makes it.
        (thing.seen.times[2], thing.seen.times[3]) = (at(0), at(0));
        thing.same_as = thing.same_as.and_then(|path| path.strip_prefix(top).map(<[u8]>::to_vec));
        Some((rest.to_vec(), thing))
    });
    paths.collect()
}

fn clean(fs: &Volume, when: &str) -> Result<(), String> {
    match fs.check().map_err(words)?.first() {
        Some(finding) => Err(format!("{when}: {finding}")),
        None => Ok(()),
    }
}

/// A copy is as the original was when it began, though that changes and removed trees are taken apart meanwhile.
pub(super) fn whole(seed: u64) -> Result<(), String> {
    let fs = Volume::create(Memory::new(16 << 20), options(seed), 1, at(0)).map_err(words)?;
    tree_of(&fs).map_err(words)?;
    let name = |name: &'static [u8]| Name::new(name).map_err(words);
    let before = below(&tree(&fs).map_err(words)?, b"/tree");
    let user = caller(1, 2);
    let (from, to) = ((ROOT, name(b"tree")?), (ROOT, name(b"copy")?));
    let mut cloning = Cloning::begin(&fs, &user, from, to).map_err(words)?;
    let top = fs.lookup(ROOT, from.1).map_err(words)?.inode;
    let mut steps = 0;
    while cloning.step().map_err(words)? {
        clean(&fs, "half a copy")?;
        if fs.lookup(ROOT, to.1) != Err(Error::NotFound) {
            return Err("half a copy is seen".to_owned());
        }
        let late = format!("late {steps}");
        fs.mkdir(&user, top, Name::new(late.as_bytes()).map_err(words)?, Permissions::of_mode(0o700)).map_err(words)?;
        let gone = format!("file {}", 229 - steps);
        let _ = fs.unlink(&user, top, Name::new(gone.as_bytes()).map_err(words)?);
        fs.remove_tree(&user, top, Name::new(late.as_bytes()).map_err(words)?).map_err(words)?;
        fs.reap(3).map_err(words)?;
        steps += 1;
    }
    let made = cloning.finish(to).map_err(words)?;
    if steps < 3 || (made.links, made.created) != (3, at(2)) {
        return Err(format!("{steps} steps, {made:?}"));
    }
    clean(&fs, "copied")?;
    while fs.reap(50).map_err(words)? {}
    let after = below(&tree(&fs).map_err(words)?, b"/copy");
    difference(&before, &after).map_or(Ok(()), Err)?;
    // The two go their own ways.
    fs.remove_tree(&user, ROOT, from.1).map_err(words)?;
    while fs.reap(50).map_err(words)? {}
    difference(&before, &below(&tree(&fs).map_err(words)?, b"/copy")).map_or(Ok(()), Err)?;
    clean(&fs, "the original is gone")
}

/// What is given up goes, at once or with the next mount; who may not gets nothing.
pub(super) fn refused(seed: u64) -> Result<(), String> {
    let memory = Memory::new(16 << 20);
    let fs = Volume::create(memory.clone(), options(seed), 1, at(0)).map_err(words)?;
    tree_of(&fs).map_err(words)?;
    let name = |name: &'static [u8]| Name::new(name).map_err(words);
    // What a second name owes puts patches on when it is paid.
    while fs.reap(9).map_err(words)? {}
    let keys = fs.data_keys().map_err(words)?;
    let (user, other) = (caller(1, 2), caller(2, 2));
    let refused = [
        (&other, name(b"tree")?, name(b"copy")?, Error::Access),
        (&user, name(b"tree")?, name(b"tree")?, Error::Exists),
        (&user, name(b"none")?, name(b"copy")?, Error::NotFound),
        (&user, name(b"tree")?, name(b"..")?, Error::Invalid),
    ];
    for (caller, from, to, error) in refused {
        let result = fs.clone_tree(caller, ROOT, from, ROOT, to);
        if result.as_ref() != Err(&error) {
            return Err(format!("{result:?} and not {error:?}"));
        }
    }
    let mut cloning = Cloning::begin(&fs, &user, (ROOT, name(b"tree")?), (ROOT, name(b"copy")?)).map_err(words)?;
    cloning.step().map_err(words)?;
    drop(cloning);
    while fs.reap(9).map_err(words)? {}
    if fs.data_keys().map_err(words)? != keys {
        return Err("a copy that was given up keeps its data".to_owned());
    }
    let mut cloning = Cloning::begin(&fs, &user, (ROOT, name(b"tree")?), (ROOT, name(b"copy")?)).map_err(words)?;
    cloning.step().map_err(words)?;
    fs.syncfs().map_err(words)?;
    // As a crash leaves it.
    let image = memory.image();
    let again = Volume::open(Memory::from_image(image), options(seed)).map_err(words)?;
    clean(&again, "mounted with half a copy")?;
    while again.reap(9).map_err(words)? {}
    match again.data_keys().map_err(words)? {
        found if found == keys => Ok(()),
        found => Err(format!("{found} keys of data, and {keys} before")),
    }
}

/// Whatever survives of a copy that is being made, it is sound, and after a mount the copy is whole or not there.
fn cuts(seed: u64, every: usize) -> Result<(usize, usize), String> {
    let memory = Memory::new(16 << 20);
    let fs = Volume::create(memory.clone(), options(seed), 1, at(0)).map_err(words)?;
    tree_of(&fs).map_err(words)?;
    fs.syncfs().map_err(words)?;
    let original = below(&tree(&fs).map_err(words)?, b"/tree");
    drop(fs);
    let before = memory.image();
    let (recorded, recording) = Recorded::new(memory);
    let fs = Volume::open(recorded, options(seed)).map_err(words)?;
    let name = |name: &'static [u8]| Name::new(name).map_err(words);
    fs.clone_tree(&caller(1, 2), ROOT, name(b"tree")?, ROOT, name(b"copy")?).map_err(words)?;
    fs.syncfs().map_err(words)?;
    recording.mark(1);
    drop(fs);
    let log = recording.take();
    let (mut whole, mut gone) = (0, 0);
    for (number, cut) in Cuts::new(before, &log, VolatileCache::default()).enumerate() {
        if number % every > 0 && cut.mark.is_none() {
            continue;
        }
        for survives in [false, true] {
            let when = format!("cut after {} entries", cut.entries);
            let image = Memory::from_image(cut.image(4096, |_, _| survives));
            let fs = Volume::open(image, options(seed)).map_err(words)?;
            clean(&fs, &when)?;
            while fs.reap(50).map_err(words)? {}
            clean(&fs, &when)?;
            let all = tree(&fs).map_err(words)?;
            difference(&original, &below(&all, b"/tree")).map_or(Ok(()), |what| Err(format!("{when}: {what}")))?;
            let copy = below(&all, b"/copy");
            if copy.is_empty() && cut.mark.is_none() {
                gone += 1;
            } else {
                difference(&original, &copy).map_or(Ok(()), |what| Err(format!("{when}: {what}")))?;
                whole += 1;
            }
        }
    }
    Ok((whole, gone))
}

#[test]
fn a_cut_leaves_a_whole_copy_or_none() {
    // Every one in the long suite.
    let every = if std::env::var_os("PLUMB_LONG").is_some() { 1 } else { 7 };
    for seed in [0, PATHS] {
        let (whole, gone) = cuts(seed, every).unwrap_or_else(|what| panic!("{what}"));
        println!("{whole} states with a whole copy, {gone} with none");
        assert!(whole > 0 && gone > 0);
    }
}

#[test]
fn copies_are_whole_or_gone() {
    for seed in [0, PATHS] {
        whole(seed).unwrap_or_else(|what| panic!("{what}"));
        refused(seed).unwrap_or_else(|what| panic!("{what}"));
    }
}
