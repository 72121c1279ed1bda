//! From a call's registers to what it is to do, and, when it is over, to what it did.

use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crash::files::{Action, Allocation, Data, Durability, FileId, FilePath};
use libc::user_regs_struct;

use super::aio::Submission;
use super::process::{Descriptor, Process, id, read_up_to, resolve};
use super::syscalls::{FICLONE, FICLONERANGE};

/// The files that are looked at, as paths without symbolic links.
pub(super) struct Places {
    pub(super) folder: PathBuf,
    pub(super) acknowledge: Option<PathBuf>,
}

/// What a call is to do.
pub(super) enum CallPlan {
    /// This.
    Known(Action),
    /// It may make the file, or empty one that has bytes.
    Open { path: PathBuf, new: bool, empties: bool, temporary: bool },
    /// It makes this name; which file that is shows when it is there.
    Make { path: PathBuf, what: Make },
    /// Bytes from the process's memory.
    Write { descriptor: i32, file: FileId, at: WriteOffset, data: Data, durability: Option<Durability> },
    /// Bytes that the kernel takes from elsewhere, so many or as many as the call returns.
    Copy { descriptor: i32, file: FileId, at: WriteOffset, len_bytes: Option<u64> },
    /// It may make a mapping of so many bytes at the address that it returns, or change the one at this address.
    Mapping { address: Option<u64>, len_bytes: u64 },
    /// A line for the file of acknowledgements.
    Acknowledge(Vec<u8>),
    /// Requests of Linux AIO.
    Submit(Vec<Submission>),
    /// The ends of such requests, as many as the call returns.
    Reap { events: u64 },
    /// A way of changing files that is not followed.
    Unfollowed(&'static str),
}

/// Where a write goes.
#[derive(Clone, Copy)]
pub(super) enum WriteOffset {
    /// Here.
    At(u64),
    /// Where the file is read and written next; that is here, unless another call moves it.
    Next(u64),
}

/// What is made.
pub(super) enum Make {
    Folder,
    Node,
    File,
    Symlink(FilePath),
}

/// What no two threads may do at the same time, so that the list has their order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Exclusive {
    Names,
    File(FileId),
}

impl CallPlan {
    /// What it must have for itself.
    pub(super) fn exclusive(&self) -> Option<Exclusive> {
        match self {
            Self::Known(
                Action::Rename { .. } | Action::Link { .. } | Action::Unlink { .. } | Action::Truncate { .. },
            )
            | Self::Make { .. }
            | Self::Open { .. } => Some(Exclusive::Names),
            Self::Write { file, at: WriteOffset::Next(_), .. } => Some(Exclusive::File(*file)),
            _ => None,
        }
    }
}

/// `fallocate` modes, linux/falloc.h.
const KEEP_SIZE: u64 = 0x01;
const PUNCH_HOLE: u64 = 0x02;
const COLLAPSE_RANGE: u64 = 0x08;
const ZERO_RANGE: u64 = 0x10;
const INSERT_RANGE: u64 = 0x20;

/// Most pieces of a vectored write (`UIO_MAXIOV`), and most bytes of any write (`MAX_RW_COUNT`).
const PIECES_MAX: u64 = 1024;
const WRITE_BYTES_MAX: u64 = 0x7fff_f000;

impl Places {
    /// What a call is to do, `None` if it concerns no file that is looked at. `room_bytes` is how much may be kept.
    pub(super) fn plan(
        &self,
        process: Process,
        name: &str,
        registers: &user_regs_struct,
        room_bytes: u64,
    ) -> Option<CallPlan> {
        let arguments = [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
        let [a, b, c, d, e, f] = arguments;
        let here = libc::AT_FDCWD;
        let call = At { places: self, process, room_bytes };
        match name {
            "write" => call.write(a, &[(b, c)], None, 0),
            "pwrite64" => call.write(a, &[(b, c)], Some(d), 0),
            "writev" => call.write(a, &call.pieces(b, c), None, 0),
            "pwritev" => call.write(a, &call.pieces(b, c), Some(d), 0),
            // An offset of -1 is the file's own (pwritev2(2)).
            "pwritev2" => call.write(a, &call.pieces(b, c), (d as i64 != -1).then_some(d), f as i32),
            "open" => call.open(here, a, b as i32),
            "creat" => call.open(here, a, libc::O_CREAT | libc::O_TRUNC),
            "openat" => call.open(a as i32, b, c as i32),
            "openat2" => call.open(a as i32, b, process.number(c)? as i32),
            "fsync" => call.file(a).map(|file| CallPlan::Known(Action::Sync { file, data_only: false })),
            "fdatasync" => call.file(a).map(|file| CallPlan::Known(Action::Sync { file, data_only: true })),
            "sync" => Some(CallPlan::Known(Action::SyncAll)),
            "syncfs" => call.file(a).map(|_| CallPlan::Known(Action::SyncAll)),
            "sync_file_range" => call.file(a).map(|file| CallPlan::Known(Action::SyncRange { file })),
            "msync" => {
                // One call over several files is none of those that programs make.
                let mapping = process.shared_mappings(a, b).into_iter().find(|it| self.has(&it.path))?;
                let (file, offset_bytes, len_bytes) = (mapping.file, mapping.offset_bytes, mapping.len_bytes);
                Some(CallPlan::Known(Action::SyncMap { file, offset_bytes, len_bytes }))
            }
            "truncate" => {
                let path = self.below(&resolve(&process.path(here, a)?, true)?)?;
                let file = id(&fs::metadata(self.folder.join(as_path(&path))).ok()?);
                Some(CallPlan::Known(Action::Truncate { file, size_bytes: b }))
            }
            "ftruncate" => call.file(a).map(|file| CallPlan::Known(Action::Truncate { file, size_bytes: b })),
            "fallocate" => {
                let file = call.file(a)?;
                let how = allocation(b);
                Some(CallPlan::Known(Action::Allocate { file, offset_bytes: c, len_bytes: d, how }))
            }
            "rename" => call.rename(here, a, here, b, 0),
            "renameat" => call.rename(a as i32, b, c as i32, d, 0),
            "renameat2" => call.rename(a as i32, b, c as i32, d, e as u32),
            "link" => call.link(here, a, here, b, 0),
            "linkat" => call.link(a as i32, b, c as i32, d, e as i32),
            "symlink" => call.make(here, b, Make::Symlink(call.target(a)?)),
            "symlinkat" => call.make(b as i32, c, Make::Symlink(call.target(a)?)),
            "unlink" | "rmdir" => call.unlink(here, a),
            "unlinkat" => call.unlink(a as i32, b),
            "mkdir" => call.make(here, a, Make::Folder),
            "mkdirat" => call.make(a as i32, b, Make::Folder),
            "mknod" => call.make(here, a, node(b)),
            "mknodat" => call.make(a as i32, b, node(c)),
            "mmap" => call.file(e).map(|_| CallPlan::Mapping { address: None, len_bytes: b }),
            "mprotect" => {
                // Most are of memory without a file; a mapping that was shared before must be one now.
                Some(CallPlan::Mapping { address: Some(a), len_bytes: b })
            }
            "mremap" => Some(CallPlan::Mapping { address: None, len_bytes: c }),
            "copy_file_range" => call.copy(c, (d != 0).then(|| process.number(d)).flatten(), None),
            "splice" => call.copy(c, (d != 0).then(|| process.number(d)).flatten(), None),
            "sendfile" => call.copy(a, None, None),
            "ioctl" if b as u32 == FICLONE => call.clone_range(a, c, 0, 0, 0),
            "ioctl" if b as u32 == FICLONERANGE => {
                // struct file_clone_range: source, its offset, length, offset.
                let number = |at: u64| process.number(c.checked_add(at)?);
                call.clone_range(a, number(0)?, number(8)?, number(16)?, number(24)?)
            }
            "io_uring_setup" => Some(CallPlan::Unfollowed("io_uring")),
            "io_submit" => call.submissions(b, c),
            "io_getevents" | "io_pgetevents" => Some(CallPlan::Reap { events: d }),
            _ => None,
        }
    }

    /// Below the folder that is looked at.
    fn below(&self, path: &Path) -> Option<FilePath> {
        path.strip_prefix(&self.folder).ok().map(|path| FilePath::new(path.as_os_str().as_bytes()))
    }

    fn has(&self, path: &Path) -> bool {
        path.starts_with(&self.folder)
    }

    /// What a call has done that is over; more than one thing only for mappings.
    pub(super) fn done(&self, process: Process, plan: CallPlan, result: Option<i64>, room_bytes: u64) -> Vec<Action> {
        let succeeded = result.is_some_and(|result| result >= 0);
        let returned = u64::try_from(result.unwrap_or(-1)).unwrap_or(0);
        match plan {
            CallPlan::Known(action) => vec![action],
            CallPlan::Open { path, new, empties, temporary } if succeeded => {
                let Some(descriptor) = process.descriptor(returned as i32) else { return Vec::new() };
                let file = descriptor.file();
                if !descriptor.metadata.is_file() {
                    return Vec::new();
                }
                if temporary {
                    return vec![Action::Create { path: None, file }];
                }
                if new {
                    return self
                        .below(&path)
                        .map(|path| Action::Create { path: Some(path), file })
                        .into_iter()
                        .collect();
                }
                if empties { vec![Action::Truncate { file, size_bytes: 0 }] } else { Vec::new() }
            }
            CallPlan::Make { path, what } if succeeded => {
                let Ok(metadata) = fs::symlink_metadata(&path) else { return Vec::new() };
                let (Some(path), file) = (self.below(&path), id(&metadata)) else { return Vec::new() };
                vec![match what {
                    Make::Folder => Action::MakeFolder { path, file },
                    Make::Node => Action::MakeNode { path, file },
                    Make::File => Action::Create { path: Some(path), file },
                    Make::Symlink(target) => Action::Symlink { path, file, target },
                }]
            }
            CallPlan::Write { descriptor, file, at, mut data, durability } => {
                if succeeded {
                    data.truncate(returned);
                }
                let offset_bytes = offset(process, descriptor, at, result);
                vec![Action::Write { file, offset_bytes, data, durability }]
            }
            CallPlan::Copy { descriptor, file, at, len_bytes } => {
                let len_bytes = len_bytes.unwrap_or(returned);
                let offset_bytes = offset(process, descriptor, at, result);
                let data = match (succeeded, len_bytes <= room_bytes) {
                    (true, true) => read_back(process, descriptor, offset_bytes, len_bytes),
                    _ => Data::Unknown(len_bytes),
                };
                vec![Action::Write { file, offset_bytes, data, durability: None }]
            }
            CallPlan::Mapping { address, len_bytes } if succeeded => {
                let mappings = process.shared_mappings(address.unwrap_or(returned), len_bytes);
                let mappings = mappings.into_iter().filter(|it| self.has(&it.path));
                mappings
                    .map(|it| Action::Map { file: it.file, offset_bytes: it.offset_bytes, len_bytes: it.len_bytes })
                    .collect()
            }
            CallPlan::Unfollowed(_) if succeeded => vec![Action::Unfollowed],
            _ => Vec::new(),
        }
    }
}

/// A call that is being made.
pub(super) struct At<'a> {
    places: &'a Places,
    pub(super) process: Process,
    room_bytes: u64,
}

impl At<'_> {
    /// A descriptor of a file that is looked at.
    fn descriptor(&self, descriptor: u64) -> Option<Descriptor> {
        self.process.descriptor(descriptor as i32).filter(|it| self.places.has(&it.path))
    }

    pub(super) fn file(&self, descriptor: u64) -> Option<FileId> {
        self.descriptor(descriptor).map(|it| it.file())
    }

    /// The `iovec`s at an address.
    pub(super) fn pieces(&self, address: u64, count: u64) -> Vec<(u64, u64)> {
        let bytes = self.process.memory(address, (count.min(PIECES_MAX) * 16) as usize);
        let numbers: Vec<u64> =
            bytes.chunks_exact(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap_or_default())).collect();
        numbers.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect()
    }

    pub(super) fn write(
        &self,
        descriptor: u64,
        pieces: &[(u64, u64)],
        offset: Option<u64>,
        flags: i32,
    ) -> Option<CallPlan> {
        let open = self.process.descriptor(descriptor as i32)?;
        if self.places.acknowledge.as_deref() == Some(&open.path) {
            return Some(CallPlan::Acknowledge(self.bytes(pieces, WRITE_BYTES_MAX)?));
        }
        if !self.places.has(&open.path) || !open.metadata.is_file() {
            return None;
        }
        let opened = self.process.opened(descriptor as i32)?;
        let len_bytes = pieces.iter().fold(0_u64, |sum, (_, len)| sum.saturating_add(*len)).min(WRITE_BYTES_MAX);
        let data =
            self.bytes(pieces, self.room_bytes.min(WRITE_BYTES_MAX)).map_or(Data::Unknown(len_bytes), Data::Bytes);
        let durability = durability(opened.flags, flags);
        let appends =
            (opened.flags & libc::O_APPEND != 0 || flags & libc::RWF_APPEND != 0) && flags & RWF_NOAPPEND == 0;
        let at = match offset {
            // pwrite at the end of a file that is open for appending goes to its end, whatever the offset (pwrite(2), "Bugs").
            _ if appends => WriteOffset::Next(open.metadata.len()),
            Some(offset) => WriteOffset::At(offset),
            None => WriteOffset::Next(opened.offset_bytes),
        };
        let at = match (at, offset) {
            // It does not move the file's own offset, by which the place could be seen after.
            (WriteOffset::Next(end), Some(_)) => WriteOffset::At(end),
            (at, _) => at,
        };
        Some(CallPlan::Write { descriptor: descriptor as i32, file: open.file(), at, data, durability })
    }

    /// The bytes of a buffer, `None` if there are more than `max_bytes`.
    fn bytes(&self, pieces: &[(u64, u64)], max_bytes: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for (address, len_bytes) in pieces {
            if bytes.len() as u64 + len_bytes > max_bytes {
                return None;
            }
            let piece = self.process.memory(*address, *len_bytes as usize);
            let is_whole = piece.len() as u64 == *len_bytes;
            bytes.extend(piece);
            // The kernel stops at memory that is not there, too.
            if !is_whole {
                break;
            }
        }
        Some(bytes)
    }

    fn open(&self, folder: i32, path: u64, flags: i32) -> Option<CallPlan> {
        let temporary = flags & libc::O_TMPFILE == libc::O_TMPFILE;
        let follow = flags & libc::O_NOFOLLOW == 0;
        let path = resolve(&self.process.path(folder, path)?, follow)?;
        if !self.places.has(&path) {
            return None;
        }
        if temporary {
            return Some(CallPlan::Open { path, new: true, empties: false, temporary });
        }
        match fs::metadata(&path) {
            // To open a pipe may take until somebody opens its other end: such a call must keep nobody waiting.
            Ok(metadata) if !metadata.is_file() => None,
            Ok(metadata) => {
                let empties = flags & libc::O_TRUNC != 0 && metadata.len() > 0;
                empties.then_some(CallPlan::Open { path, new: false, empties, temporary })
            }
            Err(_) if flags & libc::O_CREAT != 0 => Some(CallPlan::Open { path, new: true, empties: false, temporary }),
            Err(_) => None,
        }
    }

    /// A name itself, not what a symbolic link of this name leads to.
    fn name(&self, folder: i32, path: u64) -> Option<PathBuf> {
        resolve(&self.process.path(folder, path)?, false)
    }

    fn rename(&self, from_folder: i32, from: u64, to_folder: i32, to: u64, flags: u32) -> Option<CallPlan> {
        let (from, to) = (self.name(from_folder, from)?, self.name(to_folder, to)?);
        let exchange = flags & libc::RENAME_EXCHANGE != 0;
        if flags & libc::RENAME_WHITEOUT != 0 && self.places.has(&from) {
            return Some(CallPlan::Unfollowed("renameat2 with RENAME_WHITEOUT"));
        }
        let (from, to) = (self.places.below(&from)?, self.places.below(&to)?);
        Some(CallPlan::Known(Action::Rename { from, to, exchange }))
    }

    fn link(&self, from_folder: i32, from: u64, to_folder: i32, to: u64, flags: i32) -> Option<CallPlan> {
        let path = self.places.below(&self.name(to_folder, to)?)?;
        let file = if flags & libc::AT_EMPTY_PATH != 0 && self.process.path(from_folder, from).is_none() {
            self.file(from_folder as u64)?
        } else {
            let from = self.process.path(from_folder, from)?;
            let follow = flags & libc::AT_SYMLINK_FOLLOW != 0;
            id(&if follow { fs::metadata(from) } else { fs::symlink_metadata(from) }.ok()?)
        };
        Some(CallPlan::Known(Action::Link { file, path }))
    }

    fn unlink(&self, folder: i32, path: u64) -> Option<CallPlan> {
        let path = self.places.below(&self.name(folder, path)?)?;
        Some(CallPlan::Known(Action::Unlink { path }))
    }

    fn make(&self, folder: i32, path: u64, what: Make) -> Option<CallPlan> {
        let path = self.name(folder, path)?;
        self.places.has(&path).then_some(CallPlan::Make { path, what })
    }

    fn target(&self, address: u64) -> Option<FilePath> {
        self.process.path_text(address).map(|target| FilePath::new(target.as_os_str().as_bytes()))
    }

    fn copy(&self, descriptor: u64, offset: Option<u64>, len_bytes: Option<u64>) -> Option<CallPlan> {
        let open = self.descriptor(descriptor).filter(|open| open.metadata.is_file())?;
        let opened = self.process.opened(descriptor as i32)?;
        let at = match offset {
            Some(offset) => WriteOffset::At(offset),
            None if opened.flags & libc::O_APPEND != 0 => WriteOffset::Next(open.metadata.len()),
            None => WriteOffset::Next(opened.offset_bytes),
        };
        Some(CallPlan::Copy { descriptor: descriptor as i32, file: open.file(), at, len_bytes })
    }

    fn clone_range(&self, to: u64, from: u64, from_offset: u64, len_bytes: u64, to_offset: u64) -> Option<CallPlan> {
        let len_bytes = match len_bytes {
            // Up to the source's end.
            0 => self.process.descriptor(from as i32)?.metadata.len().saturating_sub(from_offset),
            len_bytes => len_bytes,
        };
        self.copy(to, Some(to_offset), Some(len_bytes))
    }
}

/// linux/fs.h; libc does not have it everywhere.
const RWF_NOAPPEND: i32 = 0x20;

/// What a write has made durable when it returns.
fn durability(opened: i32, flags: i32) -> Option<Durability> {
    // O_SYNC has the bit of O_DSYNC in it.
    if opened & libc::O_SYNC == libc::O_SYNC || flags & libc::RWF_SYNC != 0 {
        Some(Durability::File)
    } else if opened & libc::O_DSYNC != 0 || flags & libc::RWF_DSYNC != 0 {
        Some(Durability::Data)
    } else {
        None
    }
}

fn allocation(mode: u64) -> Allocation {
    match mode {
        mode if mode & PUNCH_HOLE != 0 => Allocation::PunchHole,
        mode if mode & COLLAPSE_RANGE != 0 => Allocation::Collapse,
        mode if mode & INSERT_RANGE != 0 => Allocation::Insert,
        mode if mode & ZERO_RANGE != 0 && mode & KEEP_SIZE != 0 => Allocation::ZeroRangeKeepSize,
        mode if mode & ZERO_RANGE != 0 => Allocation::ZeroRange,
        mode if mode & KEEP_SIZE != 0 => Allocation::KeepSize,
        _ => Allocation::Extend,
    }
}

fn node(mode: u64) -> Make {
    match mode as u32 & libc::S_IFMT {
        0 | libc::S_IFREG => Make::File,
        _ => Make::Node,
    }
}

/// Where a write went: the file's own offset has moved by as much as it wrote.
fn offset(process: Process, descriptor: i32, at: WriteOffset, result: Option<i64>) -> u64 {
    match at {
        WriteOffset::At(offset) => offset,
        WriteOffset::Next(before) => {
            let written = result.and_then(|result| u64::try_from(result).ok());
            let after = written.and_then(|_| process.opened(descriptor)).map(|opened| opened.offset_bytes);
            after.and_then(|after| after.checked_sub(written?)).unwrap_or(before)
        }
    }
}

/// The bytes that are in a file now.
fn read_back(process: Process, descriptor: i32, offset_bytes: u64, len_bytes: u64) -> Data {
    let path = process.descriptor_path(descriptor);
    // Without a new time of access, which would have to be written.
    let quietly = OpenOptions::new().read(true).custom_flags(libc::O_NOATIME).open(&path);
    let mut bytes = vec![0; len_bytes as usize];
    match quietly.or_else(|_| File::open(&path)).and_then(|file| read_up_to(&file, &mut bytes, offset_bytes)) {
        Ok(read) if read as u64 == len_bytes => Data::Bytes(bytes),
        _ => Data::Unknown(len_bytes),
    }
}

fn as_path(path: &FilePath) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()))
}
