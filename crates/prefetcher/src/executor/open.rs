//! The file that a request is for.
//!
//! A description of the executor's own, and not a copy of the program's descriptor: locks of flock(2) belong to the
//! description, and would outlast the program's close by the time that a copy is held. It is closed again when the request is
//! done, so that nothing keeps a file system busy or a deleted file's blocks.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use prefetch::Range;
use rustix::fs::{FileType, Mode, OFlags};

use crate::mutants::{Mutant, mutated};
use crate::policies::{PAGE_BYTES, Plan};
use crate::shared::{Kind, Request};

/// An open file.
pub struct Opened {
    /// For reading.
    pub file: OwnedFd,
    /// Its size.
    pub bytes: u64,
}

/// Opens the file behind a program's descriptor, if it still is the file that the request is for. That of a mapping is found
/// by its name where the descriptor is closed by now: most programs close it at once.
pub fn open(request: &Request, dev: u64, ino: u64) -> Option<Opened> {
    let by_number = named(Path::new(&format!("/proc/{}/fd/{}", request.process, request.fd)), dev, ino);
    if by_number.is_some() || request.kind != Kind::Map as u32 {
        return by_number;
    }
    let maps = std::fs::read(format!("/proc/{}/maps", request.process)).ok()?;
    named(mapped(&maps, ino)?, dev, ino)
}

/// The file of this name, if it is that file.
pub fn named(path: &Path, dev: u64, ino: u64) -> Option<Opened> {
    // First without opening it: behind the name may be a pipe or a device by now.
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let status = rustix::fs::fstat(&place).ok()?;
    let is_it = (status.st_dev, status.st_ino) == (dev, ino) || mutated(Mutant::AnyFile);
    if !is_it || FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return None;
    }
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    Some(Opened { file, bytes: u64::try_from(status.st_size).ok()? })
}

/// The name of the file of this inode among a process's mappings: `address perms offset dev inode path` of proc_pid_maps(5).
fn mapped(maps: &[u8], ino: u64) -> Option<&Path> {
    let ino = ino.to_string();
    maps.split(|byte| *byte == b'\n').find_map(|line| {
        let mut words = line.splitn(6, |byte| *byte == b' ');
        let found = words.nth(4)? == ino.as_bytes();
        let path = words.next()?.trim_ascii_start();
        (found && path.starts_with(b"/")).then(|| Path::new(OsStr::from_bytes(path)))
    })
}

/// Whether the last page of a range can be read without waiting.
pub fn is_readable(file: &OwnedFd, range: Range) -> bool {
    let mut byte = [0_u8; 1];
    let mut buffers = [std::io::IoSliceMut::new(&mut byte)];
    let flags = rustix::io::ReadWriteFlags::NOWAIT;
    rustix::io::preadv2(file, &mut buffers, range.end_bytes.saturating_sub(PAGE_BYTES), flags).is_ok()
}

/// A plan as far as it lies within the file, whatever a program has written there.
pub fn within(plan: Plan, file_bytes: u64) -> Plan {
    let end = file_bytes.next_multiple_of(PAGE_BYTES);
    let fits = |start: u64| {
        start.checked_add(plan.length_bytes).is_some_and(|past| past <= end || mutated(Mutant::PlanBeyondEnd))
    };
    let count = plan.ranges().take_while(|range| plan.length_bytes > 0 && fits(range.start_bytes)).count();
    if count == 0 && plan.count > 0 && plan.start_bytes < end {
        // The file became shorter: what is left of the first range.
        return Plan { length_bytes: plan.length_bytes.min(end - plan.start_bytes), count: 1, ..plan };
    }
    Plan { count: count as u32, ..plan }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_plan_leads_out_of_the_file(
            start_bytes: u64, stride_bytes: i64, length_bytes: u64, count: u32, file_bytes in 0..1_u64 << 40,
        ) {
            let plan = within(Plan { start_bytes, stride_bytes, length_bytes, count, stream: 0 }, file_bytes);
            for range in plan.ranges() {
                prop_assert!(range.start_bytes <= range.end_bytes);
                prop_assert!(range.end_bytes <= file_bytes.next_multiple_of(PAGE_BYTES));
            }
        }
    }

    #[test]
    pub(crate) fn a_plan_ends_with_its_file() {
        let plan = Plan { start_bytes: 4096, stride_bytes: 16_384, length_bytes: 8192, count: 4, stream: 7 };
        let ends = |file_bytes: u64| within(plan, file_bytes).ranges().last().map(|range| range.end_bytes);
        assert_eq!(
            [61_440, 61_439, 40_000, 10_000].map(ends),
            [Some(61_440), Some(61_440), Some(28_672), Some(12_288)]
        );
        assert_eq!(within(plan, 4097), Plan { length_bytes: 4096, count: 1, ..plan }, "it became shorter");
        assert_eq!(ends(4096), None);
    }

    #[test]
    fn a_mapping_is_found_by_its_inode() {
        let maps = b"55-56 r--p 00000000 fe:00 123 /usr/bin/cat\n7f-80 r--p 0 fe:00 45                         /a b/c\n8-9 rw-p 0 00:00 0 \n";
        assert_eq!(mapped(maps, 45), Some(Path::new("/a b/c")));
        assert_eq!((mapped(maps, 0), mapped(maps, 4), mapped(b"", 1)), (None, None, None));
        let own = std::fs::read("/proc/self/maps").unwrap();
        let program = std::env::current_exe().unwrap();
        let ino = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&program).unwrap());
        assert_eq!(mapped(&own, ino), Some(program.as_path()));
    }

    #[test]
    pub(crate) fn another_file_behind_the_number_is_refused() {
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::tempfile().unwrap();
        let metadata = file.metadata().unwrap();
        let plan = Plan::contiguous(0, 4096);
        let mut request = Request { plan, process: std::process::id() as i32, fd: file.as_raw_fd(), kind: 0, lane: 0 };
        assert!(open(&request, metadata.dev(), metadata.ino()).is_some());
        assert!(open(&request, metadata.dev(), metadata.ino() + 1).is_none());
        request.fd = 1_000_000;
        assert!(open(&request, metadata.dev(), metadata.ino()).is_none());
    }
}
