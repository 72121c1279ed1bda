//! fanotify_init(2) and fanotify_mark(2), and the events as fanotify(7) lays them out.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `linux/fanotify.h` of Linux 6.14 and later.
const FAN_PRE_ACCESS: u64 = 0x0010_0000;
const FAN_EVENT_INFO_TYPE_RANGE: u8 = 6;
const METADATA_BYTES: usize = 24;
const RANGE_BYTES: usize = 24;

/// What a mark covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// The file itself.
    Inode,
    /// All of the mount on which it lies.
    Mount,
}

/// A group for events that come before the contents are used; reading it does not wait.
pub fn init() -> io::Result<File> {
    let flags = libc::FAN_CLASS_PRE_CONTENT | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_UNLIMITED_MARKS;
    let file_flags = libc::O_RDONLY | libc::O_LARGEFILE | libc::O_CLOEXEC;
    // SAFETY: both arguments are numbers.
    let result = unsafe { libc::fanotify_init(flags, file_flags as u32) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor, and nobody else has it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(result) }))
}

/// Asks for the accesses to `path`.
pub fn mark(group: &File, path: &Path, mark: Mark) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let flags = libc::FAN_MARK_ADD
        | match mark {
            Mark::Inode => libc::FAN_MARK_INODE,
            Mark::Mount => libc::FAN_MARK_MOUNT,
        };
    // SAFETY: `name` is a string with its end and outlives the call.
    let result =
        unsafe { libc::fanotify_mark(group.as_raw_fd(), flags, FAN_PRE_ACCESS, libc::AT_FDCWD, name.as_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// One event. As long as it is not answered the program that caused it waits.
#[derive(Debug)]
pub struct Event {
    /// The file.
    pub file: File,
    /// The process.
    pub process: u32,
    /// Offset and length, if it has them.
    pub range: Option<(u64, u64)>,
}

impl Event {
    /// The answer that lets the program go on.
    pub fn allowed(&self) -> [u8; 8] {
        let mut answer = [0; 8];
        let (descriptor, response) = answer.split_at_mut(4);
        descriptor.copy_from_slice(&self.file.as_raw_fd().to_ne_bytes());
        response.copy_from_slice(&libc::FAN_ALLOW.to_ne_bytes());
        answer
    }
}

/// The events in what a read of the group gave: all of it, exactly once, since each event
/// holds an open file. Events without a file (a full queue) are counted in the second value.
pub fn events(mut bytes: &[u8]) -> (Vec<Event>, u64) {
    let (mut events, mut without) = (Vec::new(), 0);
    while let Some(event) = metadata(bytes) {
        let info = bytes.get(event.metadata_length..event.length).unwrap_or_default();
        if event.descriptor >= 0 {
            // SAFETY: the kernel opened this file for the event, and the bytes come from a read
            // of the group and are gone through only here, once.
            let file = File::from(unsafe { OwnedFd::from_raw_fd(event.descriptor) });
            events.push(Event { file, process: event.process, range: range(info) });
        } else {
            without += 1;
        }
        bytes = bytes.get(event.length..).unwrap_or_default();
    }
    (events, without)
}

struct Metadata {
    length: usize,
    metadata_length: usize,
    descriptor: i32,
    process: u32,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// `struct fanotify_event_metadata`
fn metadata(bytes: &[u8]) -> Option<Metadata> {
    let length = word(bytes, 0)? as usize;
    let metadata_length = usize::from(u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?));
    let descriptor = word(bytes, 16)?.cast_signed();
    let is_whole = (METADATA_BYTES..=length).contains(&metadata_length) && length <= bytes.len();
    is_whole.then_some(Metadata { length, metadata_length, descriptor, process: word(bytes, 20)? })
}

/// Offset and count of the `struct fanotify_event_info_range` among the records.
fn range(mut records: &[u8]) -> Option<(u64, u64)> {
    loop {
        let kind = *records.first()?;
        let length = usize::from(u16::from_ne_bytes(records.get(2..4)?.try_into().ok()?));
        if kind == FAN_EVENT_INFO_TYPE_RANGE && length >= RANGE_BYTES {
            return Some((long(records, 8)?, long(records, 16)?));
        }
        records = records.get(length.max(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// Without a descriptor in it, so that no file of the test is closed.
        #[test]
        fn any_records_are_taken(bytes: Vec<u8>, length in 0u32..80) {
            range(&bytes);
            let mut event = length.to_ne_bytes().to_vec();
            event.extend([3, 0, 24, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
            event.extend(&bytes);
            let (events, _) = events_of(&event);
            proptest::prop_assert_eq!(events, usize::from(length >= 24 && length as usize <= event.len()));
        }
    }

    /// How many events there are at the beginning, none of which has a file.
    fn events_of(bytes: &[u8]) -> (usize, u64) {
        (usize::from(metadata(bytes).is_some()), 0)
    }

    #[test]
    fn a_range_is_found_behind_other_records() {
        let mut records = vec![4, 0, 8, 0, 1, 2, 3, 4];
        records.extend([6, 0, 24, 0, 0, 0, 0, 0]);
        records.extend(4096_u64.to_ne_bytes());
        records.extend(512_u64.to_ne_bytes());
        assert_eq!(range(&records), Some((4096, 512)));
        assert_eq!(range(&records[..8]), None);
    }
}
