//! Cases that random operations meet too seldom.

use crash::{Cuts, VolatileCache};
use storage::{Memory, Recorded};

use super::compare::reader;
use super::side::entries;
use super::traces::{PATHS, at, tiny};
use crate::operations::{
    Allocate, Attributes, Caller, Error, InodeNumber, Name, Operations, Permissions, RenameFlags, SetAttributes,
};
use crate::schema::{self, Format};
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
pub(super) fn held(seed: u64) -> Result<(), String> {
    let fs = Volume::create(Memory::new(16 << 20), tiny(seed), 1, at(0)).map_err(words)?;
    let file = new_file(&fs, b"file")?;
    let written: Vec<u8> = (0..900).map(|number| number as u8).collect();
    for (number, piece) in written.chunks(300).enumerate() {
        fs.write(&caller(2), file, number as u64 * 300, piece, false).map_err(words)?;
    }
    let looked_up = fs.lookup(ROOT, Name::new(b"file").map_err(words)?).map_err(words)?.size_bytes;
    fs.write(&caller(2), file, 900, &[7; 100], false).map_err(words)?;
    let listed: Vec<u64> = entries(&fs, ROOT, 9).map_err(words)?.into_iter().map(|(_, file)| file.size_bytes).collect();
    if listed != [1000] {
        return Err(format!("listed with {listed:?} bytes"));
    }
    let size = fs.getattr(file).map_err(words)?.size_bytes;
    let mut read = vec![0; 900];
    let length = fs.read(&reader(), file, 0, &mut read).map_err(words)?;
    if looked_up == 900 && size == 1000 && read[..length] == written {
        Ok(())
    } else {
        Err(format!("{looked_up} and {size} bytes, {length} read"))
    }
}

/// Who packs the files of a directory into one writes whole granules: to list, look for, read, look at and close them takes what is held
/// apart no more than it hides that they were read.
pub(super) fn packed(seed: u64) -> Result<(), String> {
    // A granule is in one batch.
    let options = VolumeOptions { write_bytes_max: 100 << 10, ..tiny(seed) };
    let fs = Volume::create(Memory::new(16 << 20), options, 1, at(0)).map_err(words)?;
    let file = new_file(&fs, b"file")?;
    let permissions = Permissions::of_mode(0o755);
    let directory = fs.mkdir(&caller(1), ROOT, Name::new(b"d").map_err(words)?, permissions).map_err(words)?.inode;
    for number in 0..16 {
        let name = [b'a' + number];
        let name = Name::new(&name).map_err(words)?;
        let other = fs.create(&caller(1), directory, name, permissions).map_err(words)?.inode;
        fs.write(&caller(1), other, 0, &[number; 10_000], false).map_err(words)?;
        fs.release(other).map_err(words)?;
    }
    fs.settle().map_err(words)?;
    let (before, mut read) = (fs.data_keys().map_err(words)?, [0; 4096]);
    let accessed = |what: &str, attributes: Attributes| match attributes.accessed == at(3) {
        true => Ok(()),
        false => Err(format!("{what}: accessed at {:?}", attributes.accessed)),
    };
    for block in 0..16 {
        fs.write(&caller(2), file, u64::from(block) * 4096, &[9; 4096], false).map_err(words)?;
        let name = [b'a' + block];
        let name = Name::new(&name).map_err(words)?;
        let other = fs.lookup(directory, name).map_err(words)?.inode;
        fs.open(other).map_err(words)?;
        fs.read(&caller(3), other, 0, &mut read).map_err(words)?;
        accessed("looked at", fs.getattr(other).map_err(words)?)?;
        accessed("looked up", fs.lookup(directory, name).map_err(words)?)?;
        for (found, attributes) in entries(&fs, directory, 5).map_err(words)? {
            if found == name.bytes() {
                accessed("listed", attributes)?;
            }
        }
        fs.release(other).map_err(words)?;
    }
    fs.settle().map_err(words)?;
    for (_, attributes) in entries(&fs, directory, 5).map_err(words)? {
        accessed("at the end", attributes)?;
    }
    let new = fs.data_keys().map_err(words)? - before;
    if new == 1 { Ok(()) } else { Err(format!("{new} new keys")) }
}

/// What is carried out of writes that are held has the accesses from before its end, and none from behind it.
pub(super) fn parted(seed: u64) -> Result<(), String> {
    let options = || VolumeOptions { write_bytes_max: 100 << 10, ..tiny(seed) };
    let memory = Memory::new(16 << 20);
    let fs = Volume::create(memory.clone(), options(), 1, at(0)).map_err(words)?;
    let (file, before, behind) = (new_file(&fs, b"file")?, new_file(&fs, b"before")?, new_file(&fs, b"behind")?);
    for other in [before, behind] {
        fs.write(&caller(1), other, 0, &[7; 10], false).map_err(words)?;
    }
    let mut read = [0; 10];
    let mut write = |offset, bytes: usize, reads: Option<InodeNumber>| {
        fs.write(&caller(2), file, offset, &vec![9; bytes], false).map_err(words)?;
        reads.map_or(Ok(10), |other| fs.read(&caller(3), other, 0, &mut read)).map_err(words)
    };
    write(0, 32_768, Some(before))?;
    write(32_768, 32_768, None)?;
    write(65_536, 5000, Some(behind))?;
    // Has no room beside them: the first granule is carried out.
    write(70_536, 40_000, None)?;
    fs.database().checkpoint().map_err(|error| error.to_string())?;
    let left = Volume::open(Memory::from_image(memory.image()), options()).map_err(words)?;
    let size = left.getattr(file).map_err(words)?.size_bytes;
    let accessed = [before, behind].map(|other| left.getattr(other).map(|attributes| attributes.accessed));
    let [Ok(first), Ok(second)] = accessed else { return Err(format!("{accessed:?}")) };
    if (size, first) == (65_536, at(3)) && second != at(3) {
        Ok(())
    } else {
        Err(format!("{size} bytes, accessed at {first:?} and {second:?}"))
    }
}

/// Patches on a granule go with the granule, and what a shorter file left below its blocks never comes back.
pub(super) fn holes(seed: u64) -> Result<(), String> {
    let fs = Volume::create(Memory::new(16 << 20), tiny(seed), 1, at(0)).map_err(words)?;
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

/// A file without a name that gets one is no orphan any more.
pub(super) fn named(seed: u64) -> Result<(), String> {
    let fs = Volume::create(Memory::new(16 << 20), tiny(seed), 1, at(0)).map_err(words)?;
    let file = fs.tmpfile(&caller(1), ROOT, Permissions::of_mode(0o600)).map_err(words)?.inode;
    fs.write(&caller(1), file, 0, &[1; 300], false).map_err(words)?;
    fs.link(&caller(2), file, ROOT, Name::new(b"named").map_err(words)?).map_err(words)?;
    fs.release(file).map_err(words)?;
    fs.check().map_err(words)?.first().map_or(Ok(()), |finding| Err(finding.to_string()))
}

/// What lies beside an entry stays with its file: through renames, a second name, a longer and a shorter life, and holes.
pub(super) fn small(seed: u64) -> Result<(), String> {
    let fs = Volume::create(Memory::new(16 << 20), tiny(seed), 1, at(0)).map_err(words)?;
    let none = fs.data_keys().map_err(words)?;
    let name = |name: &'static [u8]| Name::new(name).map_err(words);
    let file = new_file(&fs, b"file")?;
    let holds = |what: &str, bytes: &[u8]| {
        let mut read = vec![0; bytes.len() + 9];
        let length = fs.read(&reader(), file, 0, &mut read).map_err(words)?;
        if read[..length] != *bytes {
            return Err(format!("{what}: {length} bytes, of other content than the {} written", bytes.len()));
        }
        match fs.check().map_err(words)?.first() {
            Some(finding) => Err(format!("{what}: {finding}")),
            None => Ok(()),
        }
    };
    let write = |time, bytes: &[u8]| {
        fs.write(&caller(time), file, 0, bytes, false).map_err(words)?;
        fs.settle().map_err(words)
    };
    write(2, &[2; 700])?;
    holds("new", &[2; 700])?;
    fs.rename(&caller(3), ROOT, name(b"file")?, ROOT, name(b"moved")?, RenameFlags::Replace).map_err(words)?;
    holds("renamed", &[2; 700])?;
    write(4, &[4; 900])?;
    holds("written beside its new name", &[4; 900])?;
    write(5, &[5; 9000])?;
    holds("grown", &[5; 9000])?;
    let size = |size| SetAttributes { size_bytes: Some(size), ..Default::default() };
    fs.setattr(&caller(6), file, &size(0)).map_err(words)?;
    write(6, &[6; 800])?;
    holds("small again", &[6; 800])?;
    fs.link(&caller(7), file, ROOT, name(b"other")?).map_err(words)?;
    holds("with a second name", &[6; 800])?;
    fs.unlink(&caller(8), ROOT, name(b"moved")?).map_err(words)?;
    fs.setattr(&caller(8), file, &size(300)).map_err(words)?;
    fs.setattr(&caller(8), file, &size(500)).map_err(words)?;
    holds("shorter, and longer", &[&[6; 300][..], &[0; 200]].concat())?;
    fs.fallocate(&caller(9), file, Allocate::PunchHole, 0, 4096).map_err(words)?;
    holds("a hole", &[0; 500])?;
    write(10, &[7; 600])?;
    holds("written under a name of two", &[7; 600])?;
    fs.unlink(&caller(11), ROOT, name(b"other")?).map_err(words)?;
    let left = fs.data_keys().map_err(words)?;
    if left == none { Ok(()) } else { Err(format!("{left} keys of data are left")) }
}

/// A directory and a file in different directories change places.
pub(super) fn exchange(seed: u64) -> Result<(), String> {
    let fs = Volume::create(Memory::new(16 << 20), tiny(seed), 1, at(0)).map_err(words)?;
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

/// A tree goes in one step, by who may, with directories that are older than it; what is open or named elsewhere stays, and a mount in
/// between changes nothing.
pub(super) fn trees(seed: u64) -> Result<(), String> {
    let memory = Memory::new(16 << 20);
    let fs = Volume::create(memory.clone(), tiny(seed), 1, at(0)).map_err(words)?;
    let permissions = Permissions::of_mode(0o755);
    let name = |name: &'static [u8]| Name::new(name).map_err(words);
    let moved = fs.mkdir(&caller(1), ROOT, name(b"moved")?, permissions).map_err(words)?.inode;
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
    let inside = fs.create(&caller(1), moved, name(b"file")?, permissions).map_err(words)?.inode;
    fs.write(&caller(1), inside, 0, &[7; 5000], false).map_err(words)?;
    fs.release(inside).map_err(words)?;
    let replace = RenameFlags::Replace;
    fs.rename(&caller(1), ROOT, name(b"moved")?, directory, name(b"moved")?, replace).map_err(words)?;
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
    let fs = Volume::open(memory, tiny(seed)).map_err(words)?;
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
pub(super) fn renames(seed: u64) -> Result<(), String> {
    let mut options: VolumeOptions = tiny(seed);
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
        let file = fs.lookup(ROOT, new).map_err(words)?.inode;
        fs.write(&caller(2), file, 0, &[number; 900], false).map_err(words)?;
    }
    fs.settle().map_err(words)?;
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
            if let Some(finding) = fs.check().map_err(words)?.first() {
                return Err(format!("cut after {} entries: {finding}", cut.entries));
            }
        }
    }
    Ok(())
}

#[test]
fn they_go_well() {
    type Case = fn(u64) -> Result<(), String>;
    let cases: [(&str, Case); 6] = [
        ("holes", holes),
        ("named", named),
        ("small", small),
        ("exchange", exchange),
        ("renames", renames),
        ("trees", trees),
    ];
    for (name, case) in cases {
        for seed in [0, PATHS] {
            case(seed).unwrap_or_else(|what| panic!("{name}, {seed}: {what}"));
        }
    }
}

/// A file system of the version before becomes one of this version when it is mounted, and has what it had.
#[test]
fn the_version_before_is_mounted() {
    let memory = Memory::new(16 << 20);
    let fs = Volume::create(memory.clone(), tiny(0), 1, at(0)).unwrap();
    let file = new_file(&fs, b"file").unwrap();
    // So long that it lies where all did then.
    fs.write(&caller(2), file, 0, &[2; 3000], false).unwrap();
    fs.settle().unwrap();
    let (store, _) = fs.now();
    let version = |store: &crate::volume::Store| {
        Format::decode(&store.system.get(schema::FORMAT_KEY).unwrap().unwrap()).unwrap().version
    };
    let mut batch = betree::Batch::new();
    let old = Format { version: schema::VERSION_WITHOUT_BESIDE, features: 0, seed: store.seed };
    batch.insert(&store.system, schema::FORMAT_KEY, old.encode());
    store.commit(&batch).unwrap();
    assert_eq!(version(store), 1);
    fs.syncfs().unwrap();
    drop(fs);
    assert_eq!(crate::check(memory.clone(), &tiny(0)).unwrap(), []);
    let fs = Volume::open(memory, tiny(0)).unwrap();
    assert_eq!(version(fs.now().0), schema::VERSION);
    let mut bytes = [0; 3000];
    assert_eq!(fs.read(&reader(), file, 0, &mut bytes).unwrap(), 3000);
    assert_eq!(bytes, [2; 3000]);
    fs.write(&caller(3), file, 0, &[3; 3000], false).unwrap();
    assert_eq!(fs.check().unwrap(), []);
}
