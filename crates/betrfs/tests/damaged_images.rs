//! Images that others wrote to, byte by byte and value by value: they are mounted or refused by an error, and used without a panic, for
//! ever, or memory without bound; and where the check finds nothing, what is read is right.
#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use betree::{Batch, Durability};
use betrfs::{
    Allocate, Attributes, Caller, Cookie, Error, InodeNumber, Kind, Name, Operations, Permissions, RenameFlags, Result,
    Schema, Seek, SetAttributes, SetXattr, Timestamp, Volume, VolumeOptions, XattrName, check, repair,
};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use storage::{Image, Memory};
use twox_hash::XxHash3_64;

const ROOT: InodeNumber = InodeNumber::ROOT;
const BLOCK: usize = 4096;
/// More entries than any of these file systems has: a walk that meets so many goes round.
const ENTRIES_MAX: usize = 2000;
/// Of a file that damage made huge only the beginning.
const READ_MAX: u64 = 1 << 20;
/// One image, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of this process, with all that it keeps of images.
const RESIDENT_BYTES_MAX: u64 = 400 << 20;

/// One test at a time, since they bound the memory of the process.
static ALONE: Mutex<()> = Mutex::new(());

fn options(schema: Schema) -> VolumeOptions {
    let store = betree::Options {
        leaf_bytes: 16 << 10,
        basement_bytes: 1 << 10,
        fanout: 4,
        buffer_bytes: 16 << 10,
        memtable_bytes: 32 << 10,
        fresh_bytes: 64 << 10,
        cache_bytes: 1 << 20,
        log_bytes: 256 << 10,
        large_value_bytes: 5 << 10,
        ..betree::Options::default()
    };
    VolumeOptions { store, inode_cache_bytes: 1 << 20, recent_bytes: 0, schema, ..VolumeOptions::default() }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanoseconds: 0 }
}

fn caller(seconds: i64) -> Caller<'static> {
    Caller { uid: 0, gid: 0, groups: &[], umask: 0, now: at(seconds) }
}

/// Of everything at a path that can be seen.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Thing {
    path: Vec<u8>,
    attributes: Attributes,
    /// How many, and their hash.
    bytes: (usize, u64),
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// All that can be seen; what cannot be read is an error, and so is a tree without an end.
fn walk(fs: &Volume) -> Result<Vec<Thing>> {
    let mut things = Vec::new();
    let mut rest = vec![(Vec::new(), fs.getattr(ROOT)?)];
    while let Some((path, attributes)) = rest.pop() {
        let inode = attributes.inode;
        let mut bytes = Vec::new();
        match attributes.kind {
            Kind::Directory => {
                let mut found = Vec::new();
                fs.readdir(inode, Cookie::START, &mut |entry| {
                    found.push((entry.name.to_vec(), entry.attributes));
                    found.len() < ENTRIES_MAX
                })?;
                let names = found.into_iter().filter(|(name, _)| !matches!(&name[..], b"." | b".."));
                rest.extend(names.map(|(name, attributes)| ([&path[..], b"/", &name].concat(), attributes)));
            }
            Kind::Symlink => bytes = fs.readlink(inode)?,
            Kind::File => {
                bytes.resize(attributes.size_bytes.min(READ_MAX) as usize + 1, 1);
                // A time before all others, so that reads are not noted.
                let length = fs.read(&caller(i64::MIN), inode, 0, &mut bytes)?;
                bytes.truncate(length);
            }
            _ => {}
        }
        let mut xattrs = Vec::new();
        for name in fs.listxattr(inode)? {
            let value = fs.getxattr(inode, XattrName::new(&name)?)?;
            xattrs.push((name, value));
        }
        let bytes = (bytes.len(), XxHash3_64::oneshot(&bytes));
        things.push(Thing { path, attributes, bytes, xattrs });
        if things.len() + rest.len() > ENTRIES_MAX {
            return Err(Error::Corrupt("there is no end of it".to_owned()));
        }
    }
    things.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(things)
}

/// A file system, and what it may be found as.
struct Base {
    image: Image,
    /// Blocks that are not all zeroes.
    used: Vec<u64>,
    options: VolumeOptions,
    states: Vec<Vec<Thing>>,
}

/// One thing of each kind, and then changes of them.
fn fill(fs: &Volume, random: &mut impl Rng, mut after: impl FnMut(&Volume) -> Result<()>) -> Result<()> {
    let permissions = Permissions::of_mode(0o755);
    let mut parents = vec![ROOT];
    let mut files = Vec::new();
    for step in 0..84i64 {
        let caller = caller(step + 1);
        let parent = parents[random.random_range(0..parents.len())];
        let name = format!("{step}");
        let name = Name::new(name.as_bytes())?;
        let length = [100, 900, 5000, 9000, 67_000][random.random_range(0..5)];
        let data: Vec<u8> = (0..length).map(|at| (at as i64 * 7 % 251 + step) as u8).collect();
        match step % 14 {
            0 => parents.push(fs.mkdir(&caller, parent, name, permissions)?.inode),
            1 | 2 => {
                let file = fs.create(&caller, parent, name, permissions)?.inode;
                fs.write(&caller, file, 0, &data, false)?;
                fs.release(file)?;
                files.push((parent, step, file));
            }
            3 => drop(fs.symlink(&caller, parent, name, &vec![b't'; length.min(4000)])?),
            4 => drop(fs.link(&caller, files[0].2, parent, name)?),
            5 => {
                let (old, number, _) = files[files.len() - 1];
                let old_name = format!("{number}");
                fs.rename(&caller, old, Name::new(old_name.as_bytes())?, parent, name, RenameFlags::Replace)?;
                files.last_mut().unwrap().0 = parent;
                files.last_mut().unwrap().1 = step;
            }
            6 => fs.setxattr(&caller, parent, XattrName::new(b"user.a")?, &data[..99], SetXattr::Either)?,
            _ => {
                let file = files[random.random_range(0..files.len())].2;
                let offset = random.random_range(0..80_000);
                match random.random_range(0..6) {
                    0 => drop(fs.fallocate(&caller, file, Allocate::PunchHole, offset, 70_000)?),
                    1 => {
                        let changes = SetAttributes { size_bytes: Some(offset), ..SetAttributes::default() };
                        fs.setattr(&caller, file, &changes)?;
                    }
                    2 => fs.syncfs()?,
                    _ => drop(fs.write(&caller, file, offset, &data[..length.min(5000)], false)?),
                }
            }
        }
        after(fs)?;
    }
    Ok(())
}

fn bases() -> Vec<Base> {
    let mut bases = Vec::new();
    for (seed, schema) in [(0, Schema::Inode), (1, Schema::Path), (2, Schema::Inode), (3, Schema::Path)] {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let memory = Memory::new(6 << 20);
        let fs = Volume::create(memory.clone(), options(schema), u128::from(seed) + 1, at(0)).unwrap();
        let mut states = Vec::new();
        let is_closed = seed < 2;
        fill(&fs, &mut random, |fs| {
            states.push(walk(fs)?);
            Ok(())
        })
        .unwrap();
        fs.tmpfile(&caller(500), ROOT, Permissions::of_mode(0o600)).unwrap();
        if is_closed {
            fs.keep_snapshot(&caller(501), "kept").unwrap();
            fs.syncfs().unwrap();
            states = vec![walk(&fs).unwrap()];
            drop(fs);
        }
        let image = memory.image();
        let blocks = image.capacity_bytes() / BLOCK as u64;
        let used = (0..blocks).filter(|number| block(&image, *number).iter().any(|byte| *byte != 0)).collect();
        bases.push(Base { image, used, options: options(schema), states });
    }
    bases
}

fn block(image: &Image, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    image.read(number * BLOCK as u64, &mut bytes);
    bytes
}

/// Changes some bytes of an image; how.
fn damage(image: &mut Image, used: &[u64], random: &mut impl Rng) -> String {
    let mut told = String::new();
    for _ in 0..[1, 1, 1, 2, 8][random.random_range(0..5)] {
        // The first blocks, which say what all others are, more often than others.
        let which = if random.random_range(0..8) == 0 {
            random.random_range(0..4.min(used.len()))
        } else {
            random.random_range(0..used.len())
        };
        let (one, other) = (used[which], used[random.random_range(0..used.len())]);
        let mut bytes = block(image, one);
        let (from, kind) = (random.random_range(0..BLOCK), random.random_range(0..8));
        let end = (from + random.random_range(1..600)).min(BLOCK);
        match kind {
            0 => bytes[from] ^= 1 << random.random_range(0..8),
            1 => bytes[from] = random.random(),
            2 => bytes[from..end].fill([0, 255, 1, 127][random.random_range(0..4)]),
            3 => random.fill(&mut bytes[from..end]),
            4 => bytes.fill(0),
            5 => bytes = block(image, other),
            6 => bytes[from..].copy_from_slice(&block(image, other)[from..]),
            _ => {
                let moved = bytes[from..end].to_vec();
                let to = random.random_range(0..=BLOCK - moved.len());
                bytes[to..to + moved.len()].copy_from_slice(&moved);
            }
        }
        image.write(one * BLOCK as u64, &bytes);
        told += &format!("way {kind} at {from} of block {one} with {other}; ");
    }
    told
}

/// Does everything that there is to do; what fails says so.
fn use_it(fs: &Volume, random: &mut impl Rng) {
    let things = walk(fs).unwrap_or_default();
    let caller = caller(10_000);
    let mut list = Vec::new();
    let _ = fs.readdir(ROOT, Cookie::START, &mut |entry| {
        list.push((entry.name.to_vec(), entry.attributes));
        list.len() < ENTRIES_MAX
    });
    list.extend(things.iter().map(|thing| {
        let name = thing.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        (name.to_vec(), thing.attributes)
    }));
    list.retain(|(name, _)| !matches!(&name[..], b"" | b"." | b".."));
    let new = |what: &str| what.as_bytes().to_vec();
    let (made, moved, copied) = (new("new"), new("moved"), new("copied"));
    let (made, moved, copied) = (Name::new(&made).unwrap(), Name::new(&moved).unwrap(), Name::new(&copied).unwrap());
    if let Ok(file) = fs.create(&caller, ROOT, made, Permissions::of_mode(0o644)) {
        let _ = fs.write(&caller, file.inode, 3000, &[1; 9000], false);
        let _ = fs.fsync(file.inode);
        let _ = fs.release(file.inode);
    }
    for _ in 0..6 {
        if list.is_empty() {
            break;
        }
        let (name, attributes) = list[random.random_range(0..list.len())].clone();
        let (Ok(name), inode, size) = (Name::new(&name), attributes.inode, attributes.size_bytes) else { continue };
        let _ = match random.random_range(0..12) {
            0 => fs
                .write(&caller, inode, random.random_range(0..size.saturating_add(9).min(1 << 62)), &[2; 5000], false)
                .map(drop),
            1 => fs.seek(inode, random.random_range(0..size.saturating_add(1)), Seek::Hole).map(drop),
            2 => fs.seek(inode, random.random_range(0..size.saturating_add(1)), Seek::Data).map(drop),
            3 => fs.fallocate(&caller, inode, Allocate::PunchHole, 0, size.clamp(1, 1 << 40)).map(drop),
            4 => {
                let changes = SetAttributes { size_bytes: Some(size / 2), ..SetAttributes::default() };
                fs.setattr(&caller, inode, &changes).map(drop)
            }
            5 => fs.rename(&caller, ROOT, name, ROOT, moved, RenameFlags::Replace),
            6 => fs.link(&caller, inode, ROOT, moved).map(drop),
            7 => fs.unlink(&caller, ROOT, name),
            8 => fs.rmdir(&caller, ROOT, name),
            9 => fs.clone_tree(&caller, ROOT, name, ROOT, copied).map(drop),
            10 => fs.remove_tree(&caller, ROOT, name),
            _ => {
                let mut bytes = vec![0; 9000];
                fs.read(&caller, inode, size.saturating_sub(5000), &mut bytes).map(drop)
            }
        };
    }
    for _ in 0..ENTRIES_MAX {
        if !matches!(fs.reap(100), Ok(true)) {
            break;
        }
    }
    let _ = fs.statfs();
    let _ = fs.keep_snapshot(&caller, "later");
    let _ = fs.syncfs();
}

/// What became of an image.
#[derive(PartialEq, Eq, Debug)]
enum Became {
    Found,
    Right,
}

/// Whether something is found, or all is right, and that it can be used either way. Where sums are right as well, another time or size may
/// be as right as any.
fn judge(image: &Image, base: &Base, seed: u64, mends: bool, has_sums: bool) -> Result<Became, String> {
    let options = &base.options;
    let memory = || Memory::from_image(image.clone());
    let below = betree::verify(memory());
    let above = check(memory(), options);
    let is_found = !matches!((&below, &above), (Ok(below), Ok(above)) if below.is_empty() && above.is_empty());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    match Volume::open(memory(), options.clone()) {
        Ok(fs) => {
            let seen = walk(&fs);
            if !is_found {
                let seen = seen.map_err(|error| format!("nothing was found, and {error}"))?;
                if has_sums && !base.states.contains(&seen) {
                    return Err("nothing was found, and something else is there".to_owned());
                }
            }
            use_it(&fs, &mut random);
            let _ = fs.check();
        }
        Err(error) if !is_found => return Err(format!("nothing was found, and it cannot be mounted: {error}")),
        Err(_) => {}
    }
    if mends {
        // What blocks have lost stays lost.
        let _ = repair(memory(), options, at(20_000));
    }
    Ok(if is_found { Became::Found } else { Became::Right })
}

/// The most that this process had resident.
fn most_resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// So many images; `change` says what it did to one.
fn each(count: usize, what: &str, change: impl Fn(&Base, &mut Image, &mut Xoshiro256PlusPlus) -> String) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let bases = bases();
    for base in &bases {
        assert_eq!(judge(&base.image, base, 0, true, true), Ok(Became::Right), "without damage");
    }
    let (began, mut found, mut longest) = (Instant::now(), 0, Duration::ZERO);
    for number in 0..count as u64 {
        let base = &bases[number as usize % bases.len()];
        let mut random = Xoshiro256PlusPlus::seed_from_u64(number);
        let mut image = base.image.clone();
        let told = change(base, &mut image, &mut random);
        let one = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| judge(&image, base, number, number.is_multiple_of(10), what == "bytes")))
        {
            Ok(Ok(became)) => found += u64::from(became == Became::Found),
            Ok(Err(why)) => panic!("{what} {number}: {why}: {told}"),
            Err(_) => panic!("{what} {number}: a panic: {told}"),
        }
        longest = longest.max(one.elapsed());
        assert!(longest < PATIENCE, "{what} {number}: {longest:?}: {told}");
        let most = most_resident_bytes();
        assert!(most < RESIDENT_BYTES_MAX, "{what} {number}: {most} bytes: {told}");
    }
    let rate = count as f64 / began.elapsed().as_secs_f64();
    println!(
        "{count} times damaged {what}, {found} with findings, the longest {longest:?}, {rate:.0} a second, {} MiB resident at most",
        most_resident_bytes() >> 20
    );
    assert!(found > count as u64 / 4, "{found} of {count}");
}

/// How often, in the short suite and in the long one.
fn times(short: usize, long: usize) -> usize {
    let given = std::env::var("PLUMB_DAMAGED_IMAGES").ok().and_then(|count| count.parse().ok());
    given.unwrap_or(if std::env::var_os("PLUMB_LONG").is_some() { long } else { short })
}

/// Half a million in the long suite.
#[test]
fn bytes_that_were_changed_are_found() {
    each(times(1000, 500_000), "bytes", |base, image, random| damage(image, &base.used, random));
}

/// Keys and values whose checksums are right; half a million in the long suite.
#[test]
fn values_that_were_changed_are_found() {
    each(times(1000, 500_000), "values", |base, image, random| {
        let memory = Memory::from_image(image.clone());
        let fs = Volume::open(memory.clone(), base.options.clone()).unwrap();
        let mut told = String::new();
        for _ in 0..random.random_range(1..4) {
            let names = ["entries", "inodes", "orphans", "xattrs", "data", "system", "entries", "data"];
            let name = names[random.random_range(0..names.len())];
            let Ok(tree) = fs.database().open_tree(name) else { continue };
            let entries: Vec<_> = tree.iter().flatten().collect();
            if entries.is_empty() {
                continue;
            }
            let (mut key, mut value) = entries[random.random_range(0..entries.len())].clone();
            let way = random.random_range(0..6);
            let mut batch = Batch::new();
            let bytes = if way < 2 { &mut key } else { &mut value };
            let at = random.random_range(0..=bytes.len().min(130));
            let end = (at + random.random_range(1..9)).min(bytes.len());
            match random.random_range(0..6) {
                0 => batch.remove(&tree, &key),
                1 if way < 2 => drop(bytes.drain(at..end)),
                1 => bytes.truncate(at),
                2 => bytes[at..end].fill([0, 255, 127, 1][random.random_range(0..4)]),
                3 => random.fill(&mut bytes[at..end]),
                4 => bytes[at..end].iter_mut().for_each(|byte| *byte ^= 1 << random.random_range(0..8)),
                _ => {
                    let inserted: Vec<u8> = (0..random.random_range(1..20)).map(|_| random.random()).collect();
                    bytes.splice(at..at, inserted);
                }
            }
            told += &format!("{name}, way {way} at {at}, key {key:02x?}; ");
            if batch.is_empty() {
                batch.insert(&tree, &key, value);
            }
            let _ = fs.database().commit(&batch, Durability::Sync);
        }
        drop(fs);
        *image = memory.image();
        told
    });
}
