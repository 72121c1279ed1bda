//! Everything that programs did to files and that was loaded for them, and what was in memory meanwhile, for who wants to look at it
//! afterwards.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prefetch::{PAGE_BYTES, Range};

use super::{Common, open};
use crate::mutants::{Mutant, mutated};
use crate::policies::Plan;
use crate::residency::halving;
use crate::shared::{Deed, Name, Record, Ring, Table};

/// Accesses that are kept; later ones are counted only.
const MOST_ACCESSES: usize = 1 << 20;

/// Loaded ranges that are kept.
const MOST_LOADS: usize = 1 << 18;

/// Changes of what is in memory that are kept.
const MOST_CHANGES: usize = 1 << 18;

/// Files whose pages are looked at: those with most accesses so far.
const LOOKED_AT: usize = 8;

/// Parts of a file that are told apart when its pages are looked at.
const PARTS: u64 = 240;

/// Between two looks, at least; and that looking takes a tenth of the time at most.
const PAUSE: Duration = Duration::from_millis(4);
const SHARE: u32 = 10;

/// Looks after which a record that is not complete belongs to nobody any more: some tenths of a second.
const STUCK_LOOKS: u32 = 50;

/// A file that was accessed.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its name, as its first reader has it; empty if it was gone before anybody looked.
    pub path: PathBuf,
    /// Its size when it was last looked at.
    pub bytes: u64,
    identity: (u64, u64),
    accesses: u64,
}

impl Seen {
    /// A file of this name and size.
    pub fn new(path: PathBuf, bytes: u64) -> Self {
        Self { path, bytes, identity: (0, 0), accesses: 0 }
    }
}

/// An access of a program.
#[derive(Clone, Copy, Debug)]
pub struct Accessed {
    /// Which of the files.
    pub file: usize,
    /// Whether it asked the kernel to load the range, and did not read it.
    pub advice: bool,
    /// Which thread.
    pub thread: u32,
    /// Which bytes.
    pub range: Range,
    /// When the call began.
    pub began_ns: u64,
    /// When it returned.
    pub ended_ns: u64,
}

/// Something that was asked of the kernel for a file.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Which of the files.
    pub file: usize,
    /// Which bytes.
    pub range: Range,
    /// When.
    pub at_ns: u64,
}

/// That a part of a file came into memory, or left it.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Which of the files.
    pub file: usize,
    /// Which bytes.
    pub range: Range,
    /// Whether any of it is in memory from now on.
    pub is_there: bool,
    /// When that was found.
    pub at_ns: u64,
}

/// All of it. Times are those of `CLOCK_MONOTONIC`.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The files.
    pub files: Vec<Seen>,
    /// What programs did, in the order in which calls returned, about.
    pub accesses: Vec<Accessed>,
    /// What was loaded for them.
    pub loads: Vec<Asked>,
    /// What of the files was in memory, where the kernel says so.
    pub changes: Vec<Change>,
    /// Accesses that are not among them.
    pub lost: u64,
}

/// Ranges that were loaded, by device and inode, until the recording takes them.
#[derive(Default)]
pub(super) struct Loads(Mutex<Vec<Load>>);

/// Device and inode, what was loaded, and when.
type Load = ((u64, u64), Range, u64);

impl Loads {
    /// A plan was carried out for a file.
    pub(super) fn note(&self, identity: (u64, u64), plan: &Plan) {
        let mut loads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = if mutated(Mutant::LoadsForgotten) { 0 } else { MOST_LOADS.saturating_sub(loads.len()) };
        let at_ns = now_ns();
        loads.extend(plan.ranges().take(room).map(|range| (identity, range, at_ns)));
    }
}

/// Who records.
pub(super) struct Recorder {
    recording: Recording,
    by_identity: HashMap<(u64, u64), usize>,
    /// By place in the table and generation.
    by_place: HashMap<(u32, u32), Option<usize>>,
    /// Of each file that is looked at, which parts were in memory at the last look.
    there: HashMap<usize, Vec<bool>>,
    stuck: u32,
}

impl Recorder {
    pub(super) fn new() -> Self {
        Self {
            recording: Recording::default(),
            by_identity: HashMap::new(),
            by_place: HashMap::new(),
            there: HashMap::new(),
            stuck: 0,
        }
    }

    /// Records until it is told to stop: all of it.
    pub(super) fn run(mut self, common: &Common) -> Recording {
        while !common.stop.load(Ordering::SeqCst) {
            self.take(common.table, false);
            let begun = Instant::now();
            self.look(common);
            std::thread::sleep(PAUSE.max(begun.elapsed() * SHARE));
        }
        self.take(common.table, true);
        self.look(common);
        if let Some(loads) = &common.loads {
            for (identity, range, at_ns) in std::mem::take(&mut *loads.0.lock().unwrap_or_else(PoisonError::into_inner))
            {
                if let Some(file) = self.by_identity.get(&identity) {
                    self.recording.loads.push(Asked { file: *file, range, at_ns });
                }
            }
        }
        self.recording.lost = self.recording.lost.saturating_add(common.table.ring.lost());
        self.recording
    }

    /// Takes what is in the ring. `ended`: nobody writes any more.
    fn take(&mut self, table: &Table, ended: bool) {
        let ring: &Ring = &table.ring;
        loop {
            while let Some(record) = ring.take() {
                self.stuck = 0;
                self.hear(table, &record);
            }
            self.stuck += 1;
            if !ended && self.stuck < STUCK_LOOKS || !ring.skip() {
                return;
            }
        }
    }

    fn hear(&mut self, table: &Table, record: &Record) {
        let place = (record.index, record.generation);
        let known = match self.by_place.get(&place) {
            Some(known) => *known,
            None => {
                let found = self.find(table, record);
                self.by_place.insert(place, found);
                found
            }
        };
        let (Some(file), true) = (known, self.recording.accesses.len() < MOST_ACCESSES) else {
            self.recording.lost = self.recording.lost.saturating_add(1);
            return;
        };
        let range = Range {
            start_bytes: record.offset_bytes,
            end_bytes: record.offset_bytes.saturating_add(record.length_bytes),
        };
        let seen = &mut self.recording.files[file];
        seen.accesses += 1;
        // A file may grow while it is read.
        if !mutated(Mutant::SizeStays) {
            seen.bytes = seen.bytes.max(range.end_bytes);
        }
        self.recording.accesses.push(Accessed {
            file,
            advice: record.deed == Deed::Advised,
            thread: record.thread,
            range,
            began_ns: record.began_ns,
            ended_ns: if mutated(Mutant::EndsBeforeItBegins) {
                record.ended_ns
            } else {
                record.ended_ns.max(record.began_ns)
            },
        });
    }

    /// Whose place in the table it is; none where it is another file's by now.
    fn find(&mut self, table: &Table, record: &Record) -> Option<usize> {
        let file = table.file(record.index as usize);
        let (identity, bytes) = (file.identity(), file.file_bytes.load(Ordering::Relaxed));
        let name = table.names.get(record.index as usize).and_then(|name: &Name| name.get(record.generation));
        let name: Vec<u8> = name.into_iter().flatten().collect();
        if file.generation.load(Ordering::Relaxed) != record.generation && !mutated(Mutant::PlaceOfAnother) {
            return None;
        }
        let next = self.recording.files.len();
        let number = *self.by_identity.entry(identity).or_insert(next);
        if number == next {
            let path = PathBuf::from(OsString::from_vec(name));
            self.recording.files.push(Seen { identity, ..Seen::new(path, bytes) });
        }
        Some(number)
    }

    /// Looks what is in memory of the files with most accesses.
    fn look(&mut self, common: &Common) {
        let mut files: Vec<usize> = (0..self.recording.files.len()).collect();
        files.sort_by_key(|file| std::cmp::Reverse(self.recording.files[*file].accesses));
        for file in files.into_iter().take(LOOKED_AT) {
            let Some(now) = self.parts(common, file) else { continue };
            let before = self.there.entry(file).or_default();
            before.resize(now.len(), false);
            let changed: Vec<usize> = (0..now.len()).filter(|part| now[*part] != before[*part]).collect();
            before.clone_from(&now);
            let (bytes, at_ns) = (self.recording.files[file].bytes, now_ns());
            for part in changed {
                if self.recording.changes.len() >= MOST_CHANGES {
                    return;
                }
                let range = part_of(part as u64, bytes);
                self.recording.changes.push(Change { file, range, is_there: now[part], at_ns });
            }
        }
    }

    /// Which parts of a file are in memory, by halves: most of them are as their neighbours are.
    fn parts(&self, common: &Common, file: usize) -> Option<Vec<bool>> {
        let seen = &self.recording.files[file];
        let opened = open::named(&seen.path, seen.identity.0, seen.identity.1)?;
        let pages_of = |from: u64, to: u64| {
            let range = Range {
                start_bytes: part_of(from, seen.bytes).start_bytes,
                end_bytes: part_of(to - 1, seen.bytes).end_bytes,
            };
            let there = common.residency.resident_pages(opened.file.as_fd(), range)?;
            Some(halving::Answer { there, all: range.bytes().div_ceil(PAGE_BYTES) })
        };
        let mut parts = vec![false; PARTS as usize];
        halving::there(PARTS, u64::MAX, pages_of, |from, to| parts[from as usize..to as usize].fill(true))?;
        Some(parts)
    }
}

/// One of a file's parts; of a short file some are empty.
fn part_of(part: u64, bytes: u64) -> Range {
    let edge = |part: u64| (u128::from(bytes) * u128::from(part) / u128::from(PARTS)) as u64;
    Range { start_bytes: edge(part), end_bytes: edge(part + 1) }
}

/// The time, as programs record it.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    pub(crate) fn what_was_loaded_is_kept() {
        let loads = Loads::default();
        let strided = Plan { start_bytes: 0, stride_bytes: 65_536, length_bytes: 4096, count: 3, stream: 0 };
        loads.note((1, 2), &strided);
        loads.note((1, 3), &Plan::contiguous(4096, 8192));
        let noted = loads.0.into_inner().unwrap();
        let found: Vec<_> = noted.iter().map(|(identity, range, _)| (identity.1, range.start_bytes)).collect();
        assert_eq!(found, [(2, 0), (2, 65_536), (2, 131_072), (3, 4096)]);
        assert!(noted.is_sorted_by_key(|(.., at_ns)| *at_ns));
    }

    #[test]
    fn parts_cover_a_file() {
        for bytes in [0, 1, 100, 4096, 1 << 20, u64::MAX] {
            assert_eq!((part_of(0, bytes).start_bytes, part_of(PARTS - 1, bytes).end_bytes), (0, bytes));
            assert!((1..PARTS).all(|part| part_of(part - 1, bytes).end_bytes == part_of(part, bytes).start_bytes));
        }
    }

    #[test]
    pub(crate) fn a_place_that_another_file_has_by_now_is_nobodys() {
        // SAFETY: all zero is an empty table.
        let table = unsafe { Box::<Table>::new_zeroed().assume_init() };
        let (index, generation) = table.place(1, 42, 8192).unwrap();
        table.names[index].set(generation, b"/srv/a");
        let record = Record {
            index: index as u32,
            generation,
            deed: Deed::Read,
            thread: 1,
            offset_bytes: 4096,
            length_bytes: 8192,
            began_ns: 5,
            ended_ns: 4,
        };
        let mut recorder = Recorder::new();
        table.ring.push(&record);
        table.ring.push(&Record { generation: generation + 1, ..record });
        recorder.take(&table, true);
        let Recording { files, accesses, lost, .. } = recorder.recording;
        assert_eq!((files.len(), accesses.len(), lost), (1, 1, 1));
        assert_eq!((files[0].path.as_path(), files[0].bytes), (Path::new("/srv/a"), 12288), "as long as it was read");
        assert_eq!((accesses[0].began_ns, accesses[0].ended_ns), (5, 5));
    }
}
