//! The tracepoints that say what is read and written, for the sources that use them.
//!
//! One line of the table is one tracepoint. Adding one is adding a line.

use super::recorder::RawKind;
use crate::{ByteRange, IoKind};

/// In what a tracepoint counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Pages of the page cache.
    Pages,
}

/// How a tracepoint says where the range ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// One unit.
    One,
    /// The field has the last unit.
    Last(&'static str),
    /// The field has the number of units.
    Count(&'static str),
    /// The field, if the kernel's record has it, has the number's logarithm to base two; one unit otherwise.
    Order(&'static str),
}

/// What a tracepoint says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Says {
    /// An access.
    Access(RawKind),
    /// A direct access, read or write, that the thread now begins: it counts once the thread goes on with it.
    DirectBegins,
    /// The thread goes on with a direct access: if it is the one that it began last, from its first unit on, that one is
    /// a write if [`DIRECT_WRITE`] is set in this field, and a read otherwise.
    DirectGoesOn(&'static str),
}

/// One tracepoint: the names of its record's fields.
#[derive(Clone, Copy, Debug)]
pub struct Tracepoint {
    /// Its folder.
    pub group: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub says: Says,
    /// A field and the bits of it that all have to be set for the event to count.
    pub required: Option<(&'static str, u32)>,
    /// The superblock's device, in the kernel's own encoding.
    pub device: &'static str,
    /// The inode's number.
    pub inode: &'static str,
    /// The range's first unit.
    pub start: &'static str,
    /// Its end.
    pub extent: Extent,
    /// What is counted.
    pub unit: Unit,
    /// Group and name of the tracepoint that says it better: this one is used where that is missing.
    pub instead_of: Option<(&'static str, &'static str)>,
}

/// `IOMAP_WRITE` of the kernel's `include/linux/iomap.h`.
pub const DIRECT_WRITE: u32 = 1;
/// `IOMAP_DIRECT`.
const DIRECT: u32 = 1 << 4;

const fn page_cache(group: &'static str, name: &'static str, kind: RawKind, extent: Extent) -> Tracepoint {
    let (device, inode, start, unit) = ("s_dev", "i_ino", "index", Unit::Pages);
    Tracepoint {
        group,
        name,
        says: Says::Access(kind),
        required: None,
        device,
        inode,
        start,
        extent,
        unit,
        instead_of: None,
    }
}

const fn write(group: &'static str, name: &'static str, start: &'static str, count: &'static str) -> Tracepoint {
    let says = Says::Access(RawKind::Io(IoKind::BufferedWrite));
    let (device, inode, unit, extent) = ("dev", "ino", Unit::Bytes, Extent::Count(count));
    Tracepoint { group, name, says, required: None, device, inode, start, extent, unit, instead_of: None }
}

const fn direct(name: &'static str, says: Says, extent: Extent, required: Option<(&'static str, u32)>) -> Tracepoint {
    let (group, device, inode, start, unit) = ("iomap", "dev", "ino", "pos", Unit::Bytes);
    Tracepoint { group, name, says, required, device, inode, start, extent, unit, instead_of: None }
}

const ADDED: Tracepoint = Tracepoint {
    instead_of: Some(("readahead", "page_cache_ra_unbounded")),
    ..page_cache("filemap", "mm_filemap_add_to_page_cache", RawKind::PagesAdded, Extent::Order("order"))
};

/// All of them. Btrfs has no tracepoint for buffered writes (and writes data with checksums
/// through the page cache even where direct writes were asked for); its writes go to new
/// places anyway, so that there is nothing to be gained for them.
pub const TRACEPOINTS: [Tracepoint; 11] = [
    // Every buffered read, cached or not, also by io_uring, splice and sendfile (mm/filemap.c).
    page_cache("filemap", "mm_filemap_get_pages", RawKind::PagesRead, Extent::Last("last_index")),
    // Faults in mappings: of a page that is not mapped, and of pages mapped around one.
    page_cache("filemap", "mm_filemap_fault", RawKind::Io(IoKind::Mapped), Extent::One),
    page_cache("filemap", "mm_filemap_map_pages", RawKind::Io(IoKind::Mapped), Extent::Last("last_index")),
    // What readahead asks the file system for (mm/readahead.c).
    page_cache("readahead", "page_cache_ra_order", RawKind::Io(IoKind::Readahead), Extent::Count("size")),
    page_cache("readahead", "page_cache_ra_unbounded", RawKind::ReadaheadPages, Extent::Count("nr_to_read")),
    // Kernels before 6.18 do not tell what readahead asks for, those before 6.11 no buffered read either, but
    // all tell each folio that is put into the page cache to be filled (mm/filemap.c).
    ADDED,
    // Every direct read and write of file systems on iomap: ext4, XFS, Btrfs, f2fs (fs/iomap/direct-io.c).
    // What is begun may come to nothing, and is then begun again or goes through the page cache.
    direct("iomap_dio_rw_begin", Says::DirectBegins, Extent::Count("count"), None),
    // The event above does not say which of them it is. The same thread comes here next, from the same position
    // on (`__iomap_dio_rw`, fs/iomap/direct-io.c; `iomap_iter`, fs/iomap/iter.c).
    direct("iomap_iter", Says::DirectGoesOn("flags"), Extent::One, Some(("flags", DIRECT))),
    write("ext4", "ext4_da_write_begin", "pos", "len"),
    write("ext4", "ext4_write_begin", "pos", "len"),
    write("xfs", "xfs_file_buffered_write", "offset", "count"),
];

impl Tracepoint {
    /// Whether it is to be used on a kernel of which `has` says what tracepoints there are, by group and name.
    pub fn is_wanted<E>(&self, has: impl FnOnce(&str, &str) -> Result<bool, E>) -> Result<bool, E> {
        self.instead_of.map_or(Ok(true), |(group, name)| Ok(!has(group, name)?))
    }

    /// The range of a record with this first unit and, where `extent` names a field, this
    /// value of it; `None` for one that cannot be.
    pub fn range(&self, start: u64, extent: u64) -> Option<ByteRange> {
        let end = match self.extent {
            Extent::One => start.checked_add(1)?,
            Extent::Last(_) => extent.checked_add(1)?,
            Extent::Count(_) => start.checked_add(extent)?,
            Extent::Order(_) => start.checked_add(1_u64.checked_shl(u32::try_from(extent).ok()?)?)?,
        };
        let bytes = |value: u64| match self.unit {
            Unit::Bytes => Some(value),
            Unit::Pages => value.checked_mul(rustix::param::page_size() as u64),
        };
        let range = ByteRange { start: bytes(start)?, end: bytes(end)? };
        // Positions are signed in the kernel: what is greater was negative.
        (!range.is_empty() && i64::try_from(range.end).is_ok()).then_some(range)
    }
}

impl Tracepoint {
    /// The access that a record says, with these first unit and extent; of a direct access that goes on, those that it was
    /// begun with, and whether it is a write.
    pub fn access(&self, start: u64, extent: u64, is_written: bool) -> Option<(RawKind, ByteRange)> {
        match self.says {
            Says::Access(kind) => Some((kind, self.range(start, extent)?)),
            Says::DirectBegins => None,
            Says::DirectGoesOn(_) => {
                let kind = if is_written { IoKind::DirectWrite } else { IoKind::DirectRead };
                let counted = Self { extent: Extent::Count(""), ..*self };
                Some((RawKind::Io(kind), counted.range(start, extent)?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_in_bytes() {
        let ends = |kind: Extent, unit| {
            let mut point = TRACEPOINTS[0];
            (point.extent, point.unit) = (kind, unit);
            point.range(2, 3).map(|range| (range.start, range.end))
        };
        assert_eq!(ends(Extent::One, Unit::Pages), Some((8192, 12_288)));
        assert_eq!(ends(Extent::Last(""), Unit::Pages), Some((8192, 16_384)));
        assert_eq!(ends(Extent::Count(""), Unit::Bytes), Some((2, 5)));
        assert_eq!(ends(Extent::Order(""), Unit::Pages), Some((8192, 40_960)));
        assert_eq!(ADDED.range(0, 64), None);
        assert_eq!(TRACEPOINTS[0].range(5, 4), None);
        assert_eq!(TRACEPOINTS[0].range(u64::MAX, u64::MAX), None);
        assert_eq!(TRACEPOINTS[6].range(u64::MAX, 4096), None);
    }
}
