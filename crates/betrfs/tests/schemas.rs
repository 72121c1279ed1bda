//! What the two schemas cost the storage: counted in bytes, so the same on every machine.
#![allow(clippy::unwrap_used)]

use betrfs::{
    Caller, Cookie, InodeNumber, Kind, Name, Operations, Permissions, RenameFlags, Schema, Timestamp, Volume,
    VolumeOptions,
};
use storage::Memory;

const ROOT: InodeNumber = InodeNumber::ROOT;
const FOLDERS: u64 = 40;
const FILES: u64 = 50;

fn caller() -> Caller<'static> {
    Caller { uid: 0, gid: 0, groups: &[], umask: 0, now: Timestamp { seconds: 1, nanoseconds: 0 } }
}

fn options(schema: Schema) -> VolumeOptions {
    let mut options = VolumeOptions { schema, ..VolumeOptions::default() };
    // Bytes are counted as they are written, and read by those who ask for them.
    options.store.compression = betree::Compression::None;
    options
}

/// Bytes that nobody can foresee, the same each time.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn folder(fs: &Volume, parent: InodeNumber, name: &str) -> InodeNumber {
    let name = Name::new(name.as_bytes()).unwrap();
    match fs.lookup(parent, name) {
        Ok(found) => found.inode,
        Err(_) => fs.mkdir(&caller(), parent, name, Permissions::of_mode(0o755)).unwrap().inode,
    }
}

fn file(fs: &Volume, parent: InodeNumber, name: &str, bytes: &[u8]) -> InodeNumber {
    let name = Name::new(name.as_bytes()).unwrap();
    let made = fs.create(&caller(), parent, name, Permissions::of_mode(0o644)).unwrap().inode;
    fs.write(&caller(), made, 0, bytes, false).unwrap();
    fs.release(made).unwrap();
    made
}

/// Files of up to 4,800 bytes in folders, made in no order.
fn plant(fs: &Volume) {
    let mut order: Vec<u64> = (0..FOLDERS * FILES).collect();
    order.sort_by_key(|number| scattered(*number));
    let top = folder(fs, ROOT, "top");
    for number in order {
        let (in_folder, number) = (number % FOLDERS, number / FOLDERS);
        let parent = folder(fs, folder(fs, top, &format!("{}", in_folder % 7)), &format!("folder {in_folder}"));
        let bytes = vec![number as u8; (scattered(number) % 4800) as usize];
        file(fs, parent, &format!("file {number}.c"), &bytes);
    }
}

/// Goes through everything below a folder, as `find` does, or `grep -r`; how many files there are.
fn walk(fs: &Volume, folder: InodeNumber, reads: bool) -> u64 {
    let (mut found, mut files) = (Vec::new(), 0);
    fs.readdir(folder, Cookie::START, &mut |entry| {
        if !matches!(entry.name, b"." | b"..") {
            found.push(entry.attributes);
        }
        true
    })
    .unwrap();
    let mut bytes = vec![0; 5000];
    for attributes in found {
        if attributes.kind == Kind::Directory {
            files += walk(fs, attributes.inode, reads);
            continue;
        }
        files += 1;
        if reads {
            let length = fs.read(&caller(), attributes.inode, 0, &mut bytes).unwrap();
            assert_eq!(length as u64, attributes.size_bytes);
        }
    }
    files
}

fn rename(fs: &Volume, from: &str, to: &str) {
    let [from, to] = [from, to].map(|name| Name::new(name.as_bytes()).unwrap());
    fs.rename(&caller(), ROOT, from, ROOT, to, RenameFlags::Replace).unwrap();
}

/// Bytes read and written by something, from a cold start; nothing is owed before.
fn cost(memory: &Memory, schema: Schema, what: &str, does: impl FnOnce(&Volume)) -> (u64, u64) {
    let fs = Volume::open(memory.clone(), options(schema)).unwrap();
    assert_eq!(fs.schema(), schema);
    let before = fs.database().stats();
    does(&fs);
    fs.syncfs().unwrap();
    let after = fs.database().stats();
    let (read, written) = (after.read_bytes - before.read_bytes, after.written_bytes() - before.written_bytes());
    println!("{what}, {}: {read} bytes read, {written} written", schema.name());
    fs.quiesce(&caller()).unwrap();
    (read, written)
}

/// A rename of much writes little in either schema; where keys begin with paths it is paid for later, with all that it moves.
#[test]
fn renames_cost_what_they_move() {
    for schema in [Schema::Inode, Schema::Path] {
        let memory = Memory::new(256 << 20);
        let fs = Volume::create(memory.clone(), options(schema), 1, Timestamp::default()).unwrap();
        plant(&fs);
        let large = file(&fs, ROOT, "large", &vec![7; 40 << 20]);
        file(&fs, ROOT, "file", &vec![7; 600_000]);
        fs.quiesce(&caller()).unwrap();
        drop(fs);
        let cost = |what, does: &dyn Fn(&Volume)| cost(&memory, schema, what, does);
        let files = |fs: &Volume, reads| assert_eq!(walk(fs, ROOT, reads), FOLDERS * FILES + 2);
        cost("find in 2,000 files", &|fs| files(fs, false));
        let scan = cost("find and read them all", &|fs| {
            assert_eq!(walk(fs, folder(fs, ROOT, "top"), true), FOLDERS * FILES);
        });
        let small = cost("rename of a file of 600,000 bytes", &|fs| rename(fs, "file", "other file"));
        let renamed = cost("rename of the folder with the 2,000", &|fs| rename(fs, "top", "moved"));
        let paid = cost("rename of it until nothing is owed", &|fs| {
            rename(fs, "moved", "top");
            fs.quiesce(&caller()).unwrap();
        });
        let again = cost("find and read them all then", &|fs| {
            assert_eq!(walk(fs, folder(fs, ROOT, "top"), true), FOLDERS * FILES);
        });
        let here = cost("3,000 writes of 4 bytes here and there in 40 MiB", &|fs| {
            fs.getattr(large).unwrap();
            for number in 0..3000 {
                fs.write(&caller(), large, scattered(number) % ((40 << 20) - 4), &[2; 4], false).unwrap();
            }
        });
        let fs = Volume::open(memory.clone(), options(schema)).unwrap();
        assert_eq!(fs.check().unwrap(), []);
        assert!(renamed.1 < 64 << 10, "{renamed:?}: it is one small batch");
        assert!(again.0 < scan.0 * 5 / 4, "{again:?}: it lies as well as before");
        assert!(here.0 < 64 << 10, "{here:?}: small writes do not read");
        match schema {
            Schema::Inode => assert!(small.1 < 64 << 10 && paid.1 < 512 << 10, "{small:?}, {paid:?}: nothing is moved"),
            Schema::Path => assert!(small.1 > 600_000 && paid.1 > 4 << 20, "{small:?}, {paid:?}: all is moved"),
        }
    }
}
