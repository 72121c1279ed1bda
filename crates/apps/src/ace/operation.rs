//! What a step of a workload does.

use std::fmt;

use super::space::{CONTENTS, FILE_BYTES, FILES, FOLDERS, RANGE_BYTES, SOURCES, parent};

/// How bytes get into a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write {
    /// `pwrite`.
    Buffered,
    /// `pwrite` with `O_DIRECT`.
    Direct,
    /// Stores into a shared mapping, and `msync`.
    Mapped,
}

/// The modes of `fallocate`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// Mode 0.
    Extend,
    /// `FALLOC_FL_KEEP_SIZE`.
    KeepSize,
    /// `FALLOC_FL_PUNCH_HOLE`.
    PunchHole,
    /// `FALLOC_FL_ZERO_RANGE`.
    ZeroRange,
    /// `FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE`.
    ZeroRangeKeepSize,
}

/// One operation. Names are relative to the workload's folder; offsets and sizes are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A new empty file.
    Create(&'static str),
    /// A new folder.
    MakeFolder(&'static str),
    /// [`RANGE_BYTES`] are written at the offset.
    Write(&'static str, Write, u64),
    /// Space of [`RANGE_BYTES`] from the offset on.
    Allocate(&'static str, Allocation, u64),
    /// The file gets this size.
    Truncate(&'static str, u64),
    /// A second name.
    Link(&'static str, &'static str),
    /// A symbolic link to the first, with the second name.
    Symlink(&'static str, &'static str),
    /// Another name, of a file or a folder; what has it is replaced.
    Rename(&'static str, &'static str),
    /// A name less.
    Unlink(&'static str),
    /// An empty folder less.
    RemoveFolder(&'static str),
    /// `user.plumb` is set.
    SetAttribute(&'static str),
    /// `user.plumb` is removed.
    RemoveAttribute(&'static str),
}

/// What makes it durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persist {
    /// `fsync` of a file or folder; the empty name is the workload's folder.
    Fsync(&'static str),
    /// `fdatasync` of a file.
    Fdatasync(&'static str),
    /// `sync`.
    Sync,
}

impl Operation {
    /// Every operation within the bounds, in an order that never changes.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        all.extend(FILES.map(Self::Create));
        all.extend(FOLDERS.map(Self::MakeFolder));
        // Over the start, over the end, at the end, behind a gap; whole blocks for O_DIRECT.
        let end = FILE_BYTES;
        let aligned_end = FILE_BYTES.next_multiple_of(RANGE_BYTES);
        for file in CONTENTS {
            all.extend([0, end - 50, end, end + 8192].map(|offset| Self::Write(file, Write::Buffered, offset)));
            all.extend(
                [0, aligned_end - 4096, aligned_end + 4096].map(|offset| Self::Write(file, Write::Direct, offset)),
            );
            all.extend([0, 8192].map(|offset| Self::Write(file, Write::Mapped, offset)));
            for how in [Allocation::Extend, Allocation::KeepSize, Allocation::ZeroRange, Allocation::ZeroRangeKeepSize]
            {
                all.extend([4096, end - 50, aligned_end + 4_194_304].map(|offset| Self::Allocate(file, how, offset)));
            }
            all.extend([4096, 2048, end - 50].map(|offset| Self::Allocate(file, Allocation::PunchHole, offset)));
            all.extend([0, 4096, end - 50, end + 10_000].map(|size| Self::Truncate(file, size)));
            all.extend([Self::SetAttribute(file), Self::RemoveAttribute(file)]);
        }
        for from in SOURCES {
            for to in FILES.into_iter().filter(|to| *to != from) {
                all.extend([Self::Link(from, to), Self::Rename(from, to)]);
            }
        }
        all.extend([Self::Symlink("foo", "bar"), Self::Symlink("A/foo", "B/foo")]);
        all.extend([("A", "B"), ("A/C", "B"), ("B", "A/C")].map(|(from, to)| Self::Rename(from, to)));
        all.extend(["foo", "A/foo", "A/C/foo"].map(Self::Unlink));
        all.extend(["B", "A/C"].map(Self::RemoveFolder));
        all
    }

    /// The files and folders that it is about, as they are called after it.
    pub fn names(self) -> Vec<&'static str> {
        match self {
            Self::Create(name)
            | Self::MakeFolder(name)
            | Self::Write(name, ..)
            | Self::Allocate(name, ..)
            | Self::Truncate(name, _)
            | Self::SetAttribute(name)
            | Self::RemoveAttribute(name) => vec![name],
            Self::Link(from, to) => vec![from, to],
            Self::Symlink(_, to) | Self::Rename(_, to) => vec![to],
            Self::Unlink(_) | Self::RemoveFolder(_) => Vec::new(),
        }
    }

    /// The persistence points that may follow it: each name, each folder that it changed, everything.
    pub fn persistence_points(self) -> Vec<Persist> {
        let mut points = Vec::new();
        let mut add = |point| {
            if !points.contains(&point) {
                points.push(point);
            }
        };
        for name in self.names() {
            if !matches!(self, Self::Symlink(..)) {
                add(Persist::Fsync(name));
            }
        }
        if let Self::Write(name, ..) | Self::Allocate(name, ..) | Self::Truncate(name, _) = self {
            add(Persist::Fdatasync(name));
        }
        for folder in self.folders() {
            add(Persist::Fsync(folder));
        }
        add(Persist::Sync);
        points
    }

    /// The folders whose names it changes.
    fn folders(self) -> Vec<&'static str> {
        match self {
            Self::Create(name) | Self::MakeFolder(name) | Self::Unlink(name) | Self::RemoveFolder(name) => {
                vec![parent(name)]
            }
            Self::Link(_, to) | Self::Symlink(_, to) => vec![parent(to)],
            Self::Rename(from, to) => vec![parent(to), parent(from)],
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(name) => write!(f, "creat {name}"),
            Self::MakeFolder(name) => write!(f, "mkdir {name}"),
            Self::Write(name, how, offset) => {
                let how = match how {
                    Write::Buffered => "write",
                    Write::Direct => "direct-write",
                    Write::Mapped => "mmap-write",
                };
                write!(f, "{how} {name} {offset}+{RANGE_BYTES}")
            }
            Self::Allocate(name, how, offset) => {
                let how = match how {
                    Allocation::Extend => "falloc",
                    Allocation::KeepSize => "falloc-keep-size",
                    Allocation::PunchHole => "punch-hole",
                    Allocation::ZeroRange => "zero-range",
                    Allocation::ZeroRangeKeepSize => "zero-range-keep-size",
                };
                write!(f, "{how} {name} {offset}+{RANGE_BYTES}")
            }
            Self::Truncate(name, size) => write!(f, "truncate {name} {size}"),
            Self::Link(from, to) => write!(f, "link {from} {to}"),
            Self::Symlink(from, to) => write!(f, "symlink {from} {to}"),
            Self::Rename(from, to) => write!(f, "rename {from} {to}"),
            Self::Unlink(name) => write!(f, "unlink {name}"),
            Self::RemoveFolder(name) => write!(f, "rmdir {name}"),
            Self::SetAttribute(name) => write!(f, "setxattr {name}"),
            Self::RemoveAttribute(name) => write!(f, "removexattr {name}"),
        }
    }
}

impl fmt::Display for Persist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fsync("") => f.write_str("fsync ."),
            Self::Fsync(name) => write!(f, "fsync {name}"),
            Self::Fdatasync(name) => write!(f, "fdatasync {name}"),
            Self::Sync => f.write_str("sync"),
        }
    }
}
