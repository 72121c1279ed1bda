//! What runs in the kernel when a page comes into the page cache or leaves it.

use std::os::fd::BorrowedFd;

use observe::bpf::Register::{Frame, R0, R1, R2, R6, R7, R8, R9};
use observe::bpf::{Helper, Program};
use observe::tracefs::Format;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A file, as the tracepoints name it.
#[derive(FromBytes, IntoBytes, Immutable, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(C)]
pub struct Key {
    /// In the kernel's own encoding.
    pub device: u64,
    /// Its number.
    pub inode: u64,
}

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// `mm_filemap_add_to_page_cache`
    Add,
    /// `mm_filemap_delete_from_page_cache`
    Delete,
}

impl Event {
    /// Of the group `filemap`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "mm_filemap_add_to_page_cache",
            Self::Delete => "mm_filemap_delete_from_page_cache",
        }
    }
}

/// Entries of 64 pages that one folio covers at most: of 2^12 pages, which is beyond `MAX_PAGECACHE_ORDER`.
const MOST_ENTRIES: i32 = 64;

/// A folio of 2^6 pages fills an entry.
const ORDER_OF_ENTRY: i32 = 6;

const DEVICE: i16 = -16;
const INODE: i16 = -8;
const MASK: i16 = -24;
const ENTRY: i16 = -32;

/// The program; none where the kernel's record does not say how many pages a folio has.
///
/// In R7 the first page, in R8 the entries that are left, in R9 the file's array, in R6 first the record, then how many entries are done.
pub fn program(event: Event, format: &Format, arrays: BorrowedFd<'_>) -> Option<Vec<u64>> {
    let mut p = Program::default();
    let out = p.label();
    p.copy(R6, R1);
    p.load(R1, R6, format.field("s_dev")?).store(Frame, DEVICE, R1);
    p.load(R1, R6, format.field("i_ino")?).store(Frame, INODE, R1);
    p.set_map(R1, arrays).copy(R2, Frame).add(R2, DEVICE.into()).call(Helper::MapLookup);
    p.jump_if_equal(R0, 0, out).copy(R9, R0);
    p.load(R7, R6, format.field("index")?).load(R8, R6, format.field("order")?);

    let (large, ready) = (p.label(), p.label());
    p.jump_if_at_least(R8, ORDER_OF_ENTRY, large);
    // ((1 << (1 << order)) - 1) << (first page % 64)
    p.set(R1, 1).shift_left_by(R1, R8).set(R2, 1).shift_left_by(R2, R1).add(R2, -1);
    p.copy(R1, R7).and(R1, 63).shift_left_by(R2, R1).store(Frame, MASK, R2);
    p.set(R8, 1).jump(ready);
    p.place(large).set(R1, -1).store(Frame, MASK, R1);
    p.add(R8, -ORDER_OF_ENTRY).set(R1, 1).shift_left_by(R1, R8).copy(R8, R1);

    p.place(ready).shift_right(R7, ORDER_OF_ENTRY).set(R6, 0);
    let again = p.label();
    p.place(again).store_word(Frame, ENTRY, R7).copy(R1, R9).copy(R2, Frame).add(R2, ENTRY.into());
    p.call(Helper::MapLookup).jump_if_equal(R0, 0, out);
    p.fetch(R1, Frame, MASK);
    match event {
        Event::Add => p.atomic_or(R0, 0, R1),
        Event::Delete => p.copy(R2, R1).exclusive_or(R2, -1).atomic_and(R0, 0, R2),
    };
    p.atomic_or(R0, 8, R1);
    p.add(R7, 1).add(R8, -1).add(R6, 1).jump_if_equal(R8, 0, out);
    p.jump_if_at_least(R6, MOST_ENTRIES, out).jump(again);
    p.place(out).exit();
    p.finish()
}
