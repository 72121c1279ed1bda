//! The files that are followed, for whom, and when that ends.
//!
//! A file is kept open without being opened (`O_PATH`): its number cannot become another file's while programs in the kernel keep its
//! bits. It is followed no more when nobody is left who asked for it, when it has lost its last name, and when it has another owner: who
//! asked as its owner may not know it any more.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use observe::bpf::Array;
use rustix::fs::{Mode, OFlags};

use crate::residency::bits::WORDS;
use crate::residency::bpf::{FILES, Key, Tracker, entries, key_of};

/// A caller, as long as he is connected.
pub type Caller = u64;

/// Entries of all arrays, 16 bytes each, and of those for which one user asked first: 256 MiB and 64 MiB.
const MOST_ENTRIES: u64 = 16 << 20;
const MOST_OF_USER: u64 = 4 << 20;

/// One of them.
struct Followed {
    array: Array<WORDS>,
    entries: u32,
    place: OwnedFd,
    owner: u32,
    /// Who asked first: his arrays are bounded.
    user: u32,
    callers: BTreeSet<Caller>,
}

/// All of them.
pub struct Files {
    tracker: Tracker,
    files: BTreeMap<Key, Followed>,
}

impl Files {
    /// None yet.
    pub fn new(tracker: Tracker) -> Self {
        Self { tracker, files: BTreeMap::new() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// The array of a file, of so many entries, for a caller who may have it. One that has become too short for its file is made anew.
    ///
    /// # Errors
    /// Where the file cannot be followed, or there are too many.
    pub fn follow(&mut self, caller: Caller, user: u32, file: BorrowedFd<'_>) -> io::Result<(BorrowedFd<'_>, u32)> {
        let (key, bytes) = key_of(file)?;
        if !self.files.contains_key(&key) {
            // Large files of nothing but holes cost their owner nothing, and their arrays memory of the kernel.
            let taken = |of: &dyn Fn(&Followed) -> bool| {
                self.files.values().filter(|one| of(one)).map(|one| u64::from(one.entries)).sum::<u64>()
            };
            let (of_all, of_user) = (taken(&|_| true), taken(&|one| one.user == user));
            let wanted = entries(bytes);
            if self.files.len() >= FILES as usize || of_all + wanted > MOST_ENTRIES || of_user + wanted > MOST_OF_USER {
                return Err(io::Error::other("too many or too large files are followed"));
            }
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let place = rustix::fs::open(format!("/proc/self/fd/{}", file.as_raw_fd()), flags, Mode::empty())?;
            let owner = rustix::fs::fstat(&place)?.st_uid;
            let (key, array, entries) = self.tracker.follow(place.as_fd())?;
            self.files.insert(key, Followed { array, entries, place, owner, user, callers: BTreeSet::new() });
        }
        let followed = self.files.get_mut(&key).ok_or(io::ErrorKind::NotFound)?;
        followed.callers.insert(caller);
        Ok((followed.array.as_fd(), followed.entries))
    }

    /// A caller has gone.
    pub fn gone(&mut self, caller: Caller) {
        let tracker = &self.tracker;
        self.files.retain(|key, followed| {
            followed.callers.remove(&caller);
            let is_wanted = !followed.callers.is_empty();
            if !is_wanted {
                tracker.forget(*key);
            }
            is_wanted
        });
    }

    /// Lets go of files that are nobody's, or somebody else's, by now: the callers who are to be told by the end of their connection.
    pub fn look(&mut self) -> BTreeSet<Caller> {
        let tracker = &self.tracker;
        let mut told = BTreeSet::new();
        self.files.retain(|key, followed| {
            let about = rustix::fs::fstat(&followed.place);
            let stays = about.is_ok_and(|about| about.st_nlink > 0 && about.st_uid == followed.owner);
            if !stays {
                tracker.forget(*key);
                told.append(&mut followed.callers);
            }
            stays
        });
        told
    }
}
