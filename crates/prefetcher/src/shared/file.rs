//! A file of the table: who it is, its lock, its readers, and what is asked for it.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::Header;
use crate::policies::{Bulk, Limits, Plan, Streams};

/// Requests of one file that may wait.
pub const PENDING: usize = 16;

/// Why something is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Kind {
    /// A reader's next window.
    Stream = 0,
    /// The file was opened, and files are loaded whole.
    Whole = 1,
    /// A range of it was mapped.
    Map = 2,
    /// Reading it at random has cost as much as loading this region of it.
    Pass = 3,
}

/// What a program asks of the executor.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What to load.
    pub plan: Plan,
    /// Who asks.
    pub process: i32,
    /// Its descriptor of the file.
    pub fd: i32,
    /// A [`Kind`] as a number, which the program may have written anything over.
    pub kind: u32,
    /// Which of its threads.
    pub lane: u32,
}

/// What was seen of files.
#[repr(C)]
#[derive(Default)]
pub struct Counts {
    /// Reads.
    pub accesses: AtomicU64,
    /// Bytes read.
    pub accessed_bytes: AtomicU64,
    /// Requests left for the executor.
    pub requests: AtomicU64,
    /// Plans for which there was no room.
    pub dropped: AtomicU64,
    /// Pages of windows that were read, of files that have left the table.
    pub used_pages: AtomicU64,
    /// Pages of windows that were not read.
    pub lost_pages: AtomicU64,
    /// Pages of regions that were loaded, and that were read.
    pub region_pages: AtomicU64,
    /// Pages of them that were read, about.
    pub region_used_pages: AtomicU64,
}

/// What the executor has done.
#[repr(C)]
#[derive(Default)]
pub struct Done {
    /// Windows that were loaded.
    pub plans: AtomicU64,
    /// Bytes of them, and of whole files and mappings.
    pub loaded_bytes: AtomicU64,
    /// Windows that were in memory already.
    pub resident_plans: AtomicU64,
    /// Bytes of them.
    pub resident_bytes: AtomicU64,
    /// Whole files, regions and mappings that were begun.
    pub bulk: AtomicU64,
    /// Requests whose file was gone.
    pub gone: AtomicU64,
    /// Requests for which there was no memory or no room.
    pub refused: AtomicU64,
    /// Windows whose readers came there.
    pub entered: AtomicU64,
    /// Of them, such that were there to their end by then.
    pub in_time: AtomicU64,
    /// Bytes of windows that were gone again when their readers came.
    pub evicted_bytes: AtomicU64,
    /// Bytes that were given up for new ones.
    pub given_up_bytes: AtomicU64,
    /// Bytes that the device read for the executor.
    pub device_bytes: AtomicU64,
}

impl Counts {
    /// Adds to a count that only the holder of the file's lock changes.
    #[inline]
    pub fn bump(count: &AtomicU64, by: u64) {
        count.store(count.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    /// All of them.
    pub fn all(&self) -> [&AtomicU64; 8] {
        [
            &self.accesses,
            &self.accessed_bytes,
            &self.requests,
            &self.dropped,
            &self.used_pages,
            &self.lost_pages,
            &self.region_pages,
            &self.region_used_pages,
        ]
    }
}

/// What the lock protects.
#[repr(C)]
pub struct State {
    /// The readers.
    pub streams: Streams,
    /// What reading it at random has cost.
    pub bulk: Bulk,
    pending: [Request; PENDING],
    count: u32,
    /// What it came to that threads were looked at.
    idle: [Idle; LANES],
}

/// Threads that are told apart; more share an entry. Of several that read the same, the first is served and the others find it done.
const LANES: usize = 8;

/// What looking at a file came to lately. Where it comes to nothing again and again, reads go unseen in between, twice as many
/// each time: a program whose files are in memory, or that reads at random, pays little for being watched.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Idle {
    /// Reads in a row for which nothing can be done: no reader's, or one's that is left to the kernel.
    helpless: u16,
    /// The next rest is of two to this many reads.
    rest: u16,
}

/// Such reads in a row after which one is for a rest.
const HELPLESS_READS: u16 = 128;

/// Reads that are looked at between such rests: a new reader is known after fewer.
const BETWEEN_RESTS: u16 = 16;

/// The longest rest is of two to this many reads: what a reader that begins meanwhile is late by.
const LONGEST_REST: u16 = 8;

impl State {
    fn idle(&mut self, lane: u32) -> &mut Idle {
        &mut self.idle[lane as usize % LANES]
    }

    /// A plan's pages were in memory already.
    pub fn in_vain(&mut self, lane: u32) {
        let idle = self.idle(lane);
        idle.rest = (idle.rest + 1).min(LONGEST_REST);
    }

    /// A plan was worth carrying out.
    pub fn useful(&mut self, lane: u32) {
        *self.idle(lane) = Idle::default();
    }

    /// How many reads of a thread go unseen when it asks.
    pub fn rest(&mut self, lane: u32) -> u32 {
        match self.idle(lane).rest.min(LONGEST_REST) {
            0 => 0,
            power => 1 << power,
        }
    }

    /// A read was looked at of a reader that is served.
    #[inline]
    pub fn served(&mut self, lane: u32) {
        self.idle(lane).helpless = 0;
    }

    /// A read was looked at for which nothing can be done, or another: how many of this thread go unseen after it.
    #[inline]
    pub fn seen(&mut self, lane: u32, helpless: bool) -> u32 {
        if !helpless {
            self.served(lane);
            return 0;
        }
        let idle = self.idle(lane);
        idle.helpless = idle.helpless.saturating_add(1);
        if idle.helpless < HELPLESS_READS {
            return 0;
        }
        idle.helpless = HELPLESS_READS - BETWEEN_RESTS;
        1 << LONGEST_REST
    }

    /// Leaves a request. Whether there was room.
    pub fn push(&mut self, request: Request) -> bool {
        let Some(place) = self.pending.get_mut(self.count as usize) else { return false };
        *place = request;
        self.count += 1;
        true
    }

    /// Whether a request would find no room.
    pub fn is_full(&self) -> bool {
        self.count as usize >= PENDING
    }

    /// The requests, oldest first; they are gone then.
    pub fn take(&mut self) -> impl Iterator<Item = Request> + use<> {
        let pending = self.pending;
        let count = core::mem::take(&mut self.count) as usize;
        (0..count.min(PENDING)).map(move |index| pending[index])
    }
}

/// A file that programs read.
#[repr(C, align(64))]
pub struct File {
    /// Odd while somebody holds the file.
    lock: AtomicU32,
    /// Changes when the place is given to another file.
    pub generation: AtomicU32,
    dev: AtomicU64,
    ino: AtomicU64,
    /// Its size when it was last looked at.
    pub file_bytes: AtomicU64,
    /// When it was last looked at, by the table's clock.
    pub used_at: AtomicU32,
    /// The executor wants nothing to do with it.
    pub refused: AtomicU32,
    /// The kernel's own window on its device; 0 while nobody has looked.
    pub kernel_bytes: AtomicU64,
    /// Its device is known to answer many requests at once.
    pub at_once: AtomicU32,
    /// What was seen of it.
    pub counts: Counts,
    state: UnsafeCell<State>,
}

// SAFETY: the state is reached only by a guard, of which there is one at a time; all else is atomic.
unsafe impl Sync for File {}

/// Holds a file until it is dropped.
pub struct Guard<'a> {
    file: &'a File,
    held: u32,
}

impl File {
    /// Bounds of what may be planned for it, by settings of the table and by its device. `kept`: what a reader leaves behind others will
    /// read.
    pub fn limits(&self, header: &Header, file_bytes: u64, kept: bool) -> Limits {
        let window_bytes = header.window_bytes.load(Ordering::Relaxed);
        Limits {
            file_bytes,
            window_bytes,
            ahead_bytes: header.ahead_bytes.load(Ordering::Relaxed),
            forward: window_bytes > self.kernel_bytes.load(Ordering::Relaxed),
            shared: self.at_once.load(Ordering::Relaxed) != 0
                && Limits::is_shared(header.latency_ns.load(Ordering::Relaxed)),
            kept,
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_>> {
        let free = self.lock.load(Ordering::Relaxed);
        if free & 1 != 0 {
            return None;
        }
        let held = free.wrapping_add(1);
        self.lock.compare_exchange(free, held, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Guard { file: self, held })
    }

    /// Who holds the lock, as a number that is never used again.
    pub fn held(&self) -> Option<u32> {
        Some(self.lock.load(Ordering::Relaxed)).filter(|lock| lock & 1 != 0)
    }

    /// Gives the place up to one who has held the lock since it was `held`, for long: its program was killed, or stopped and may go on. So
    /// nobody else gets this lock; the file is given another place, and this one is free when the lock is.
    pub fn abandon(&self, held: u32) {
        if self.held() == Some(held) {
            self.ino.store(0, Ordering::Relaxed);
            self.dev.store(0, Ordering::Relaxed);
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Brings what its state knows of windows and regions into its counts; `ended`: there will be no more reads.
    pub fn settle(&self, state: &State, ended: bool) {
        let (used, lost) = state.streams.account(ended);
        let (region, region_used) = state.bulk.account(self.file_bytes.load(Ordering::Relaxed));
        let counts = &self.counts;
        for (count, pages) in [
            (&counts.used_pages, used),
            (&counts.lost_pages, lost),
            (&counts.region_pages, region),
            (&counts.region_used_pages, region_used),
        ] {
            count.store(pages, Ordering::Relaxed);
        }
    }

    /// Whether no file has this place.
    pub fn is_free(&self) -> bool {
        self.ino.load(Ordering::Relaxed) == 0
    }

    /// Whether this is that file.
    pub fn is(&self, dev: u64, ino: u64) -> bool {
        self.ino.load(Ordering::Relaxed) == ino && self.dev.load(Ordering::Relaxed) == dev
    }

    /// Its device and inode.
    pub fn identity(&self) -> (u64, u64) {
        (self.dev.load(Ordering::Relaxed), self.ino.load(Ordering::Relaxed))
    }

    /// Gives the place to another file: its generation; none where somebody is busy with it.
    pub(super) fn begin(&self, dev: u64, ino: u64, file_bytes: u64, now: u32, left: &Counts) -> Option<u32> {
        let mut guard = self.try_lock()?;
        self.settle(&guard, true);
        guard.streams = Streams::NEW;
        guard.bulk = Bulk::NEW;
        guard.count = 0;
        guard.idle = [Idle::default(); LANES];
        for (count, left) in self.counts.all().into_iter().zip(left.all()) {
            left.fetch_add(count.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
        self.dev.store(dev, Ordering::Relaxed);
        self.ino.store(ino, Ordering::Relaxed);
        self.file_bytes.store(file_bytes, Ordering::Relaxed);
        self.used_at.store(now, Ordering::Relaxed);
        self.refused.store(0, Ordering::Relaxed);
        self.kernel_bytes.store(0, Ordering::Relaxed);
        self.at_once.store(0, Ordering::Relaxed);
        Some(self.generation.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }
}

impl Deref for Guard<'_> {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        // SAFETY: this guard is the only one.
        unsafe { &*self.file.state.get() }
    }
}

impl DerefMut for Guard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        // SAFETY: this guard is the only one.
        unsafe { &mut *self.file.state.get() }
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.file.lock.store(self.held.wrapping_add(1), Ordering::Release);
    }
}
