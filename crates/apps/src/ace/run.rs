//! Runs workloads on real files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, OFlags, XattrFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use super::operation::{Allocation, Operation, Persist, Write};
use super::space::{FILE_BYTES, RANGE_BYTES};
use super::workload::{Prepared, Workload, needed};

const ATTRIBUTE: &str = "user.plumb";

/// What came of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All of it was done.
    Done,
    /// The file system does not know an operation (`EOPNOTSUPP`): what came before it was done.
    NotSupported,
}

/// A workload that could not be run.
#[derive(Debug, thiserror::Error)]
#[error("workload {workload}: {step}: {error}")]
pub struct RunError {
    /// Its line.
    pub workload: String,
    /// What was being done.
    pub step: String,
    /// What the system said.
    pub error: io::Error,
}

/// Runs a workload in a new folder below `place`, and removes what it left.
///
/// # Errors
/// Where a call fails; what was made by then stays.
pub fn run(workload: &Workload, place: &Path) -> Result<Outcome, RunError> {
    let failed = |step: String| move |error: io::Error| RunError { workload: workload.to_string(), step, error };
    let folder = place.join(format!("w{:06}", workload.number));
    prepare(workload, &folder).map_err(failed("before the first operation".to_owned()))?;
    let mut outcome = Outcome::Done;
    for (number, (operation, persist)) in (1_u8..).zip(&workload.steps) {
        match apply(*operation, &folder, b'0'.wrapping_add(number)) {
            Ok(()) => {}
            Err(error) if Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP) => {
                outcome = Outcome::NotSupported;
                break;
            }
            Err(error) => return Err(failed(operation.to_string())(error)),
        }
        if let Some(persist) = persist {
            make_durable(*persist, &folder).map_err(failed(persist.to_string()))?;
        }
    }
    fs::remove_dir_all(&folder).map_err(failed("removing its folder".to_owned()))?;
    rustix::fs::sync();
    Ok(outcome)
}

fn prepare(workload: &Workload, folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    for (name, is_folder) in needed(&workload.steps).unwrap_or_default() {
        let path = folder.join(name);
        if is_folder {
            fs::create_dir(&path)?;
            continue;
        }
        // Other bytes in each file.
        let fill = name.bytes().fold(b'a', |sum, byte| b'a' + sum.wrapping_mul(3).wrapping_add(byte) % 26);
        fs::write(&path, vec![fill; FILE_BYTES as usize])?;
        if workload.steps.iter().any(|(operation, _)| matches!(operation, Operation::RemoveAttribute(_))) {
            rustix::fs::setxattr(&path, ATTRIBUTE, b"before", XattrFlags::empty())?;
        }
    }
    if workload.prepared == Prepared::Synced {
        rustix::fs::sync();
    }
    Ok(())
}

fn apply(operation: Operation, folder: &Path, fill: u8) -> io::Result<()> {
    let path = |name: &str| folder.join(name);
    let open = |name: &str, flags: OFlags| {
        OpenOptions::new().read(true).write(true).custom_flags(flags.bits().cast_signed()).open(path(name))
    };
    match operation {
        Operation::Create(name) => File::create_new(path(name)).map(drop),
        Operation::MakeFolder(name) => fs::create_dir(path(name)),
        Operation::Write(name, Write::Buffered, offset) => {
            open(name, OFlags::empty())?.write_all_at(&[fill; RANGE_BYTES as usize], offset)
        }
        Operation::Write(name, Write::Direct, offset) => {
            let mut buffer = vec![fill; 2 * RANGE_BYTES as usize];
            let skew = buffer.as_ptr().align_offset(RANGE_BYTES as usize);
            let bytes = buffer.get_mut(skew..skew + RANGE_BYTES as usize).unwrap_or_default();
            open(name, OFlags::DIRECT)?.write_all_at(bytes, offset)
        }
        Operation::Write(name, Write::Mapped, offset) => store(&open(name, OFlags::empty())?, offset, fill),
        Operation::Allocate(name, how, offset) => {
            let flags = match how {
                Allocation::Extend => FallocateFlags::empty(),
                Allocation::KeepSize => FallocateFlags::KEEP_SIZE,
                Allocation::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                Allocation::ZeroRange => FallocateFlags::ZERO_RANGE,
                Allocation::ZeroRangeKeepSize => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
            };
            Ok(rustix::fs::fallocate(open(name, OFlags::empty())?, flags, offset, RANGE_BYTES)?)
        }
        Operation::Truncate(name, size) => open(name, OFlags::empty())?.set_len(size),
        Operation::Link(from, to) => fs::hard_link(path(from), path(to)),
        Operation::Symlink(from, to) => std::os::unix::fs::symlink(path(from), path(to)),
        Operation::Rename(from, to) => fs::rename(path(from), path(to)),
        Operation::Unlink(name) => fs::remove_file(path(name)),
        Operation::RemoveFolder(name) => fs::remove_dir(path(name)),
        Operation::SetAttribute(name) => {
            Ok(rustix::fs::setxattr(path(name), ATTRIBUTE, b"value", XattrFlags::empty())?)
        }
        Operation::RemoveAttribute(name) => match rustix::fs::removexattr(path(name), ATTRIBUTE) {
            // An operation before this one may have replaced the file.
            Err(Errno::NODATA) => Ok(()),
            done => Ok(done?),
        },
    }
}

/// Stores through a shared mapping of one range, and has it written.
fn store(file: &File, offset: u64, fill: u8) -> io::Result<()> {
    let length = RANGE_BYTES as usize;
    if file.metadata()?.len() < offset + RANGE_BYTES {
        file.set_len(offset + RANGE_BYTES)?;
    }
    // SAFETY: a new mapping of `length` bytes that lie in the file, at an address of the kernel's choice; nothing else uses it, it
    // is written within its bounds, and unmapped once, after its last use.
    unsafe {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let address = rustix::mm::mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, file, offset)?;
        address.cast::<u8>().write_bytes(fill, length);
        let written = rustix::mm::msync(address, length, MsyncFlags::SYNC);
        rustix::mm::munmap(address, length)?;
        Ok(written?)
    }
}

fn make_durable(persist: Persist, folder: &Path) -> io::Result<()> {
    match persist {
        Persist::Fsync(name) => File::open(folder.join(name))?.sync_all(),
        Persist::Fdatasync(name) => File::open(folder.join(name))?.sync_data(),
        Persist::Sync => {
            rustix::fs::sync();
            Ok(())
        }
    }
}
