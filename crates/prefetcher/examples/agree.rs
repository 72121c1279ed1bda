//! Does to files whatever moves pages into the page cache and out of it, and holds what says which pages are there against mincore(2), page
//! by page: the bitmaps of BPF programs, cachemap(2), and the published record of readahead.
//!
//! `agree FOLDER SEED OPERATIONS [RECLAIM]`: RECLAIM is the file by which a control group gives memory up (`memory.reclaim`). Prints what
//! was done and found as JSON; fails where a page is called what it is not by those that are exact.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use prefetch::{PAGE_BYTES, Range};
use prefetcher::residency::bits::Bits;
use prefetcher::residency::bpf::{Key, Tracker};
use prefetcher::residency::cachemap::Cachemap;

/// Files at once.
const FILES: usize = 12;
/// Pages of the largest one.
const PAGES: u64 = 512;
/// All files are compared after so many operations, and the one that was touched after each.
const ALL_EVERY: u64 = 256;
/// How often a page may differ because it is being read, each time after a millisecond.
const PATIENCE: u32 = 500;

/// Splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// A file, mapped as far as it may grow.
struct Slot {
    path: PathBuf,
    file: File,
    at: *mut libc::c_void,
    followed: Option<(Key, Bits)>,
}

impl Slot {
    /// A new file of this name.
    fn make(path: &Path, pages: u64, tracker: Option<&Tracker>) -> Self {
        let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        file.set_len(pages * PAGE_BYTES).unwrap();
        let bytes = (PAGES * PAGE_BYTES) as usize;
        // SAFETY: a new mapping at a place of the kernel's choice.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert_ne!(at, libc::MAP_FAILED);
        let followed = tracker.map(|tracker| {
            let (key, array, entries) = tracker.follow(file.as_fd()).unwrap();
            (key, Bits::new(array.as_fd(), entries, file.as_fd()).unwrap())
        });
        Self { path: path.to_owned(), file, at, followed }
    }

    fn pages(&self) -> u64 {
        self.file.metadata().unwrap().len() / PAGE_BYTES
    }

    /// What mincore says, a bit a page.
    fn truth(&self) -> Vec<u64> {
        let mut bytes = vec![0_u8; PAGES as usize];
        // SAFETY: a byte for each page of this value's mapping.
        let result = unsafe { libc::mincore(self.at, (PAGES * PAGE_BYTES) as usize, bytes.as_mut_ptr()) };
        assert_eq!(result, 0);
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 1 | u64::from(byte & 1));
        bytes.chunks(64).map(word).collect()
    }

    /// Touches a page of the mapping, which the file has.
    fn touch(&self, page: u64) {
        // SAFETY: within the mapping, and the file is not shortened meanwhile.
        unsafe { self.at.cast::<u8>().add((page * PAGE_BYTES) as usize).read_volatile() };
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: this value's own mapping.
        unsafe { libc::munmap(self.at, (PAGES * PAGE_BYTES) as usize) };
    }
}

/// Pages that a source was asked about and wrong on.
#[derive(Default)]
struct Wrong {
    gone: u64,
    missed: u64,
}

impl Wrong {
    fn count(&mut self, said: &[u64], truth: &[u64]) {
        for (said, truth) in said.iter().zip(truth) {
            self.gone += u64::from((said & !truth).count_ones());
            self.missed += u64::from((truth & !said).count_ones());
        }
    }

    fn json(&self) -> String {
        format!("{{\"gone\":{},\"missed\":{}}}", self.gone, self.missed)
    }
}

struct Run {
    folder: PathBuf,
    random: Random,
    tracker: Option<Tracker>,
    call: Option<Cachemap>,
    record: Option<Cachemap>,
    reclaim: Option<PathBuf>,
    slots: Vec<Slot>,
    kinds: BTreeMap<&'static str, u64>,
    compared: u64,
    wrong: BTreeMap<&'static str, Wrong>,
    made: u64,
    inodes: BTreeMap<u64, u64>,
}

impl Run {
    fn make(&mut self, name: &str) -> Slot {
        let pages = PAGES / 2;
        let slot = Slot::make(&self.folder.join(name), pages, self.tracker.as_ref());
        self.made += 1;
        let inode = std::os::unix::fs::MetadataExt::ino(&slot.file.metadata().unwrap());
        *self.inodes.entry(inode).or_default() += 1;
        slot
    }

    /// Does something to a file.
    fn operate(&mut self, index: usize) -> &'static str {
        let pages = self.slots[index].pages();
        let (first, length) = if pages == 0 {
            (0, 0)
        } else {
            let first = self.random.below(pages);
            (first, (1 + self.random.below(16)).min(pages - first))
        };
        let slot = &self.slots[index];
        let (at, bytes) = (first * PAGE_BYTES, length * PAGE_BYTES);
        let advise = |advice| {
            // SAFETY: numbers alone.
            unsafe { libc::posix_fadvise(slot.file.as_raw_fd(), at as i64, bytes as i64, advice) };
        };
        match self.random.below(if self.reclaim.is_some() { 64 } else { 62 }) {
            0..=19 => {
                let mut buffer = vec![0; bytes as usize];
                slot.file.read_exact_at(&mut buffer, at).unwrap();
                "read"
            }
            20..=27 if pages > 0 => {
                let whole = self.random.below(256) as u8;
                slot.file.write_all_at(&vec![whole; bytes as usize], at).unwrap();
                "write"
            }
            28..=33 => {
                slot.file.sync_data().unwrap();
                advise(libc::POSIX_FADV_DONTNEED);
                "dontneed"
            }
            34..=39 => {
                advise(libc::POSIX_FADV_WILLNEED);
                "willneed"
            }
            40..=43 => {
                slot.file.set_len(self.random.below(PAGES + 1) * PAGE_BYTES).unwrap();
                "truncate"
            }
            44..=47 if bytes > 0 => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                // SAFETY: numbers alone.
                let result = unsafe { libc::fallocate(slot.file.as_raw_fd(), mode, at as i64, bytes as i64) };
                assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
                "punch"
            }
            48..=50 => {
                // Another file takes the name; the old one is gone with its last descriptor.
                let new = self.make("new");
                fs::rename(&new.path, &self.slots[index].path).unwrap();
                let path = self.slots[index].path.clone();
                self.replace(index, Slot::renamed(new, path));
                "rename"
            }
            51..=53 => {
                // The next file most likely gets the inode of this one.
                let path = self.slots[index].path.clone();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                fs::remove_file(&path).unwrap();
                let aside = self.slots.swap_remove(index);
                self.forget(&aside);
                drop(aside);
                let new = self.make(&name);
                self.slots.push(new);
                let last = self.slots.len() - 1;
                self.slots.swap(index, last);
                "reuse"
            }
            54..=57 if pages > 0 => {
                slot.touch(first);
                "fault"
            }
            58..=59 if pages > 0 => {
                let direct = File::options().write(true).custom_flags(libc::O_DIRECT).open(&slot.path).unwrap();
                let buffer = vec![7_u8; 2 * PAGE_BYTES as usize];
                let aligned = buffer.as_ptr().align_offset(PAGE_BYTES as usize);
                direct.write_all_at(&buffer[aligned..aligned + PAGE_BYTES as usize], at).unwrap();
                "direct"
            }
            60 => {
                slot.file.sync_all().unwrap();
                "sync"
            }
            62..=63 => {
                let amount = format!("{}K", 64 + self.random.below(1024));
                // EAGAIN where there is not that much to be had.
                let _ = fs::write(self.reclaim.as_ref().unwrap(), amount);
                "reclaim"
            }
            _ => "nothing",
        }
    }

    fn replace(&mut self, index: usize, new: Slot) {
        let old = std::mem::replace(&mut self.slots[index], new);
        self.forget(&old);
    }

    fn forget(&self, slot: &Slot) {
        if let (Some(tracker), Some((key, _))) = (&self.tracker, &slot.followed) {
            tracker.forget(*key);
        }
    }

    /// Holds the sources against mincore for a file.
    fn compare(&mut self, index: usize) {
        let slot = &self.slots[index];
        let whole = Range { start_bytes: 0, end_bytes: PAGES * PAGE_BYTES };
        let mut waits = 0;
        loop {
            let truth = slot.truth();
            let call = self.call.as_ref().map(|call| call.map(slot.file.as_fd(), whole).unwrap().0);
            let bits = slot
                .followed
                .as_ref()
                .map(|(_, bits)| (0..PAGES as usize / 64).map(|entry| bits.word(entry).unwrap()).collect::<Vec<_>>());
            let agree = [&call, &bits].iter().all(|said| said.as_ref().is_none_or(|said| *said == truth));
            // A page that is being read is there for those, and not for mincore.
            if !agree && waits < PATIENCE {
                waits += 1;
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            for (name, said) in [("call", &call), ("bpf", &bits)] {
                if let Some(said) = said {
                    self.wrong.entry(name).or_default().count(said, &truth);
                }
            }
            if let Some(record) = &self.record {
                let said = record.map(slot.file.as_fd(), whole).unwrap().0;
                self.wrong.entry("bitmap").or_default().count(&said, &truth);
            }
            self.compared += PAGES;
            return;
        }
    }
}

impl Slot {
    fn renamed(mut self, path: PathBuf) -> Self {
        self.path = path;
        self
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, seed, operations, rest @ ..] = &arguments[..] else {
        eprintln!("usage: agree FOLDER SEED OPERATIONS [RECLAIM]");
        std::process::exit(2);
    };
    let tracker = Tracker::attach().inspect_err(|error| eprintln!("no bitmaps of BPF programs: {error}")).ok();
    let mut run = Run {
        folder: folder.into(),
        random: Random(seed.parse().unwrap()),
        tracker,
        call: Cachemap::new(false),
        record: Cachemap::new(true),
        reclaim: rest.first().map(PathBuf::from),
        slots: Vec::new(),
        kinds: BTreeMap::new(),
        compared: 0,
        wrong: BTreeMap::new(),
        made: 0,
        inodes: BTreeMap::new(),
    };
    for index in 0..FILES {
        let slot = run.make(&format!("f{index}"));
        slot.file.write_all_at(&vec![1; (PAGES / 2 * PAGE_BYTES) as usize], 0).unwrap();
        run.slots.push(slot);
    }
    for operation in 0..operations.parse::<u64>().unwrap() {
        let index = run.random.below(FILES as u64) as usize;
        let kind = run.operate(index);
        *run.kinds.entry(kind).or_default() += 1;
        run.compare(index);
        if operation % ALL_EVERY == 0 {
            (0..FILES).for_each(|index| run.compare(index));
        }
    }
    let kinds: Vec<_> = run.kinds.iter().map(|(kind, count)| format!("\"{kind}\":{count}")).collect();
    let wrong: Vec<_> = run.wrong.iter().map(|(source, wrong)| format!("\"{source}\":{}", wrong.json())).collect();
    let reused = run.inodes.values().filter(|times| **times > 1).count();
    println!(
        "{{\"operations\":{{{}}},\"files\":{},\"inodes_reused\":{reused},\"compared_pages\":{},\"wrong\":{{{}}}}}",
        kinds.join(","),
        run.made,
        run.compared,
        wrong.join(",")
    );
    let exact = |name: &str| run.wrong.get(name).is_none_or(|wrong| wrong.gone == 0 && wrong.missed == 0);
    std::process::exit(if exact("call") && exact("bpf") { 0 } else { 1 });
}
