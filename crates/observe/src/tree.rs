//! All files below a folder, read.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crash::files::{Contents, Entry, FILE_BLOCK_BYTES, FileId, FilePath, Found, Node};
use rustix::fs::SeekFrom;
use thiserror::Error;
use walkdir::WalkDir;

/// Why files cannot be read.
#[derive(Debug, Error)]
pub enum TreeError {
    /// One of them.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder itself, or a way to a file.
    #[error("cannot read files: {0}")]
    Walk(#[from] walkdir::Error),
    /// Too much to be kept.
    #[error("the files below {folder} have more than {bytes_max} bytes")]
    TooLarge {
        /// Where.
        folder: PathBuf,
        /// How many may be kept.
        bytes_max: u64,
    },
}

/// Reads the names, sizes and bytes of all files below `folder`, on its own file system and its subvolumes. Holes cost nothing;
/// `bytes_max` is the most that is read. Of what are not the first `whole_bytes_max` bytes besides zeroes, digests are kept.
///
/// # Errors
///
/// If anything cannot be read: what a recovered file system does not give back is no smaller loss than what is not there, but
/// another one.
pub fn read_tree(folder: &Path, bytes_max: u64, whole_bytes_max: u64) -> Result<Found, TreeError> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |source| TreeError::Read { path, source }
    };
    let metadata = folder.metadata().map_err(fail(folder))?;
    let mut found = Found::new(id(&metadata));
    let mut room = Room { bytes: bytes_max, whole_bytes: whole_bytes_max };
    for entry in WalkDir::new(folder).min_depth(1).sort_by_file_name() {
        let entry = entry?;
        let path = entry.path();
        let metadata = entry.metadata()?;
        let kind = metadata.file_type();
        let node = if kind.is_file() {
            let contents = contents(path, metadata.size(), &mut room).map_err(fail(path))?;
            Node::File(contents.ok_or_else(|| TreeError::TooLarge { folder: folder.to_owned(), bytes_max })?)
        } else if kind.is_dir() {
            Node::Folder
        } else if kind.is_symlink() {
            let target = path.read_link().map_err(fail(path))?;
            Node::Symlink(FilePath::new(target.as_os_str().as_bytes()))
        } else {
            Node::Other
        };
        let below = path.strip_prefix(folder).unwrap_or(path);
        found.insert(FilePath::new(below.as_os_str().as_bytes()), Entry { file: id(&metadata), node });
    }
    Ok(found)
}

fn id(metadata: &std::fs::Metadata) -> FileId {
    FileId { device: metadata.dev(), inode: metadata.ino() }
}

/// How much more is read, and how much of it kept as it is.
struct Room {
    bytes: u64,
    whole_bytes: u64,
}

/// Read at once, at most.
const PIECE_BYTES: u64 = 256 * FILE_BLOCK_BYTES;

/// A file's bytes, `None` if they are more than there is room for.
fn contents(path: &Path, size_bytes: u64, room: &mut Room) -> io::Result<Option<Contents>> {
    let mut contents = Contents::zeroes(size_bytes);
    if size_bytes == 0 {
        return Ok(Some(contents));
    }
    let file = File::open(path)?;
    let mut buffer = vec![0; PIECE_BYTES.min(size_bytes) as usize];
    let mut at = 0;
    while at < size_bytes {
        at = match rustix::fs::seek(&file, SeekFrom::Data(at)) {
            Ok(data) => data,
            // Only a hole is left.
            Err(rustix::io::Errno::NXIO) => break,
            // It does not know its holes.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => at,
            Err(error) => return Err(error.into()),
        };
        let end = match rustix::fs::seek(&file, SeekFrom::Hole(at)) {
            Ok(hole) if hole > at => hole.min(size_bytes),
            _ => size_bytes,
        };
        while at < end {
            let len = (end - at).min(PIECE_BYTES) as usize;
            let Some(piece) = buffer.get_mut(..len) else { break };
            let read = match file.read_at(piece, at) {
                Ok(0) => return Ok(Some(contents)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            let Some(left) = room.bytes.checked_sub(read as u64) else { return Ok(None) };
            room.bytes = left;
            let piece = piece.get(..read).unwrap_or_default();
            if piece.iter().any(|byte| *byte != 0) {
                match room.whole_bytes.checked_sub(read as u64) {
                    Some(left) => {
                        room.whole_bytes = left;
                        contents.put(at, piece);
                    }
                    None => contents.put_digests(at, piece),
                }
            }
            at += read as u64;
        }
    }
    Ok(Some(contents))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn names_sizes_bytes_and_links_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        fs::write(at("sub/file"), b"some bytes").unwrap();
        fs::hard_link(at("sub/file"), at("other")).unwrap();
        symlink("sub/file", at("link")).unwrap();
        let sparse = File::create(at("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        sparse.write_at(b"far", (1 << 39) + 5).unwrap();
        let found = read_tree(folder.path(), 1 << 20, 1 << 20).unwrap();
        let names: Vec<String> = found.entries().map(|(path, _)| path.to_string()).collect();
        assert_eq!(names, ["link", "other", "sparse", "sub", "sub/file"]);
        let get = |name: &str| found.get(&FilePath::from(name)).unwrap();
        assert_eq!(get("other"), get("sub/file"));
        assert_eq!(get("other").node, Node::File(Contents::from(b"some bytes".as_slice())));
        assert_eq!(get("link").node, Node::Symlink(FilePath::from("sub/file")));
        let mut expected = Contents::zeroes(1 << 40);
        expected.put((1 << 39) + 5, b"far");
        assert_eq!(get("sparse").node, Node::File(expected));
        assert!(matches!(read_tree(folder.path(), 100, 100), Err(TreeError::TooLarge { .. })));
        assert!(matches!(read_tree(&at("none"), 100, 100), Err(TreeError::Read { .. })));
    }
}
