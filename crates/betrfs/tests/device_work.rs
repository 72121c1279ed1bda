//! What calls cost the storage: counted in bytes, so the same on every machine.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use betrfs::{
    Allocate, Caller, Cookie, DirectoryEntry, InodeNumber, Kind, Name, Operations, Permissions, Timestamp, Volume,
    VolumeOptions,
};
use storage::{Completion, Memory, Queue, Request, Storage, StorageError, Tag};

const MIB: u64 = 1 << 20;

fn caller() -> Caller<'static> {
    let now = Timestamp { seconds: 1, nanoseconds: 0 };
    Caller { uid: 0, gid: 0, groups: &[], umask: 0, now }
}

fn options() -> VolumeOptions {
    let mut options = VolumeOptions::default();
    // Bytes are counted as they are written.
    options.store.compression = betree::Compression::None;
    options
}

fn create(memory: &Memory) -> Volume {
    Volume::create(memory.clone(), options(), 1, Timestamp::default()).unwrap()
}

/// Mounted again, with nothing in memory.
fn cold(memory: &Memory, volume: Volume) -> Volume {
    volume.settle().unwrap();
    volume.database().quiesce().unwrap();
    drop(volume);
    Volume::open(memory.clone(), options()).unwrap()
}

fn file(fs: &Volume, name: &str) -> InodeNumber {
    let name = Name::new(name.as_bytes()).unwrap();
    let made = fs.create(&caller(), InodeNumber::ROOT, name, Permissions::of_mode(0o644)).unwrap();
    fs.release(made.inode).unwrap();
    made.inode
}

/// Bytes that nobody can foresee, the same each time.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[test]
fn small_writes_into_a_cold_file_read_nothing() {
    let memory = Memory::new(256 * MIB);
    let fs = create(&memory);
    let inode = file(&fs, "file");
    for megabyte in 0..40 {
        fs.write(&caller(), inode, megabyte * MIB, &vec![1; MIB as usize], false).unwrap();
    }
    let fs = cold(&memory, fs);
    // The inode is found once.
    fs.getattr(inode).unwrap();
    let write = |length: usize| {
        let before = fs.database().stats();
        for number in 0..3000 {
            fs.write(&caller(), inode, scattered(number) % (40 * MIB - 4096), &vec![2; length], false).unwrap();
        }
        fs.fsync(inode).unwrap();
        let after = fs.database().stats();
        let (read, written) = (after.read_bytes - before.read_bytes, after.written_bytes() - before.written_bytes());
        println!("3000 writes of {length} bytes: {read} bytes read, {written} written");
        read
    };
    assert_eq!(write(4), 0, "nothing is read before it is written");
    // So much that the store moves messages, which reads headers of nodes.
    let read = write(4096);
    assert!(read < 3000 * 4096 / 50, "{read}: nothing is read for each write");
    for number in 0..3000 {
        let mut bytes = [0; 4];
        fs.read(&caller(), inode, scattered(number) % (40 * MIB - 4096), &mut bytes).unwrap();
        assert_eq!(bytes, [2; 4]);
    }
    assert_eq!(fs.check().unwrap(), []);
}

#[test]
fn long_writes_are_written_once() {
    let memory = Memory::new(256 * MIB);
    let fs = create(&memory);
    let inode = file(&fs, "file");
    let before = fs.database().stats().written_bytes();
    for megabyte in 0..64u64 {
        let bytes: Vec<u8> = (0..MIB / 8).flat_map(|word| scattered(megabyte << 32 | word).to_le_bytes()).collect();
        fs.write(&caller(), inode, megabyte * MIB, &bytes, false).unwrap();
    }
    fs.fsync(inode).unwrap();
    fs.database().quiesce().unwrap();
    let written = fs.database().stats().written_bytes() - before;
    println!("{:.3} bytes written for each of the file's, nothing owed", written as f64 / (64 * MIB) as f64);
    assert!(written < 64 * MIB * 105 / 100, "{written} bytes for {}", 64 * MIB);
}

/// Whatever the length of the calls, granules are written whole, also where the file has its length already.
#[test]
fn short_writes_in_sequence_are_written_once() {
    let lengths = [4 << 10, 40 << 10, 100_000];
    for (length, preallocated) in lengths.into_iter().flat_map(|length| [(length, false), (length, true)]) {
        let memory = Memory::new(256 * MIB);
        let fs = create(&memory);
        let inode = file(&fs, "file");
        let calls = 32 * MIB / length;
        if preallocated {
            fs.fallocate(&caller(), inode, Allocate::Extend, 0, calls * length).unwrap();
        }
        let before = fs.database().stats().written_bytes();
        for number in 0..calls {
            let bytes: Vec<u8> = (0..length).map(|byte| scattered(number << 32 | byte) as u8).collect();
            fs.write(&caller(), inode, number * length, &bytes, false).unwrap();
        }
        fs.fsync(inode).unwrap();
        fs.database().quiesce().unwrap();
        let written = fs.database().stats().written_bytes() - before;
        let factor = written as f64 / (calls * length) as f64;
        let how = if preallocated { ", preallocated" } else { "" };
        println!("calls of {length} bytes{how}: {factor:.3} bytes written for each of the file's, nothing owed");
        // Calls that end with no granule leave one in pieces for each MiB.
        let most = if length.is_multiple_of(4096) { 1.05 } else { 1.3 };
        assert!(factor < most, "{factor} for calls of {length} bytes");
    }
}

#[test]
fn names_that_are_not_there_are_not_looked_for_on_the_storage() {
    let memory = Memory::new(256 * MIB);
    let fs = create(&memory);
    for number in 0..5000 {
        file(&fs, &format!("file {number}"));
    }
    let fs = cold(&memory, fs);
    let exists = |name: &str| fs.lookup(InodeNumber::ROOT, Name::new(name.as_bytes()).unwrap()).is_ok();
    // What leads there is read once.
    assert!(exists("file 7") && !exists("nothing"));
    let before = fs.database().stats();
    for number in 0..2000 {
        assert!(!exists(&format!("none {number}")));
    }
    let read = fs.database().stats().read_bytes - before.read_bytes;
    println!("{read} bytes read for 2000 names that are not there");
    // One in a hundred gets through a filter, to blocks that stay in memory.
    assert!(read < 2 * MIB, "{read}");
    let before = fs.database().stats().read_bytes;
    let mut entries = 0;
    let mut count = |_: betrfs::DirectoryEntry<'_>| {
        entries += 1;
        true
    };
    fs.readdir(InodeNumber::ROOT, Cookie::START, &mut count).unwrap();
    assert_eq!(entries, 5002);
    let read = fs.database().stats().read_bytes - before;
    println!("{read} bytes read for 5000 entries with their attributes");
    assert!(read < 5000 * 300, "{read}: entries and attributes lie together");
}

/// Who has found a small file's name has its data, and who has listed a directory has that of all small files in it.
#[test]
fn small_files_come_with_their_names() {
    let memory = Memory::new(256 * MIB);
    let fs = create(&memory);
    let length = |number: u64| 100 + (number * 37 % 1900) as usize;
    let files: Vec<InodeNumber> = (0..2000).map(|number| file(&fs, &format!("file {number}"))).collect();
    for (number, inode) in files.iter().enumerate() {
        fs.write(&caller(), *inode, 0, &vec![number as u8; length(number as u64)], false).unwrap();
    }
    let target = vec![b't'; 300];
    fs.symlink(&caller(), InodeNumber::ROOT, Name::new(b"link").unwrap(), &target).unwrap();
    let read = |fs: &Volume, number: usize| {
        let mut bytes = vec![0; 4096];
        // Of before the file was made: nothing is to be noted.
        let reader = Caller { now: Timestamp::default(), ..caller() };
        let found = fs.read(&reader, files[number], 0, &mut bytes).unwrap();
        assert_eq!(bytes[..found], vec![number as u8; length(number as u64)]);
    };
    let fs = cold(&memory, fs);
    for number in [5, 1900, 77] {
        let before = fs.database().stats().read_bytes;
        fs.lookup(InodeNumber::ROOT, Name::new(format!("file {number}").as_bytes()).unwrap()).unwrap();
        let found = fs.database().stats().read_bytes;
        read(&fs, number);
        assert_eq!(fs.database().stats().read_bytes, found, "its data came with its name");
        println!("{} bytes read for a name of 2,000, none for the small file behind it", found - before);
    }
    let fs = cold(&memory, fs);
    fs.getattr(InodeNumber::ROOT).unwrap();
    // As through FUSE: some entries at a time.
    let (mut after, mut last) = (Cookie::START, None);
    while last != Some(after) {
        last = Some(after);
        let mut room = 300;
        let mut take = |entry: betrfs::DirectoryEntry<'_>| {
            let has_room = room > 0;
            if has_room {
                (room, after) = (room - 1, entry.next);
            }
            has_room
        };
        fs.readdir(InodeNumber::ROOT, last.unwrap(), &mut take).unwrap();
    }
    let listed = fs.database().stats().read_bytes;
    for number in (0..2000).rev() {
        read(&fs, number);
    }
    let link = fs.lookup(InodeNumber::ROOT, Name::new(b"link").unwrap()).unwrap();
    assert_eq!(fs.readlink(link.inode).unwrap(), target);
    let all: u64 = (0..2000).map(|number| length(number) as u64).sum();
    println!("{listed} bytes read to list 2,000 files with {all} bytes, and none to read them");
    assert_eq!(fs.database().stats().read_bytes, listed, "their data came with the list");
    assert_eq!(fs.check().unwrap(), []);
}

/// Counts requests to read.
#[derive(Clone)]
struct Counting {
    memory: Memory,
    requests: Arc<AtomicU64>,
    /// Of them those that no other is under way beside.
    alone: Arc<AtomicU64>,
}

impl Counting {
    fn new() -> Self {
        Self { memory: Memory::new(64 * MIB), requests: Arc::default(), alone: Arc::default() }
    }
}

impl Storage for Counting {
    fn capacity_bytes(&self) -> u64 {
        self.memory.capacity_bytes()
    }

    fn open_queue(&self) -> Result<Box<dyn Queue>, StorageError> {
        Ok(Box::new(CountingQueue { queue: self.memory.open_queue()?, counting: self.clone(), under_way: 0 }))
    }
}

struct CountingQueue {
    queue: Box<dyn Queue>,
    counting: Counting,
    under_way: usize,
}

impl Queue for CountingQueue {
    fn submit(&mut self, tag: Tag, request: Request) {
        let reads = u64::from(matches!(request, Request::Read { .. }));
        self.counting.requests.fetch_add(reads, Ordering::Relaxed);
        if self.under_way == 0 {
            self.counting.alone.fetch_add(reads, Ordering::Relaxed);
        }
        self.under_way += 1;
        self.queue.submit(tag, request);
    }

    fn complete(&mut self, completions: &mut Vec<Completion>) {
        let before = completions.len();
        self.queue.complete(completions);
        self.under_way -= completions.len() - before;
    }
}

/// Requests, and bytes for each file, that reading 300 files takes which lie in so many directories, in the order in which they are listed
/// or as `order` has it.
fn walked(directories: u64, order: impl Fn(&mut Vec<InodeNumber>)) -> (u64, u64) {
    const FILE_BYTES: usize = 8000;
    let counting = Counting::new();
    let fs = Volume::create(counting.clone(), options(), 1, Timestamp::default()).unwrap();
    let mut parents = Vec::new();
    for number in 0..directories {
        let name = format!("d{number}");
        let name = Name::new(name.as_bytes()).unwrap();
        let parent = fs.mkdir(&caller(), InodeNumber::ROOT, name, Permissions::of_mode(0o755)).unwrap().inode;
        for number in 0..300 / directories {
            let name = format!("f{number}");
            let name = Name::new(name.as_bytes()).unwrap();
            let inode = fs.create(&caller(), parent, name, Permissions::of_mode(0o644)).unwrap().inode;
            fs.release(inode).unwrap();
            fs.write(&caller(), inode, 0, &[number as u8; FILE_BYTES], false).unwrap();
        }
        parents.push(parent);
    }
    fs.settle().unwrap();
    fs.database().quiesce().unwrap();
    drop(fs);
    let fs = Volume::open(counting.clone(), options()).unwrap();
    let mut listed = Vec::new();
    for parent in parents {
        let mut add = |entry: DirectoryEntry<'_>| {
            if entry.name.starts_with(b"f") {
                listed.push(entry.attributes.inode);
            }
            true
        };
        fs.readdir(parent, Cookie::START, &mut add).unwrap();
    }
    order(&mut listed);
    let (requests, bytes) = (counting.requests.load(Ordering::Relaxed), fs.database().stats().read_bytes);
    let mut buffer = [0; 2 * FILE_BYTES];
    for inode in &listed {
        assert_eq!(fs.read(&caller(), *inode, 0, &mut buffer).unwrap(), FILE_BYTES);
        assert!(buffer[..FILE_BYTES].iter().all(|byte| *byte == buffer[0]));
    }
    (
        counting.requests.load(Ordering::Relaxed) - requests,
        (fs.database().stats().read_bytes - bytes) / listed.len() as u64,
    )
}

#[test]
fn files_that_are_read_in_the_order_of_their_directory_are_fetched_together() {
    let files = |what: &str, directories, order: fn(&mut Vec<InodeNumber>)| {
        let (requests, bytes) = walked(directories, order);
        println!("{what}: {requests} requests, {bytes} bytes a file");
        (requests, bytes)
    };
    let (requests, bytes) = files("in order, one directory", 1, |_| ());
    assert!(requests < 160 && bytes <= 8192 * 11 / 10);
    let (requests, bytes) = files("in order, fifteen", 15, |_| ());
    assert!(requests < 60 && bytes <= 8192 * 11 / 10);
    let (requests, bytes) =
        files("two of three", 15, |listed| listed.retain(|inode| !scattered(inode.0).is_multiple_of(3)));
    assert!(requests < 60 && bytes <= 8192 * 17 / 10);
    let (_, bytes) = files("backward", 1, |listed| listed.reverse());
    assert!(bytes <= 8192 * 11 / 10);
    let (_, bytes) = files("in no order", 1, |listed| listed.sort_by_key(|inode| scattered(inode.0)));
    assert!(bytes <= 8192 * 11 / 10);
    let (_, bytes) = files("in no order, many", 15, |listed| listed.sort_by_key(|inode| scattered(inode.0)));
    assert!(bytes <= 8192 * 11 / 10);
}

/// How often a walk through a cold tree waits for the storage, and bytes that it reads: eight directories of 40 with eight files each,
/// listed one after the other as `order` has it.
fn listed(order: impl Fn(&mut Vec<InodeNumber>)) -> (u64, u64) {
    let counting = Counting::new();
    let fs = Volume::create(counting.clone(), options(), 1, Timestamp::default()).unwrap();
    let permissions = Permissions::of_mode(0o755);
    let directory = |parent, number: u64| {
        let name = format!("directory {number}");
        fs.mkdir(&caller(), parent, Name::new(name.as_bytes()).unwrap(), permissions).unwrap().inode
    };
    let tops: Vec<_> = (0..8).map(|number| directory(InodeNumber::ROOT, number)).collect();
    for number in 0..320 {
        let parent = directory(tops[number as usize % 8], number);
        for number in 0..8 {
            let name = format!("a file with a name of some length, number {number}");
            let name = Name::new(name.as_bytes()).unwrap();
            let inode = fs.create(&caller(), parent, name, permissions).unwrap().inode;
            fs.release(inode).unwrap();
        }
    }
    fs.database().quiesce().unwrap();
    drop(fs);
    let fs = Volume::open(counting.clone(), options()).unwrap();
    let (waits, bytes) = (counting.alone.load(Ordering::Relaxed), fs.database().stats().read_bytes);
    let list = |directory| {
        let mut found = Vec::new();
        let mut entry = |entry: DirectoryEntry<'_>| {
            if entry.attributes.kind == Kind::Directory && !entry.name.starts_with(b".") {
                found.push(entry.attributes.inode);
            }
            true
        };
        fs.readdir(directory, Cookie::START, &mut entry).unwrap();
        found
    };
    let mut count = 0;
    for top in list(InodeNumber::ROOT) {
        let mut below = list(top);
        order(&mut below);
        count += below.len();
        below.into_iter().for_each(|directory| assert!(list(directory).is_empty()));
    }
    assert_eq!(count, 320);
    (counting.alone.load(Ordering::Relaxed) - waits, fs.database().stats().read_bytes - bytes)
}

#[test]
fn directories_that_are_listed_in_the_order_of_the_one_above_are_fetched_together() {
    let in_order = listed(|_| ());
    let backward = listed(|below| below.reverse());
    println!("waits and bytes: {in_order:?} in order, {backward:?} backward");
    assert!(in_order.0 * 2 < backward.0, "{in_order:?} {backward:?}");
    assert!(in_order.1 * 10 <= backward.1 * 11, "nothing is read in vain");
}
