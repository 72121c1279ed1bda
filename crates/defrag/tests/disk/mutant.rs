//! Ways of moving that lose data, which must be found out.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use defrag::migrate::{Facts, Files, Migrate, MigrateError, Offer, Opening, Pace, Progress, Refusal, Segment};
use rustix::fs::FallocateFlags;

use super::move_extents::move_extents;

/// Moves a segment, and says how many bytes it wrote.
type Move = fn(&mut Files<'_>, &Segment) -> Result<u64, MigrateError>;

/// A way of moving that refuses nothing.
pub struct Mutant {
    name: &'static str,
    opening: Opening,
    moves: Move,
}

/// Reads, punches a hole, allocates again, and writes back: a crash in between leaves zeros, and what somebody writes in
/// between is lost.
pub const PUNCH_AND_REWRITE: Mutant =
    Mutant { name: "punch and rewrite", opening: Opening::Write, moves: punch_and_rewrite };

/// `F2FS_IOC_DEFRAGMENT` whoever has the file open: what another program synchronises meanwhile is not written.
pub const BARE_F2FS: Mutant =
    Mutant { name: "F2FS_IOC_DEFRAGMENT without a lease", opening: Opening::Read, moves: bare_f2fs };

/// `F2FS_IOC_DEFRAGMENT` of a file that nobody else has open, and no checkpoint after it: another program's `fsync` is the
/// first to write the map of the new places, which may last before the data does.
pub const HASTY_F2FS: Mutant =
    Mutant { name: "F2FS_IOC_DEFRAGMENT without a checkpoint", opening: Opening::Read, moves: hasty_f2fs };

/// `EXT4_IOC_MOVE_EXT` whoever has the file open, and no commit after it: what another program synchronises then is
/// taken back by a crash.
pub const BARE_EXT4: Mutant =
    Mutant { name: "EXT4_IOC_MOVE_EXT without a lease", opening: Opening::Write, moves: bare_ext4 };

/// `EXT4_IOC_MOVE_EXT` of a file that nobody else has open, a segment in one call: on a slow device it outlasts the lease.
pub const LONG_EXT4: Mutant =
    Mutant { name: "EXT4_IOC_MOVE_EXT in one call", opening: Opening::Write, moves: long_ext4 };

/// A copy whose blocks the file is given, whatever it holds by then (`FICLONERANGE` in place of `FIDEDUPERANGE`): what is written in
/// between is lost.
pub const CLONED_COPY: Mutant = Mutant { name: "FICLONERANGE of a copy", opening: Opening::Write, moves: cloned_copy };

/// `EXT4_IOC_MOVE_EXT` of parts between holes, all by the same room, and a commit at the end: what the first part left there, and a
/// crash would need, the next is written to.
pub const ONE_ROOM_EXT4: Mutant =
    Mutant { name: "EXT4_IOC_MOVE_EXT by one room", opening: Opening::Write, moves: one_room_ext4 };

impl Migrate for Mutant {
    fn name(&self) -> &'static str {
        self.name
    }

    fn check(&self, _facts: &Facts) -> Option<Result<(), Refusal>> {
        Some(Ok(()))
    }

    fn opening(&self) -> Opening {
        self.opening
    }

    fn migrate(
        &self,
        files: &mut Files<'_>,
        segment: &Segment,
        _pace: &mut dyn Pace,
    ) -> Result<Progress, MigrateError> {
        Ok(Progress { written_bytes: (self.moves)(files, segment)?, left: None })
    }
}

fn punch_and_rewrite(files: &mut Files<'_>, segment: &Segment) -> Result<u64, MigrateError> {
    let file = files.target.file();
    let (start, length) = (segment.range.start, segment.range.len());
    let mut data = vec![0; length as usize];
    file.read_exact_at(&mut data, start).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(file, punch, start, length).unwrap();
    rustix::fs::fallocate(file, FallocateFlags::empty(), start, length).unwrap();
    // Others have their chance, as they had in the tool's loop.
    thread::sleep(Duration::from_millis(5));
    file.write_all_at(&data, start).unwrap();
    Ok(length)
}

fn cloned_copy(files: &mut Files<'_>, segment: &Segment) -> Result<u64, MigrateError> {
    let Offer::Better { offset, .. } = files.donor.offer(segment, false)? else { return Ok(0) };
    let (file, donor) = (files.target.file(), files.donor.file().unwrap());
    for part in segment.slices(u64::MAX) {
        let mut data = vec![0; part.range.len() as usize];
        file.read_exact_at(&mut data, part.range.start).unwrap();
        donor.write_all_at(&data, offset + part.place).unwrap();
    }
    donor.sync_data().unwrap();
    // Others have their chance.
    thread::sleep(Duration::from_millis(5));
    for part in segment.slices(u64::MAX) {
        clone_range(donor, offset + part.place, part.range.len(), file, part.range.start);
    }
    files.donor.release()?;
    Ok(segment.bytes())
}

fn clone_range(donor: &File, from: u64, length: u64, file: &File, to: u64) {
    // `struct file_clone_range` and `FICLONERANGE` of include/uapi/linux/fs.h.
    let range = [donor.as_raw_fd() as u64, from, length, to];
    let request: libc::Ioctl = 0x4020_940d_u32 as libc::Ioctl;
    // SAFETY: the call reads four numbers of 64 bits, which outlive it; both files are open.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), request, range.as_ptr()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn one_room_ext4(files: &mut Files<'_>, segment: &Segment) -> Result<u64, MigrateError> {
    let Offer::Better { offset, .. } = files.donor.offer(segment, true)? else { return Ok(0) };
    let (file, donor) = (files.target.file(), files.donor.file().unwrap());
    let moved = leased(file, || {
        for part in &segment.parts {
            move_extents(file, donor, part.start / 4096, offset / 4096, part.len() / 4096).unwrap();
            // As writeback does in its time.
            written_out(file);
        }
        committed(donor);
        segment.bytes()
    });
    Ok(moved.unwrap_or(0))
}

/// Has ext4 commit its journal.
fn committed(donor: &File) {
    donor.set_len(donor.metadata().unwrap().len() + 1).unwrap();
    donor.sync_all().unwrap();
}

fn bare_f2fs(files: &mut Files<'_>, segment: &Segment) -> Result<u64, MigrateError> {
    // Others have their chance, as on a machine with more than one processor.
    thread::sleep(Duration::from_millis(1));
    Ok(f2fs_defragment(files.target.file(), segment))
}

fn hasty_f2fs(files: &mut Files<'_>, segment: &Segment) -> Result<u64, MigrateError> {
    let file = files.target.file();
    let moved = leased(file, || {
        written_out(file);
        let moved = f2fs_defragment(file, segment);
        written_out(file);
        moved
    });
    Ok(moved.unwrap_or(0))
}

/// Does something while nobody else has the file, if that can be.
fn leased<T>(file: &File, work: impl FnOnce() -> T) -> Option<T> {
    /// `F_SETSIG` of include/uapi/asm-generic/fcntl.h.
    const F_SETSIG: libc::c_int = 10;
    // SAFETY: these calls take numbers only.
    let control =
        |command: libc::c_int, argument: libc::c_int| unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    // Whoever waits for the lease is told by a signal that does nothing.
    assert_eq!(control(F_SETSIG, libc::SIGURG), 0);
    for _ in 0..50 {
        if control(libc::F_SETLEASE, libc::c_int::from(libc::F_WRLCK)) == 0 {
            let done = work();
            // It fails if the kernel has broken it.
            control(libc::F_SETLEASE, libc::c_int::from(libc::F_UNLCK));
            return Some(done);
        }
        thread::sleep(Duration::from_micros(100));
    }
    None
}

fn long_ext4(files: &mut Files<'_>, segment: &Segment) -> Result<u64, MigrateError> {
    let Offer::Better { offset, .. } = files.donor.offer(segment, true)? else { return Ok(0) };
    let (file, donor) = (files.target.file(), files.donor.file().unwrap());
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let (start, blocks) = (segment.range.start / 4096, segment.range.len() / 4096);
    let moved = leased(file, || {
        let moved = move_extents(file, donor, start, offset / 4096, blocks);
        committed(donor);
        moved.unwrap_or(0) * 4096
    });
    Ok(moved.unwrap_or(0))
}

/// Gives the device everything of the file that is dirty, and waits for it.
fn written_out(file: &File) {
    let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the call takes numbers only.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, all) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn f2fs_defragment(file: &File, segment: &Segment) -> u64 {
    // `struct f2fs_defragment` of include/uapi/linux/f2fs.h.
    let mut range = [segment.range.start, segment.range.len().next_multiple_of(4096)];
    let request: libc::Ioctl = 0xc010_f508_u32 as libc::Ioctl;
    // SAFETY: the call reads and writes two numbers of 64 bits, which outlive it.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), request, range.as_mut_ptr()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    range[1]
}

fn bare_ext4(files: &mut Files<'_>, segment: &Segment) -> Result<u64, MigrateError> {
    let Offer::Better { offset, .. } = files.donor.offer(segment, true)? else { return Ok(0) };
    let donor = files.donor.file().unwrap();
    let (start, blocks) = (segment.range.start / 4096, segment.range.len() / 4096);
    for _ in 0..16 {
        if move_extents(files.target.file(), donor, start, offset / 4096, blocks).is_ok() {
            return Ok(segment.range.len());
        }
        // A dirty page.
        files.target.file().sync_data().unwrap();
    }
    Ok(0)
}
