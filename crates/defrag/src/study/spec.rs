//! What a cell of the study is: data, I/O, tool.

use serde::{Deserialize, Serialize};
use units::ByteSize;

use super::StudyError;

/// Most files that are laid out side by side, or that a tree holds.
const MAX_FILES: u32 = 100_000;
/// What direct I/O is a multiple of.
const BLOCK: u64 = 4096;

/// One cell of a table: what a tool does to some data, and what I/O costs afterwards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cell {
    /// What defragments the data first.
    pub tool: Tool,
    /// The share of the windows that `traced` moves, the hottest first, in per cent of their number.
    pub hotness: Percent,
    /// Files laid out in pieces. Exactly one of this and the following.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleaved: Option<Interleaved>,
    /// A SQLite database after random overwrites.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<Database>,
    /// A folder tree after the work of a file server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<Tree>,
}

/// 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percent(pub u8);

impl Default for Percent {
    fn default() -> Self {
        Self(100)
    }
}

/// What defragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// Nothing: the data as it is.
    #[default]
    None,
    /// `plumb defrag run --mode bypass`: as if files were read from end to end (FP-B).
    Bypass,
    /// `plumb defrag trace`, then `plumb defrag run --trace` (FP).
    Traced,
    /// `plumb defrag run --mode whole`.
    Whole,
    /// The file system's own: `e4defrag`, `xfs_fsr`, `btrfs filesystem defragment`; F2FS has none, and its files are
    /// written again in steps of 1 MiB, as was published.
    Conventional,
    /// `btrfs filesystem defragment -t 128K`, on Btrfs alone.
    #[serde(rename = "conventional-128k")]
    Conventional128k,
}

/// Files whose pieces lie in turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Interleaved {
    /// How many files; at least two, or the pieces would lie together.
    pub files: u32,
    /// Size of each.
    pub size: ByteSize,
    /// The pieces, over and over, of one file.
    pub groups: Vec<Group>,
    /// What is done to the files.
    pub operation: Operation,
    /// Where.
    pub pattern: Pattern,
    /// Bytes of a request.
    pub request: ByteSize,
    /// Bytes left out between two requests of the pattern `stride`.
    pub skip: ByteSize,
    /// Requests of a pass of the pattern `zipf`, over all files.
    pub requests: u32,
    /// Passes that are measured, after one to warm up.
    pub passes: u32,
}

/// Some pieces of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// How many.
    pub pieces: u32,
    /// Of which length.
    pub length: ByteSize,
}

/// What is done to data, always past the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// It is read.
    #[default]
    Read,
    /// It is written over, with an fdatasync of each file at the end of a pass.
    Update,
}

/// The places of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// From end to end.
    #[default]
    Sequential,
    /// With gaps.
    Stride,
    /// At random, some places much more often than others (Zipf, 0.99).
    Zipf,
}

impl Default for Interleaved {
    /// The published layout and requests, with files of 16 MiB.
    fn default() -> Self {
        Self {
            files: 4,
            size: ByteSize(16 << 20),
            groups: vec![
                Group { pieces: 32, length: ByteSize(4 << 10) },
                Group { pieces: 1, length: ByteSize(128 << 10) },
            ],
            operation: Operation::Read,
            pattern: Pattern::Sequential,
            request: ByteSize(128 << 10),
            skip: ByteSize(288 << 10),
            requests: 2048,
            passes: 5,
        }
    }
}

/// A SQLite database, made by the program `sqlite3`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Database {
    /// Rows.
    pub rows: u32,
    /// Bytes of a row's value.
    pub value: ByteSize,
    /// Rows written over at random before the measurement, a hundred to a transaction.
    pub overwrites: u32,
    /// Rows read by key, some much more often than others (Zipf, 0.99), as YCSB's workload C does.
    pub reads: u32,
}

impl Default for Database {
    fn default() -> Self {
        Self { rows: 32_000, value: ByteSize(1000), overwrites: 32_000, reads: 10_000 }
    }
}

/// A tree of files that are made, appended to and removed in turns, as FileBench's file server does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tree {
    /// Files at the start.
    pub files: u32,
    /// Their mean size; sizes follow a gamma distribution.
    pub mean: ByteSize,
    /// Bytes of an append.
    pub append: ByteSize,
    /// Operations of ageing: each makes a file, appends to one, or removes one.
    pub operations: u32,
    /// Files that are written at the same time.
    pub streams: u32,
}

impl Default for Tree {
    fn default() -> Self {
        Self { files: 200, mean: ByteSize(256 << 10), append: ByteSize(16 << 10), operations: 2000, streams: 16 }
    }
}

impl Cell {
    /// Whether it can be done.
    ///
    /// # Errors
    /// [`StudyError::Spec`] names the setting and the remedy.
    pub fn check(&self) -> Result<(), StudyError> {
        let bad = |message: &str| Err(StudyError::Spec { message: message.to_owned() });
        let given = [self.interleaved.is_some(), self.database.is_some(), self.tree.is_some()];
        if given.into_iter().filter(|given| *given).count() != 1 {
            return bad("give exactly one of `interleaved`, `database`, `tree`");
        }
        if !(1..=100).contains(&self.hotness.0) {
            return bad("hotness is a percentage: 1 to 100");
        }
        if let Some(data) = &self.interleaved {
            data.check()?;
        }
        if let Some(data) = &self.database
            && (data.rows == 0 || data.reads == 0 || !(1..=1 << 20).contains(&data.value.0))
        {
            return bad("a database has at least one row and one read, and values of 1 byte to 1MiB");
        }
        if let Some(data) = &self.tree {
            if !(1..=MAX_FILES).contains(&data.files) || !(1..=256).contains(&data.streams) {
                return bad("a tree has 1 to 100000 files and 1 to 256 streams");
            }
            let aligned = |size: ByteSize| size.0 > 0 && size.0.is_multiple_of(BLOCK);
            if !aligned(data.mean) || !aligned(data.append) {
                return bad("mean and append of a tree are multiples of 4KiB");
            }
        }
        Ok(())
    }

    /// How many bytes of data there are, about.
    pub fn data_bytes(&self) -> u64 {
        if let Some(data) = &self.interleaved {
            return u64::from(data.files).saturating_mul(data.size.0);
        }
        if let Some(data) = &self.database {
            return u64::from(data.rows).saturating_mul(data.value.0);
        }
        self.tree.as_ref().map_or(0, |data| u64::from(data.files).saturating_mul(data.mean.0))
    }
}

impl Interleaved {
    /// Bytes of all groups once.
    pub fn period_bytes(&self) -> u64 {
        self.groups
            .iter()
            .map(|group| u64::from(group.pieces).saturating_mul(group.length.0))
            .fold(0, u64::saturating_add)
    }

    fn check(&self) -> Result<(), StudyError> {
        let bad = |message: &str| Err(StudyError::Spec { message: message.to_owned() });
        let aligned = |size: ByteSize| size.0 > 0 && size.0.is_multiple_of(BLOCK);
        if !(2..=64).contains(&self.files) {
            return bad("interleaved.files is 2 to 64: one file alone would lie in one piece");
        }
        if !aligned(self.size) || !aligned(self.request) || !self.skip.0.is_multiple_of(BLOCK) {
            return bad("interleaved.size, request and skip are multiples of 4KiB");
        }
        if self.request.0 > self.size.0 || self.request.0 > 16 << 20 {
            return bad("interleaved.request is at most 16MiB and at most a file");
        }
        if self.groups.is_empty() || self.groups.iter().any(|group| group.pieces == 0 || !aligned(group.length)) {
            return bad("interleaved.groups needs groups of one piece and more, of multiples of 4KiB");
        }
        if !self.size.0.is_multiple_of(self.period_bytes()) {
            return bad("interleaved.size is a multiple of the groups' sum, so that all files have whole groups");
        }
        if self.passes == 0 || self.passes > 1000 || self.requests == 0 || self.requests > 1 << 24 {
            return bad("interleaved.passes is 1 to 1000, requests 1 to 16777216");
        }
        Ok(())
    }

    /// The pieces of one file, each as its first byte and length, in order.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut at = 0;
        let groups = self.groups.iter().flat_map(|group| std::iter::repeat_n(group.length.0, group.pieces as usize));
        // A period of zero bytes would never end; `check` refuses it.
        groups.cycle().map_while(move |length| {
            let start = at;
            at += length;
            (start < self.size.0 && length > 0).then_some((start, length))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_layout() {
        let data = Interleaved { size: ByteSize(64 << 20), ..Interleaved::default() };
        let pieces: Vec<_> = data.pieces().collect();
        assert_eq!(pieces.len(), 8448);
        assert_eq!(
            (pieces[0], pieces[31], pieces[32], pieces[33]),
            ((0, 4096), (31 * 4096, 4096), (128 << 10, 128 << 10), (256 << 10, 4096))
        );
        assert_eq!(pieces.iter().map(|(_, length)| length).sum::<u64>(), 64 << 20);
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_remedy() {
        let good = Cell { interleaved: Some(Interleaved::default()), ..Cell::default() };
        good.check().unwrap();
        let with = |change: fn(&mut Interleaved)| {
            let mut cell = good.clone();
            change(cell.interleaved.as_mut().unwrap());
            cell.check().unwrap_err().to_string()
        };
        assert!(with(|data| data.files = 1).contains("files"));
        assert!(with(|data| data.size = ByteSize(1028 << 10)).contains("multiple of the groups"));
        assert!(with(|data| data.request = ByteSize(1000)).contains("4KiB"));
        assert!(with(|data| data.groups.clear()).contains("groups"));
        assert!(with(|data| data.passes = 0).contains("passes"));
        assert!(Cell::default().check().unwrap_err().to_string().contains("exactly one"));
        let both = Cell { tree: Some(Tree::default()), ..good.clone() };
        assert!(both.check().unwrap_err().to_string().contains("exactly one"));
        assert!(Cell { hotness: Percent(0), ..good }.check().unwrap_err().to_string().contains("percentage"));
    }
}
