//! What was predicted and what was counted.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use units::Printable;

/// One file's reads.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct VerifiedFile {
    /// Where it is.
    #[serde(serialize_with = "crate::path_text::serialize")]
    pub path: PathBuf,
    /// Ranges that were read.
    pub accesses: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Requests that the extents let expect.
    pub predicted: u64,
    /// Requests of these reads that were issued, by the reading thread or by one of the kernel's for it.
    pub issued: u64,
    /// Read requests of others at the same devices meanwhile.
    pub by_others: u64,
    /// Ranges that were not read because they are compressed or lie in the inode.
    pub left_out: u64,
    /// Events that the kernel's buffers had no room for: if there are any, `issued` is too small.
    pub lost: u64,
    /// What splits requests once more between file system and disks: then the two numbers need not be the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<String>,
    /// The scheduler of the queue, which merges what lies beside each other and was not submitted one after the other: then
    /// fewer requests may be issued than predicted, never more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
}

impl VerifiedFile {
    /// Whether as many requests were issued as were predicted (with a scheduler at most as many), or the two cannot be
    /// compared.
    pub fn is_as_predicted(&self) -> bool {
        let fits = if self.scheduler.is_some() { self.issued <= self.predicted } else { self.issued == self.predicted };
        self.layers.is_some() || (fits && self.lost == 0)
    }
}

/// All of it, to be printed as a table or as JSON.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Verified {
    /// In the order in which they were read.
    pub files: Vec<VerifiedFile>,
}

impl Verified {
    /// Whether that is so for each file.
    pub fn is_as_predicted(&self) -> bool {
        self.files.iter().all(VerifiedFile::is_as_predicted)
    }

    /// The sums, with an empty path.
    pub fn total(&self) -> VerifiedFile {
        self.files.iter().fold(VerifiedFile::default(), |sum, file| VerifiedFile {
            path: PathBuf::new(),
            accesses: sum.accesses + file.accesses,
            bytes: sum.bytes + file.bytes,
            predicted: sum.predicted + file.predicted,
            issued: sum.issued + file.issued,
            by_others: sum.by_others + file.by_others,
            left_out: sum.left_out + file.left_out,
            lost: sum.lost + file.lost,
            layers: sum.layers.or_else(|| file.layers.clone()),
            scheduler: sum.scheduler.or_else(|| file.scheduler.clone()),
        })
    }
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>10} {:>12} {:>10} {:>10}  file", "accesses", "bytes", "predicted", "issued")?;
        let total = VerifiedFile { path: "total".into(), ..self.total() };
        for file in self.files.iter().chain([&total]) {
            let VerifiedFile { accesses, bytes, predicted, issued, .. } = file;
            write!(f, "{accesses:>10} {bytes:>12} {predicted:>10} {issued:>10}  {}", Printable::path(&file.path))?;
            if file.left_out > 0 {
                write!(f, " ({} compressed or inline ranges not read)", file.left_out)?;
            }
            if file.by_others > 0 && !file.is_as_predicted() {
                write!(f, " ({} requests by others meanwhile)", file.by_others)?;
            }
            if let Some(layers) = &file.layers {
                write!(f, " (not compared: {layers})")?;
            }
            if let Some(scheduler) = file.scheduler.as_ref().filter(|_| file.issued < file.predicted) {
                write!(f, " (merged by {})", units::printable(scheduler))?;
            }
            if file.lost > 0 {
                write!(f, " ({} events lost)", file.lost)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
