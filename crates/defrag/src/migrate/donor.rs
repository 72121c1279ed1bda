//! The unnamed file whose blocks a file is given.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, FallocateFlags, Mode, OFlags};

use super::copy::lack_of_space;
use super::error::MigrateError;
use super::facts::FileSystem;
use super::ioctl::{flag, set_no_cow};
use super::refusals::Refusal;
use super::segments::{Left, Segment};
use super::target::Target;
use crate::extents::{WriteBack, read_map_range};
use crate::{ByteRange, FreeSpace, KeepFree};

/// What space the file system offers for a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Offer {
    /// In fewer pieces than the segment lies in now, at this offset of the donor.
    Better {
        /// Congruent with the segment's start as to pages.
        offset: u64,
        /// That the room lies in.
        pieces: u64,
    },
    /// Not worth it, or not there.
    Refused(Left),
}

/// File systems ask for the same offset within one.
const PAGE: u64 = 4096;
/// Times that room is asked for, as long as it comes in several pieces.
const ATTEMPTS: u32 = 4;
/// The same on Btrfs, which finds no better the second time, and writes metadata for each of the pieces.
const ATTEMPTS_BTRFS: u32 = 1;

/// Moved away before a commit is worth it where room is there, but in pieces.
const COMMIT_EACH_BYTES: u64 = 16 << 20;

/// Room for a segment.
struct Room {
    /// In the donor.
    offset: u64,
    pieces: u64,
}

/// One file with no name (`O_TMPFILE`) for all segments of a file: a crash leaves none behind, as a file without
/// names is removed by recovery.
///
/// Each segment has a range of its own in it, so that the space follows on from the last one's, and what it gets in
/// exchange is let go of together.
#[derive(Debug)]
pub struct Donor {
    /// Made when room is first asked for.
    file: Option<File>,
    folder: PathBuf,
    device: u64,
    path: PathBuf,
    end: u64,
    keep_bytes: u64,
    keep_free: KeepFree,
    /// Moved away since the last commit that was asked for.
    stale_bytes: u64,
    attempts: u32,
    /// Btrfs: whether the target is without copy-on-write; blocks are shared between files alike in that only.
    no_cow: Option<bool>,
    /// Whether data that the file system was to place itself came to lie worse than the room here; for Btrfs.
    pub(super) crowded: bool,
    /// A single piece that no segment has used yet; for Btrfs.
    held: Option<ByteRange>,
    /// Why there was no room the last time that there was none.
    lack: Left,
}

impl Donor {
    /// For the folder of the file. It lets go of what it holds after `keep_bytes`.
    pub(super) fn beside(target: &Target, keep_bytes: u64, keep_free: KeepFree) -> Self {
        let (folder, path) = (target.folder().to_owned(), target.path().to_owned());
        let device = target.device();
        let is_btrfs = target.facts().system == FileSystem::Btrfs;
        let attempts = if is_btrfs { ATTEMPTS_BTRFS } else { ATTEMPTS };
        let no_cow = is_btrfs.then(|| target.facts().inode_flags & flag::NO_COW != 0);
        Self {
            file: None,
            folder,
            device,
            path,
            end: 0,
            keep_bytes,
            keep_free,
            // Files that were moved before may have left some.
            stale_bytes: COMMIT_EACH_BYTES,
            attempts,
            no_cow,
            crowded: false,
            held: None,
            lack: Left::NoSpace,
        }
    }

    /// Makes it, if it is not there yet; what is missing for that, if so.
    fn make(&mut self) -> Result<Option<Left>, MigrateError> {
        if self.file.is_some() {
            return Ok(None);
        }
        let refused = |why: String| MigrateError::refused(&self.path, Refusal::Donor(why));
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&self.folder, flags, Mode::RUSR | Mode::WUSR);
        if let Some(lack) = lack(opened.as_ref().map(|_| ()).map_err(|errno| *errno)) {
            return Ok(Some(lack));
        }
        let file = File::from(opened.map_err(|errno| refused(io::Error::from(errno).to_string()))?);
        let status = file.metadata().map_err(|error| refused(error.to_string()))?;
        if status.dev() != self.device {
            return Err(refused("its folder is on another file system".to_owned()));
        }
        if let Some(on) = self.no_cow
            && let Err(error) = set_no_cow(&file, on)
        {
            let other = || refused(format!("its copy-on-write cannot be set: {error}"));
            return lack_of_space(&error).map(Some).ok_or_else(other);
        }
        self.file = Some(file);
        Ok(None)
    }

    /// The open file; it is there once room was asked for.
    pub fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "there is no temporary file yet"))
    }

    /// Allocates room for a segment, and says whether it is better than where the segment lies.
    ///
    /// Room in several pieces is held while other room is asked for, and the best is kept: ext4 passes over groups of
    /// blocks whose bitmaps are not in memory yet (`ext4_mb_good_group_nolock`, fs/ext4/mballoc.c), so that soon after a
    /// mount it gives what is scattered although there is better.
    ///
    /// With `sized` the donor's size covers it at once; without, the size follows what is written, as is needed for
    /// a donor that must end where the file ends.
    pub fn offer(&mut self, segment: &Segment, sized: bool) -> Result<Offer, MigrateError> {
        if let Some(lack) = self.make()? {
            return Ok(Offer::Refused(lack));
        }
        // It may be emptied for the new room.
        self.held = None;
        if self.end >= self.keep_bytes {
            self.release()?;
        }
        let mut best = self.best_room(segment, sized)?;
        let is_worth_a_commit = match &best {
            Some(room) => room.pieces > 1 && self.stale_bytes >= COMMIT_EACH_BYTES,
            None => self.stale_bytes > 0,
        };
        if is_worth_a_commit {
            self.release()?;
            self.commit_stale()?;
            best = self.best_room(segment, sized)?;
        }
        let Some(best) = best else {
            self.release()?;
            return Ok(Offer::Refused(self.lack.clone()));
        };
        if best.pieces >= segment.pieces {
            self.release()?;
            return Ok(Offer::Refused(Left::NoBetterSpace { pieces: best.pieces }));
        }
        Ok(Offer::Better { offset: best.offset, pieces: best.pieces })
    }

    /// The best room for a segment that some attempts find; what else they found is free again.
    fn best_room(&mut self, segment: &Segment, sized: bool) -> Result<Option<Room>, MigrateError> {
        let mut best: Option<Room> = None;
        let mut worse = Vec::new();
        // Btrfs looks for a place for each part by itself, and may find worse than for all in one.
        let by_parts = self.no_cow.is_some() && segment.parts.len() > 1;
        for attempt in 0..self.attempts + u32::from(by_parts) {
            let by_parts = by_parts && attempt == 0;
            let Some(room) = self.room(segment, sized, best.is_none(), by_parts)? else { break };
            let is_whole = room.pieces == 1;
            match &mut best {
                Some(best) if best.pieces <= room.pieces => worse.push(room),
                Some(best) => worse.push(std::mem::replace(best, room)),
                None => best = Some(room),
            }
            if is_whole {
                break;
            }
        }
        for room in worse {
            self.free(room.offset, segment.bytes())
                .map_err(MigrateError::system(&self.path, "free room that is not needed"))?;
        }
        Ok(best)
    }

    /// So many bytes were moved away from where they lay.
    pub(super) fn note_stale(&mut self, bytes: u64) {
        self.stale_bytes = self.stale_bytes.saturating_add(bytes);
    }

    /// Has the file system commit, so that what was moved away, and given back, can be used again: ext4 and Btrfs keep it until
    /// then, as a crash would need it.
    pub(super) fn commit_stale(&mut self) -> Result<(), MigrateError> {
        self.stale_bytes = 0;
        if self.make()?.is_some() {
            // There will be no move that could use it.
            return Ok(());
        }
        let file = self.file().map_err(MigrateError::system(&self.path, "open its temporary file"))?;
        rustix::fs::syncfs(file)
            .map_err(|errno| MigrateError::system(&self.path, "synchronise its file system")(errno.into()))
    }

    /// The same for a file system that places the data itself: a single piece that is not used serves the next segment too.
    pub(super) fn hold(&mut self, segment: &Segment) -> Result<Offer, MigrateError> {
        let length = segment.bytes();
        if let Some(held) = self.held
            && held.len() >= length
            && held.start % PAGE == segment.range.start % PAGE
        {
            return Ok(Offer::Better { offset: held.start, pieces: 1 });
        }
        // Both at once would be twice the room.
        self.release()?;
        let offer = self.offer(segment, false)?;
        if let Offer::Better { offset, pieces: 1 } = offer {
            self.held = Some(ByteRange { start: offset, end: offset + length });
        }
        Ok(offer)
    }

    /// Whether `bytes` more leave as much free space as is to be kept.
    pub(super) fn leaves_enough(&self, target: &Target, bytes: u64) -> Result<bool, MigrateError> {
        leaves_enough(target.file(), self.keep_free, bytes)
            .map_err(MigrateError::system(&self.path, "ask for the free space"))
    }

    fn free(&self, offset: u64, length: u64) -> io::Result<()> {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(self.file()?, mode, offset, length)?)
    }

    /// Allocates room for a segment behind what the donor has; `None` if there is none. `first` may take what the donor
    /// holds of earlier segments.
    fn room(
        &mut self,
        segment: &Segment,
        sized: bool,
        first: bool,
        by_parts: bool,
    ) -> Result<Option<Room>, MigrateError> {
        let system = |action| MigrateError::system(&self.path, action);
        let file = self.file().map_err(system("open its temporary file"))?;
        let mode = if sized { FallocateFlags::empty() } else { FallocateFlags::KEEP_SIZE };
        let mut offset = self.end.next_multiple_of(PAGE) + segment.range.start % PAGE;
        let length = segment.bytes();
        if !first && !leaves_enough(file, self.keep_free, length).map_err(system("ask for the free space"))? {
            return Ok(None);
        }
        // The handler of a signal, such as that of Ctrl-C, interrupts it.
        let allocate_one =
            |offset, length| rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, mode, offset, length));
        // On Btrfs an extent that a file refers to in several places counts as shared from then on (`btrfs_is_data_extent_shared`,
        // fs/btrfs/backref.c), and is freed only with the last of them: each side of a hole has one of its own, beside the others.
        let allocate = |offset| match by_parts {
            true => segment.slices(u64::MAX).try_for_each(|part| allocate_one(offset + part.place, part.range.len())),
            false => allocate_one(offset, length),
        };
        let mut done = allocate(offset);
        if lack(done).is_some() && self.end > 0 && first {
            // What it holds may be what is missing.
            file.set_len(0).map_err(system("empty its temporary file"))?;
            offset = segment.range.start % PAGE;
            done = allocate(offset);
        }
        if let Some(lack) = lack(done) {
            let project = lack == Left::NoSpace && is_full_for_project(file, &self.folder, length);
            self.lack = if project { Left::Quota } else { lack };
            return Ok(None);
        }
        done.map_err(|errno| system("allocate room for a copy")(errno.into()))?;
        let range = ByteRange { start: offset, end: offset.saturating_add(length) };
        self.end = range.end;
        Ok(Some(Room { offset, pieces: self.pieces(range)? }))
    }

    /// Pieces that room allocated here lies in.
    fn pieces(&self, range: ByteRange) -> Result<u64, MigrateError> {
        let file = self.file().map_err(MigrateError::system(&self.path, "open its temporary file"))?;
        let map = read_map_range(file, range, u64::MAX, WriteBack::No).map_err(MigrateError::extents(&self.path))?;
        let pieces = map.pieces(range).count() as u64;
        // Nothing at all would be a file system that does not tell.
        Ok(if pieces == 0 { u64::MAX } else { pieces })
    }

    /// Has the journal commit everything up to now: this file's size changes, and is synchronised.
    pub(super) fn commit(&self) -> Result<(), MigrateError> {
        let system = |action| MigrateError::system(&self.path, action);
        let file = self.file().map_err(system("open its temporary file"))?;
        let size = file.metadata().map_err(system("look at its temporary file"))?.len();
        file.set_len(size + 1).map_err(system("change its temporary file"))?;
        file.sync_all().map_err(system("synchronise its temporary file"))
    }

    /// Gives back everything that it holds.
    pub fn release(&mut self) -> Result<(), MigrateError> {
        self.end = 0;
        self.held = None;
        let Some(file) = &self.file else { return Ok(()) };
        file.set_len(0).map_err(MigrateError::system(&self.path, "empty its temporary file"))
    }

    /// Lets the page cache forget what was copied: nobody reads the donor.
    pub fn forget(&self, range: ByteRange) {
        let length = std::num::NonZeroU64::new(range.len());
        if let Some(file) = &self.file {
            let _ = rustix::fs::fadvise(file, range.start, length, Advice::DontNeed);
        }
    }
}

fn leaves_enough(file: &File, keep_free: KeepFree, bytes: u64) -> io::Result<bool> {
    if keep_free == KeepFree::Bytes(0) {
        return Ok(true);
    }
    let space = FreeSpace::of(file)?;
    Ok(space.free_bytes >= keep_free.bytes(space.size_bytes).saturating_add(bytes))
}

/// Whether the quota of the folder's project is what is missing for `bytes`: XFS says of it that the disk is full
/// (`xfs_trans_dqresv`, fs/xfs/xfs_trans_dquot.c). Of a folder that hands its project down the file system tells the quota as
/// its own size (`xfs_fill_statvfs_from_dquot`), of a file it does not.
fn is_full_for_project(file: &File, folder: &Path, bytes: u64) -> bool {
    let folder = File::open(folder).and_then(|folder| FreeSpace::of(&folder));
    match (FreeSpace::of(file), folder) {
        (Ok(all), Ok(project)) => project.size_bytes < all.size_bytes && all.free_bytes >= bytes,
        _ => false,
    }
}

fn lack(done: rustix::io::Result<()>) -> Option<Left> {
    lack_of_space(&done.err()?.into())
}
