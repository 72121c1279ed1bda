//! Many threads on one file system: each has its own directory, and all have one together.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::thread;

use betrfs::{
    Caller, Cookie, Error, InodeNumber, Name, Operations, Permissions, RenameFlags, Timestamp, Volume, VolumeOptions,
    check,
};
use storage::Memory;

fn options() -> VolumeOptions {
    let store = betree::Options {
        memtable_bytes: 256 << 10,
        fresh_bytes: 512 << 10,
        cache_bytes: 1 << 20,
        log_bytes: 2 << 20,
        ..betree::Options::default()
    };
    VolumeOptions { store, inode_cache_bytes: 20_000, ..VolumeOptions::default() }
}

fn caller(step: u64) -> Caller<'static> {
    let now = Timestamp { seconds: step as i64, nanoseconds: 0 };
    Caller { uid: 0, gid: 0, groups: &[], umask: 0, now }
}

fn names(fs: &Volume, directory: InodeNumber) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let mut add = |entry: betrfs::DirectoryEntry<'_>| {
        names.push(entry.name.to_vec());
        true
    };
    fs.readdir(directory, Cookie::START, &mut add).unwrap();
    names
}

/// What one thread does: files of its own, which must read as written, and names in the common directory.
fn work(fs: &Volume, thread: u64, common: InodeNumber, steps: u64) {
    let own = format!("own {thread}");
    let permissions = Permissions::of_mode(0o755);
    let own = fs.mkdir(&caller(0), InodeNumber::ROOT, Name::new(own.as_bytes()).unwrap(), permissions).unwrap().inode;
    for step in 0..steps {
        let caller = caller(step);
        let name = format!("{step}");
        let name = Name::new(name.as_bytes()).unwrap();
        let file = fs.create(&caller, own, name, permissions).unwrap().inode;
        let bytes = vec![(thread * 31 + step) as u8; (step * 997 % 90_000) as usize + 1];
        fs.write(&caller, file, step % 5, &bytes, false).unwrap();
        if step % 3 == 0 {
            fs.fsync(file).unwrap();
        }
        let mut read = vec![0; bytes.len()];
        assert_eq!(fs.read(&caller, file, step % 5, &mut read).unwrap(), bytes.len());
        assert_eq!(read, bytes);
        // Everybody fights for the same few names: any answer but damage is right.
        let shared = [b'a' + (step % 7) as u8];
        let shared = Name::new(&shared).unwrap();
        let results = [
            fs.link(&caller, file, common, shared).map(drop),
            fs.rename(&caller, common, shared, own, Name::new(b"taken").unwrap(), RenameFlags::Exchange),
            fs.lookup(common, shared).and_then(|found| fs.open(found.inode).and_then(|()| fs.release(found.inode))),
            if step % 2 == 0 { fs.unlink(&caller, common, shared) } else { Ok(()) },
        ];
        for result in results {
            let harmless = |error: &Error| matches!(error, Error::Exists | Error::NotFound | Error::Stale);
            assert!(result.as_ref().err().is_none_or(harmless), "{result:?}");
        }
        assert!(names(fs, common).len() >= 2);
        fs.release(file).unwrap();
        if step % 4 == 0 {
            fs.unlink(&caller, own, name).unwrap();
        }
    }
    let left = names(fs, own).len() as u64 - 2;
    assert_eq!(left, steps - steps.div_ceil(4));
}

#[test]
fn threads_do_not_disturb_each_other() {
    let steps = if std::env::var_os("PLUMB_LONG").is_some() { 5000 } else { 120 };
    let memory = Memory::new(512 << 20);
    let fs = Arc::new(Volume::create(memory.clone(), options(), 7, Timestamp::default()).unwrap());
    let common = Name::new(b"common").unwrap();
    let common = fs.mkdir(&caller(0), InodeNumber::ROOT, common, Permissions::of_mode(0o777)).unwrap().inode;
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let fs = Arc::clone(&fs);
            thread::spawn(move || work(&fs, thread, common, steps))
        })
        .collect();
    while threads.iter().any(|thread| !thread.is_finished()) {
        assert_eq!(fs.check().unwrap(), [], "while it changes");
        thread::yield_now();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    fs.syncfs().unwrap();
    drop(fs);
    assert_eq!(check(memory, &options()).unwrap(), []);
}
