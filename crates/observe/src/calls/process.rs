//! What `/proc` knows of a thread that stands still.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crash::files::FileId;

use super::ptrace::Tid;

/// Longest path that the kernel takes.
const PATH_BYTES_MAX: usize = 4096;

/// A thread.
#[derive(Clone, Copy)]
pub(super) struct Process(pub(super) Tid);

/// What a descriptor is open on.
pub(super) struct Descriptor {
    /// As the kernel names it: with ` (deleted)` behind it where no name is left.
    pub(super) path: PathBuf,
    pub(super) metadata: Metadata,
}

impl Descriptor {
    pub(super) fn file(&self) -> FileId {
        id(&self.metadata)
    }
}

/// How a file is open.
pub(super) struct Opened {
    pub(super) offset_bytes: u64,
    pub(super) flags: i32,
}

/// A piece of a shared mapping that the process can write to.
pub(super) struct Mapping {
    pub(super) path: PathBuf,
    pub(super) file: FileId,
    pub(super) offset_bytes: u64,
    pub(super) len_bytes: u64,
}

/// Of a file.
pub(super) fn id(metadata: &Metadata) -> FileId {
    FileId { device: metadata.dev(), inode: metadata.ino() }
}

impl Process {
    fn at(self, what: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{what}", self.0))
    }

    /// The number of its process, by which its memory is known.
    pub(super) fn group(self) -> i32 {
        let text = fs::read_to_string(self.at("status")).unwrap_or_default();
        let group = text.lines().find_map(|line| line.strip_prefix("Tgid:"));
        group.and_then(|group| group.trim().parse().ok()).unwrap_or(self.0)
    }

    /// The name of the program that it runs.
    pub(super) fn program(self) -> String {
        let name = fs::read(self.at("comm")).unwrap_or_default();
        String::from_utf8_lossy(&name).trim_end().to_owned()
    }

    /// A file of its own by which its descriptor can be opened.
    pub(super) fn descriptor_path(self, descriptor: i32) -> PathBuf {
        self.at(&format!("fd/{descriptor}"))
    }

    pub(super) fn descriptor(self, descriptor: i32) -> Option<Descriptor> {
        let place = self.descriptor_path(descriptor);
        let path = fs::read_link(&place).ok()?;
        // Pipes, sockets and the like have no path, and need no second look.
        path.is_absolute().then(|| fs::metadata(&place).ok().map(|metadata| Descriptor { path, metadata })).flatten()
    }

    pub(super) fn opened(self, descriptor: i32) -> Option<Opened> {
        let text = fs::read_to_string(self.at(&format!("fdinfo/{descriptor}"))).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Some(Opened {
            offset_bytes: field("pos:")?.parse().ok()?,
            flags: i32::from_str_radix(field("flags:")?, 8).ok()?,
        })
    }

    /// Bytes of its memory, as many as can be read of `len`.
    pub(super) fn memory(self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let read = File::open(self.at("mem")).and_then(|memory| read_up_to(&memory, &mut bytes, address));
        bytes.truncate(read.unwrap_or(0));
        bytes
    }

    /// A number of its memory.
    pub(super) fn number(self, address: u64) -> Option<u64> {
        self.memory(address, 8).try_into().ok().map(u64::from_ne_bytes)
    }

    fn text(self, address: u64) -> Option<Vec<u8>> {
        let mut bytes = self.memory(address, PATH_BYTES_MAX);
        let end = bytes.iter().position(|byte| *byte == 0)?;
        bytes.truncate(end);
        Some(bytes)
    }

    /// The text at an address, as it stands.
    pub(super) fn path_text(self, address: u64) -> Option<PathBuf> {
        self.text(address).map(|bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes)))
    }

    /// The path at an address, relative to the folder `folder` (or to the working folder), from the root on as this process can
    /// use it; symbolic links are not followed yet.
    pub(super) fn path(self, folder: i32, address: u64) -> Option<PathBuf> {
        let path = self.path_text(address)?;
        if path.as_os_str().is_empty() {
            return None;
        }
        if let Ok(own) = path.strip_prefix("/proc/self") {
            return Some(self.at("").join(own));
        }
        if let Ok(own) = path.strip_prefix("/proc/thread-self") {
            return Some(self.at("").join(own));
        }
        if let Ok(below) = path.strip_prefix("/") {
            let root = fs::read_link(self.at("root")).ok()?;
            return Some(root.join(below));
        }
        let base = if folder == libc::AT_FDCWD { self.at("cwd") } else { self.descriptor_path(folder) };
        Some(fs::read_link(base).ok()?.join(path))
    }

    /// Its writable shared mappings of files in a range of its memory.
    pub(super) fn shared_mappings(self, address: u64, len_bytes: u64) -> Vec<Mapping> {
        let text = fs::read(self.at("maps")).unwrap_or_default();
        let end = address.saturating_add(len_bytes);
        text.split(|byte| *byte == b'\n').filter_map(|line| mapping(line, address, end)).collect()
    }
}

/// A line of `/proc/PID/maps`, cut to the range.
fn mapping(line: &[u8], from: u64, to: u64) -> Option<Mapping> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut field = || fields.next().and_then(|field| std::str::from_utf8(field).ok());
    let (start, end) = field()?.split_once('-')?;
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
    let permissions = field()?.as_bytes();
    if permissions.get(1) != Some(&b'w') || permissions.get(3) != Some(&b's') || start >= to || end <= from {
        return None;
    }
    let offset_bytes = hexadecimal(field()?)?;
    let (_device, _inode) = (field()?, field()?);
    let path = PathBuf::from(OsStr::from_bytes(fields.next()?.trim_ascii_start()));
    // The device of this line is not the one that stat has on Btrfs; the file itself is asked where it has a name.
    let file = fs::metadata(&path).ok().map(|metadata| id(&metadata))?;
    let first = start.max(from);
    Some(Mapping { path, file, offset_bytes: offset_bytes + (first - start), len_bytes: end.min(to) - first })
}

/// A path without symbolic links; the last name is followed only where `follow` says so. It need not exist.
pub(super) fn resolve(path: &Path, follow: bool) -> Option<PathBuf> {
    if follow && let Ok(whole) = fs::canonicalize(path) {
        return Some(whole);
    }
    // As `..` at the end has no name, the path is followed whole.
    let Some(name) = path.file_name() else { return fs::canonicalize(path).ok() };
    fs::canonicalize(path.parent()?).ok().map(|folder| folder.join(name))
}

/// Bytes of a file, up to its end.
pub(super) fn read_up_to(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
