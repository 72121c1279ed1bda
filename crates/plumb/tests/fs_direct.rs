//! One file through the page cache, past it and by a mapping, in any order, with cuts, holes and new mounts in between: each read is what
//! the last writes left, however they went.
#![allow(clippy::unwrap_used)]

mod fs_rig;

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use fs_rig::{Rig, skipped};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// No file becomes larger.
const MOST_BYTES: usize = 1 << 20;
/// Of an operation.
const MOST_AT_ONCE: usize = 96 << 10;
/// What is read and written past the page cache is of whole sectors.
const SECTOR: usize = 512;

/// Memory that direct I/O can take.
#[repr(align(4096))]
struct Aligned([u8; MOST_AT_ONCE]);

/// A file, open in both ways, and what is in it.
struct Twice {
    cached: File,
    direct: File,
    expected: Vec<u8>,
}

impl Twice {
    fn open(path: &Path, expected: Vec<u8>) -> Self {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let cached = options.open(path).unwrap();
        let direct = options.custom_flags(libc_direct()).open(path).unwrap();
        Self { cached, direct, expected }
    }

    fn resize(&mut self, bytes: usize) {
        self.cached.set_len(bytes as u64).unwrap();
        self.expected.resize(bytes, 0);
    }

    fn wrote(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.expected.len() < end {
            self.expected.resize(end, 0);
        }
        self.expected[at..end].copy_from_slice(bytes);
    }

    fn check(&self, at: usize, found: &[u8], how: &str) {
        let end = self.expected.len().min(at + found.len()).max(at);
        let expected = self.expected.get(at..end).unwrap_or_default();
        if found != expected {
            let first = found.iter().zip(expected).position(|(a, b)| a != b);
            panic!("{how} at {at}: {} bytes for {}, the first other one at {first:?}", found.len(), expected.len());
        }
    }
}

fn libc_direct() -> i32 {
    // O_DIRECT of the generic ABI; the architectures that differ have their own.
    rustix::fs::OFlags::DIRECT.bits().cast_signed()
}

/// One operation drawn, done and checked.
fn step(file: &mut Twice, random: &mut Xoshiro256PlusPlus, buffer: &mut Aligned) {
    let whole = |value: usize| value / SECTOR * SECTOR;
    let at = random.random_range(0..MOST_BYTES);
    let length = random.random_range(1..=MOST_AT_ONCE.min(MOST_BYTES - at));
    let (sector, sectors) = (whole(at), whole(length).max(SECTOR).min(MOST_BYTES - whole(at)));
    match random.random_range(0..20) {
        0..=3 => {
            let bytes = &mut buffer.0[..length];
            random.fill_bytes(bytes);
            file.cached.write_all_at(bytes, at as u64).unwrap();
            file.wrote(at, &buffer.0[..length]);
        }
        4..=7 => {
            let bytes = &mut buffer.0[..sectors];
            random.fill_bytes(bytes);
            file.direct.write_all_at(bytes, sector as u64).unwrap();
            file.wrote(sector, &buffer.0[..sectors]);
        }
        8..=10 => {
            let count = read(&file.cached, &mut buffer.0[..length], at);
            file.check(at, &buffer.0[..count], "through the page cache");
        }
        11..=13 => {
            let count = read(&file.direct, &mut buffer.0[..sectors], sector);
            file.check(sector, &buffer.0[..count], "past it");
        }
        14 => file.resize(at),
        15 => {
            let mode = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&file.cached, mode, at as u64, length as u64).unwrap();
            let end = file.expected.len().min(at + length);
            if let Some(hole) = file.expected.get_mut(at..end) {
                hole.fill(0);
            }
        }
        16 => file.cached.sync_data().unwrap(),
        // Clean pages leave memory: what is read next comes from the file system.
        17 => rustix::fs::fadvise(&file.cached, 0, None, rustix::fs::Advice::DontNeed).unwrap(),
        _ => mapped(file, random, at, length),
    }
}

/// Reads to the end of the buffer or of the file.
fn read(file: &File, buffer: &mut [u8], at: usize) -> usize {
    let mut count = 0;
    while count < buffer.len() {
        match file.read_at(&mut buffer[count..], (at + count) as u64).unwrap() {
            0 => break,
            more => count += more,
        }
    }
    count
}

/// Reads a part by a mapping, and writes it anew.
fn mapped(file: &mut Twice, random: &mut Xoshiro256PlusPlus, at: usize, length: usize) {
    let size = file.expected.len();
    if at >= size {
        return;
    }
    let end = size.min(at + length);
    // SAFETY: nobody else changes the file, and it stays as long while it is mapped.
    let mut map = unsafe { memmap2::MmapMut::map_mut(file.cached.as_raw_fd()) }.unwrap();
    file.check(at, &map[at..end], "by a mapping");
    random.fill_bytes(&mut map[at..end]);
    let written = map[at..end].to_vec();
    if random.random_bool(0.5) {
        map.flush().unwrap();
    }
    drop(map);
    file.wrote(at, &written);
}

#[test]
fn each_read_is_what_the_last_writes_left() {
    if skipped(&[]) {
        return;
    }
    let operations = if std::env::var_os("PLUMB_LONG").is_some() { 200_000 } else { 6_000 };
    let mut rig = Rig::new(512);
    let path = rig.place().join("file");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut buffer = Box::new(Aligned([0; MOST_AT_ONCE]));
    let mut file = Twice::open(&path, Vec::new());
    for number in 1..=operations {
        step(&mut file, &mut random, &mut buffer);
        if number % (operations / 6) == 0 {
            // What was mapped, written and never synchronised is there as well.
            let expected = std::mem::take(&mut file.expected);
            drop(file);
            rig.unmount();
            rig.mount(&[]);
            file = Twice::open(&path, expected);
            let size = file.expected.len();
            assert_eq!(file.cached.metadata().unwrap().len(), size as u64);
            let mut all = vec![0; size + 1];
            let count = read(&file.cached, &mut all, 0);
            file.check(0, &all[..count], "mounted again");
        }
    }
    drop(file);
    rig.unmount();
    println!("{operations} operations");
}
