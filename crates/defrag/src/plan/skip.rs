//! Why something is left alone.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Why a file, or a range of one, is not moved.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reason", content = "detail")]
pub enum SkipReason {
    /// No assumed I/O would be fewer requests after a move.
    NotSplit,
    /// The trace has no access to it.
    NotTraced,
    /// All that the trace has of it lies in windows colder than `--hotness` asks for.
    Cold,
    /// It shares blocks with reflinks or snapshots, which a move would copy.
    Shared,
    /// Compressed or encrypted.
    Encoded,
    /// Among metadata.
    Inline,
    /// Allocated and never written: there is nothing to move.
    Unwritten,
    /// Not allocated yet; it will be once it is written back.
    Delayed,
    /// At a place that the file system does not tell.
    UnknownPlace,
    /// The budget was spent on what saves more.
    OverBudget,
    /// An earlier run tried, and neither where it lies nor the free space has changed since.
    TriedBefore,
    /// So much free space as is to be kept would not be left.
    KeepFree,
    /// The plan holds as many moves as it can.
    OverLimit,
    /// The system refused to let it be looked at.
    Unreadable(String),
    /// The way of moving refuses it.
    Refused(String),
    /// A folder where a subvolume (Btrfs) begins.
    Subvolume,
    /// A folder where another file system of this type is mounted.
    OtherMount(String),
    /// The same, of a type that lies on no disk of its own.
    NoDisk(String),
}

impl SkipReason {
    /// Whether the file is as it should be, and nothing has to be told of it.
    pub fn is_in_order(&self) -> bool {
        matches!(self, Self::NotSplit | Self::NotTraced | Self::Cold | Self::NoDisk(_))
    }

    /// One word for counting; those with a detail share theirs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotSplit => "not-split",
            Self::NotTraced => "not-traced",
            Self::Cold => "cold",
            Self::Shared => "shared",
            Self::Encoded => "encoded",
            Self::Inline => "inline",
            Self::Unwritten => "unwritten",
            Self::Delayed => "delayed",
            Self::UnknownPlace => "unknown-place",
            Self::OverBudget => "over-budget",
            Self::TriedBefore => "tried-before",
            Self::KeepFree => "keep-free",
            Self::OverLimit => "over-limit",
            Self::Unreadable(_) => "unreadable",
            Self::Refused(_) => "refused",
            Self::Subvolume => "subvolume",
            Self::OtherMount(_) => "other-mount",
            Self::NoDisk(_) => "no-disk",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NotSplit => "no request of it is split",
            Self::NotTraced => "not in the trace",
            Self::Cold => "colder than --hotness asks for",
            Self::Shared => "shared with reflinks or snapshots (--shared moves it and takes up more room)",
            Self::Encoded => "compressed or encrypted",
            Self::Inline => "kept among metadata",
            Self::Unwritten => "allocated and never written",
            Self::Delayed => "not written back yet; sync first",
            Self::UnknownPlace => "at a place that the file system does not tell",
            Self::OverBudget => "beyond the budget",
            Self::TriedBefore => "tried before, and no better room is to be expected yet",
            Self::KeepFree => "would leave less free space than is to be kept (--keep-free)",
            Self::OverLimit => "beyond the most moves that a plan holds; run again",
            Self::Unreadable(why) | Self::Refused(why) => why,
            Self::Subvolume => "a subvolume, which is not looked into; name its path too",
            Self::OtherMount(kind) => {
                return write!(f, "a mount of {kind}, which is not looked into; name its path too");
            }
            Self::NoDisk(kind) => return write!(f, "a mount of {kind}, which lies on no disk of its own"),
        };
        f.pad(text)
    }
}

/// A file left alone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SkippedFile {
    /// Which.
    #[serde(with = "crate::path_text")]
    pub path: PathBuf,
    /// Why.
    #[serde(flatten)]
    pub reason: SkipReason,
}
