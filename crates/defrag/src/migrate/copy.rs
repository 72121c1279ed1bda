//! Copying into the donor, and what errors mean.

use std::io;
use std::os::unix::fs::FileExt;

use super::Files;
use super::segments::Left;
use crate::ByteRange;

/// Copied in one read and write.
const CHUNK_BYTES: usize = 1 << 20;

/// Copies `range` of the target to `offset` of the donor; `false` if the target has become shorter.
pub(super) fn copy(files: &Files<'_>, range: ByteRange, offset: u64) -> io::Result<bool> {
    let mut buffer = vec![0; CHUNK_BYTES.min(usize::try_from(range.len()).unwrap_or(CHUNK_BYTES))];
    let mut at = range.start;
    while at < range.end {
        let wanted = usize::try_from(range.end - at).unwrap_or(CHUNK_BYTES).min(buffer.len());
        let Some(chunk) = buffer.get_mut(..wanted) else { break };
        let read = match files.target.file().read_at(chunk, at) {
            Ok(0) => return Ok(false),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        files.donor.file()?.write_all_at(chunk.get(..read).unwrap_or_default(), offset + (at - range.start))?;
        at += read as u64;
    }
    Ok(true)
}

/// What is missing where there is no room, if that is what the error says.
pub(super) fn lack_of_space(error: &io::Error) -> Option<Left> {
    match error.raw_os_error()? {
        libc::ENOSPC | libc::EFBIG => Some(Left::NoSpace),
        libc::EDQUOT => Some(Left::Quota),
        _ => None,
    }
}

/// What the kernel says by these numbers is that it does not do this to this file, now or later.
pub(super) fn unsupported(error: &io::Error) -> Option<Left> {
    let numbers = [libc::EOPNOTSUPP, libc::ENOTTY, libc::EINVAL, libc::EPERM, libc::EACCES, libc::ETXTBSY, libc::EROFS];
    let number = error.raw_os_error()?;
    numbers.contains(&number).then(|| Left::Unsupported(error.to_string()))
}
