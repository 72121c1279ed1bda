//! From the accesses of a trace to the windows of each file: FragPicker's analysis phase.
//!
//! Source: SOSP '21, section 4.1, and the behaviour of the published artifact. Three steps, a file each:
//! [`readahead`] makes requests of accesses, [`merge`] makes windows of requests, [`hottest`] keeps some.
//!
//! What the artifact does wrong is done right here, and nothing else is changed:
//!
//! - positions have 64 bits, where the artifact's wrap at 4 GiB;
//! - an unaligned end is rounded up to a block, where the artifact's formula adds the remainder;
//! - a read is sequential if it begins at the very byte where the last one ended, where the artifact compares
//!   rounded addresses and so never takes unaligned reads for sequential;
//! - a buffered write is never taken for a sequential read;
//! - no window reaches beyond the end of the file, where the artifact's make the file grow;
//! - a file is a device, an inode and its generation, where the artifact has the inode's number alone;
//! - windows that readahead was seen to send are taken as they are, where the artifact assumes 128 KiB.

mod hotness;
mod merge;
mod readahead;
mod window;

pub use hotness::{Hotness, ParseHotnessError, hottest};
pub use merge::merge;
pub use readahead::{READAHEAD_BYTES, readahead};
pub use window::{Touch, Window};

use crate::Access;

/// The windows of one file of `size_bytes`, out of its accesses in the order in which they happened.
///
/// `readahead_bytes` is used where the trace has no windows of the readahead itself.
pub fn windows(accesses: &[Access], size_bytes: u64, readahead_bytes: u64) -> Vec<Window> {
    merge(readahead(accesses, size_bytes, readahead_bytes))
}
