//! Cases that random operations meet too seldom.

use crash::{Cuts, VolatileCache};
use storage::{Memory, Recorded};

use super::compare::reader;
use super::side::entries;
use super::traces::{at, tiny};
use crate::operations::{
    Allocate, Caller, Error, InodeNumber, Name, Operations, Permissions, RenameFlags, SetAttributes,
};
use crate::{Volume, VolumeOptions};

const ROOT: InodeNumber = InodeNumber::ROOT;

fn caller(time: u64) -> Caller<'static> {
    Caller { uid: 1, gid: 1, groups: &[], umask: 0, now: at(time) }
}

fn words(error: Error) -> String {
    error.to_string()
}

fn new_file(fs: &Volume, name: &[u8]) -> Result<InodeNumber, String> {
    let name = Name::new(name).map_err(words)?;
    let made = fs.create(&caller(1), ROOT, name, Permissions::of_mode(0o600)).map_err(words)?;
    fs.release(made.inode).map_err(words)?;
    Ok(made.inode)
}

fn is_zero(fs: &Volume, file: InodeNumber, begin: u64, length: usize) -> Result<(), String> {
    let mut bytes = vec![1; length];
    let length = fs.read(&reader(), file, begin, &mut bytes).map_err(words)?;
    match bytes[..length].iter().position(|byte| *byte != 0) {
        Some(at) => Err(format!("byte {} is not zero", begin + at as u64)),
        None => Ok(()),
    }
}

/// Writes that are held back are seen by whoever looks.
pub(super) fn held() -> Result<(), String> {
    let fs = Volume::create(Memory::new(16 << 20), tiny(0), 1, at(0)).map_err(words)?;
    let file = new_file(&fs, b"file")?;
    let written: Vec<u8> = (0..900).map(|number| number as u8).collect();
    for (number, piece) in written.chunks(300).enumerate() {
        fs.write(&caller(2), file, number as u64 * 300, piece, false).map_err(words)?;
    }
    let size = fs.getattr(file).map_err(words)?.size_bytes;
    let mut read = vec![0; 1000];
    let length = fs.read(&reader(), file, 0, &mut read).map_err(words)?;
    if size == 900 && read[..length] == written { Ok(()) } else { Err(format!("{size} bytes, {length} read")) }
}

/// Patches on a granule go with the granule, and what a shorter file left below its blocks never comes back.
pub(super) fn holes() -> Result<(), String> {
    let fs = Volume::create(Memory::new(16 << 20), tiny(0), 1, at(0)).map_err(words)?;
    let file = new_file(&fs, b"file")?;
    for (offset, length) in [(0, 200_000), (5000, 100), (70_000, 10), (190_000, 9)] {
        fs.write(&caller(2), file, offset, &vec![0xff; length], false).map_err(words)?;
    }
    fs.fallocate(&caller(3), file, Allocate::PunchHole, 0, 131_072).map_err(words)?;
    is_zero(&fs, file, 0, 131_072)?;
    let size = |size| SetAttributes { size_bytes: Some(size), ..Default::default() };
    fs.setattr(&caller(4), file, &size(140_000)).map_err(words)?;
    fs.write(&caller(5), file, 151_552, b"behind the end", false).map_err(words)?;
    is_zero(&fs, file, 140_000, 11_552)?;
    fs.setattr(&caller(6), file, &size(200_000)).map_err(words)?;
    is_zero(&fs, file, 151_566, 48_434)
}

/// A directory and a file in different directories change places.
pub(super) fn exchange() -> Result<(), String> {
    let fs = Volume::create(Memory::new(16 << 20), tiny(0), 1, at(0)).map_err(words)?;
    let name = |name: &'static [u8]| Name::new(name).map_err(words);
    let permissions = Permissions::of_mode(0o700);
    let above = fs.mkdir(&caller(1), ROOT, name(b"above")?, permissions).map_err(words)?.inode;
    fs.mkdir(&caller(1), above, name(b"directory")?, permissions).map_err(words)?;
    new_file(&fs, b"file")?;
    let done = fs.rename(&caller(2), ROOT, name(b"file")?, above, name(b"directory")?, RenameFlags::Exchange);
    done.map_err(words)?;
    let links = |inode| fs.getattr(inode).map(|attributes| attributes.links).map_err(words);
    if (links(ROOT)?, links(above)?) != (4, 2) {
        return Err("directories are not counted where they are".to_owned());
    }
    for (parent, old) in [(ROOT, name(b"above")?), (ROOT, name(b"file")?)] {
        let inside = fs.lookup(parent, old).map_err(words)?.inode;
        let below = fs.rename(&caller(3), parent, old, inside, name(b"below")?, RenameFlags::Replace);
        if below != Err(Error::Invalid) {
            return Err(format!("a directory below itself: {below:?}"));
        }
    }
    fs.check().map_err(words)?.first().map_or(Ok(()), |finding| Err(finding.to_string()))
}

/// A tree goes in one step, by who may; what is open or named elsewhere stays, and a mount in between changes nothing.
pub(super) fn trees() -> Result<(), String> {
    let memory = Memory::new(16 << 20);
    let fs = Volume::create(memory.clone(), tiny(0), 1, at(0)).map_err(words)?;
    let permissions = Permissions::of_mode(0o755);
    let name = |name: &'static [u8]| Name::new(name).map_err(words);
    let mut directory = fs.mkdir(&caller(1), ROOT, name(b"tree")?, permissions).map_err(words)?.inode;
    let mut file = ROOT;
    for _ in 0..4 {
        for number in 0..40 {
            let name = format!("file {number}");
            let name = Name::new(name.as_bytes()).map_err(words)?;
            file = fs.create(&caller(1), directory, name, permissions).map_err(words)?.inode;
            fs.write(&caller(1), file, 0, &[7; 5000], false).map_err(words)?;
            fs.release(file).map_err(words)?;
        }
        directory = fs.mkdir(&caller(1), directory, name(b"below")?, permissions).map_err(words)?.inode;
    }
    fs.link(&caller(1), file, ROOT, name(b"elsewhere")?).map_err(words)?;
    fs.open(directory).map_err(words)?;
    let other = Caller { uid: 2, gid: 2, ..caller(2) };
    // He may take entries out of the root, and not out of the tree.
    let open = SetAttributes { permissions: Some(Permissions::of_mode(0o777)), ..Default::default() };
    fs.setattr(&caller(2), ROOT, &open).map_err(words)?;
    if fs.remove_tree(&other, ROOT, name(b"tree")?) != Err(Error::Access) {
        return Err("somebody else removed the tree".to_owned());
    }
    let root = Caller { uid: 0, gid: 0, ..caller(3) };
    fs.remove_tree(&root, ROOT, name(b"tree")?).map_err(words)?;
    if fs.lookup(ROOT, name(b"tree")?) != Err(Error::NotFound) {
        return Err("the tree is there".to_owned());
    }
    let clean = |fs: &Volume, when: &str| match fs.check().map_err(words)?.first() {
        Some(finding) => Err(format!("{when}: {finding}")),
        None => Ok(()),
    };
    clean(&fs, "removed")?;
    for _ in 0..5 {
        fs.reap(9).map_err(words)?;
    }
    clean(&fs, "partly taken apart")?;
    fs.getattr(directory).map_err(|error| format!("an open directory: {error}"))?;
    fs.syncfs().map_err(words)?;
    drop(fs);
    let fs = Volume::open(memory, tiny(0)).map_err(words)?;
    clean(&fs, "mounted again")?;
    while fs.reap(9).map_err(words)? {}
    clean(&fs, "taken apart")?;
    let left = fs.lookup(ROOT, name(b"elsewhere")?).map_err(words)?;
    let keys = fs.data_keys().map_err(words)?;
    match (left.links, left.inode == file, keys) {
        (1, true, 1) => Ok(()),
        wrong => Err(format!("links, inode and keys of data that are left: {wrong:?}")),
    }
}

/// A store that makes every batch durable by a checkpoint of its own has a cut between any two.
pub(super) fn renames() -> Result<(), String> {
    let mut options: VolumeOptions = tiny(0);
    (options.store.memtable_bytes, options.store.fresh_bytes) = (1, 1);
    options.store.pacing = betree::Pacing::AtOnce;
    let memory = Memory::new(4 << 20);
    let fs = Volume::create(memory.clone(), options.clone(), 1, at(0)).map_err(words)?;
    new_file(&fs, b"0")?;
    fs.syncfs().map_err(words)?;
    drop(fs);
    let before = memory.image();
    let (recorded, recording) = Recorded::new(memory);
    let fs = Volume::open(recorded, options.clone()).map_err(words)?;
    for number in 0..9u8 {
        let (old, new) = ([b'0' + number], [b'1' + number]);
        let (old, new) = (Name::new(&old).map_err(words)?, Name::new(&new).map_err(words)?);
        fs.rename(&caller(2), ROOT, old, ROOT, new, RenameFlags::Replace).map_err(words)?;
    }
    drop(fs);
    let log = recording.take();
    for cut in Cuts::new(before, &log, VolatileCache::default()) {
        for survives in [false, true] {
            let image = cut.image(4096, |_, _| survives);
            let fs = Volume::open(Memory::from_image(image), options.clone()).map_err(words)?;
            let names = entries(&fs, ROOT, 9).map_err(words)?.len();
            if names != 1 {
                return Err(format!("cut after {} entries: {names} names of one file", cut.entries));
            }
        }
    }
    Ok(())
}

#[test]
fn they_go_well() {
    for (name, case) in
        [("holes", holes as fn() -> Result<(), String>), ("exchange", exchange), ("renames", renames), ("trees", trees)]
    {
        case().unwrap_or_else(|what| panic!("{name}: {what}"));
    }
}
