//! Moves that came to nothing, or to less than was planned, so that no later run writes for them again in vain.
//!
//! What room a file system offers is known only once it is asked for, and asking writes metadata at the least. So a range that was
//! left, or came to lie in several pieces, is noted with where it lies and with the free space of that time. It is not
//! planned again while both are the same: until the range lies otherwise, or clearly more is free, or a month has passed.
//!
//! A text file, a JSON value a line, in the user's cache: losing it costs no more than trying once more.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::extents::ExtentMap;
use crate::{ByteRange, FileId};

/// Most that are kept, the newest; some 20 MB.
const MAX_ATTEMPTS: usize = 1 << 17;
/// Longest line that is read.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// After so long the same amount of free space need not be the same space.
const KEPT_S: u64 = 30 * 24 * 3600;
/// Free space has to grow by one part in so many, and by the length of the range, to be worth another attempt.
const GROWTH_PART: u64 = 8;

/// One attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attempt {
    /// Of which file; its device's number may be another one's after the next start of the system, and does not count.
    pub id: FileId,
    /// Which bytes.
    pub range: ByteRange,
    /// Where they lay afterwards ([`layout_of`]).
    pub layout: u64,
    /// Free space afterwards.
    pub free_bytes: u64,
    /// Seconds since 1970.
    pub tried_s: u64,
}

/// What tells an attempt from others: inode, generation, range, layout.
type Key = (u64, Option<u32>, ByteRange, u64);

impl Attempt {
    /// One that was made just now.
    pub fn now(id: FileId, range: ByteRange, layout: u64, free_bytes: u64) -> Self {
        let tried_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { id, range, layout, free_bytes, tried_s }
    }

    fn key(&self) -> Key {
        (self.id.inode, self.id.generation, self.range, self.layout)
    }
}

/// A number that is another where `range` lies otherwise (FNV-1a, which is the same in every version).
pub fn layout_of(map: &ExtentMap, range: ByteRange) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for piece in map.pieces(range) {
        for number in [piece.range.start, piece.range.end, piece.physical, piece.kind as u64] {
            for byte in number.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
    }
    hash
}

/// Those that are known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attempts(BTreeMap<Key, Attempt>);

impl Attempts {
    /// `$XDG_CACHE_HOME/plumb/defrag-attempts`, or the same below `~/.cache`, or for root without a home below `/var/cache`.
    pub fn place() -> Option<PathBuf> {
        let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        let cache = cache.or_else(|| rustix::process::geteuid().is_root().then(|| PathBuf::from("/var/cache")));
        Some(cache?.join("plumb").join("defrag-attempts"))
    }

    /// Those in a file; none where there is no such file. Lines that are no attempts are passed over.
    pub fn load(path: &Path) -> Self {
        let small = fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= MAX_FILE_BYTES);
        let text = if small { fs::read(path).unwrap_or_default() } else { Vec::new() };
        let lines = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Attempt>(line).ok());
        Self(lines.map(|attempt| (attempt.key(), attempt)).collect())
    }

    /// Whether to try once more would be in vain: a range of a file that lies as `layout` says, with so much free space.
    pub fn is_vain(&self, id: &FileId, range: ByteRange, layout: u64, free_bytes: u64) -> bool {
        let key = |generation| (id.inode, generation, range, layout);
        let Some(attempt) = self.0.get(&key(id.generation)).or_else(|| self.0.get(&key(None))) else { return false };
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let growth = (attempt.free_bytes / GROWTH_PART).max(range.len());
        now_s.saturating_sub(attempt.tried_s) < KEPT_S && free_bytes < attempt.free_bytes.saturating_add(growth)
    }

    /// Whether any is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds `attempts` to those in the file, which may have got more from another run meanwhile.
    pub fn add(path: &Path, attempts: &[Attempt]) -> io::Result<()> {
        if attempts.is_empty() {
            return Ok(());
        }
        let mut all = Self::load(path);
        all.0.extend(attempts.iter().map(|attempt| (attempt.key(), attempt.clone())));
        let mut newest: Vec<&Attempt> = all.0.values().collect();
        newest.sort_by_key(|attempt| std::cmp::Reverse(attempt.tried_s));
        newest.truncate(MAX_ATTEMPTS);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let draft = path.with_extension(format!("{}.draft", std::process::id()));
        let write = || -> io::Result<()> {
            let mut text = Vec::new();
            for attempt in newest {
                serde_json::to_writer(&mut text, attempt)?;
                text.push(b'\n');
            }
            fs::File::create(&draft)?.write_all(&text)?;
            fs::rename(&draft, path)
        };
        let written = write();
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_vain_until_something_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below").join("attempts");
        assert!(Attempts::load(&path).is_empty());
        let id = FileId { device: 3, inode: 7, generation: Some(1) };
        let range = ByteRange { start: 0, end: 1 << 20 };
        let old = Attempt { tried_s: 5, ..Attempt::now(id, range, 2, 80 << 20) };
        Attempts::add(&path, &[Attempt::now(id, range, 1, 80 << 20)]).unwrap();
        Attempts::add(&path, &[old]).unwrap();
        let mut text = fs::read(&path).unwrap();
        text.extend_from_slice(b"no attempt\n");
        fs::write(&path, text).unwrap();
        let known = Attempts::load(&path);
        // On whatever device it is now.
        let id = FileId { device: 4, ..id };
        assert!(known.is_vain(&id, range, 1, 80 << 20) && known.is_vain(&id, range, 1, 85 << 20));
        assert!(known.is_vain(&id, range, 1, 0));
        assert!(!known.is_vain(&id, range, 1, 91 << 20), "more is free");
        assert!(!known.is_vain(&id, range, 9, 80 << 20), "it lies otherwise");
        assert!(!known.is_vain(&id, range, 2, 80 << 20), "long ago");
        assert!(!known.is_vain(&FileId { generation: Some(2), ..id }, range, 1, 80 << 20), "another file");
        assert!(!known.is_vain(&id, ByteRange { start: 0, end: 5 }, 1, 80 << 20), "another range");
    }
}
