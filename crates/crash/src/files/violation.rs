//! What is not as it was promised, in words.

use std::fmt;

use thiserror::Error;

use super::calls::FilePath;

/// The call that promised it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PromisedBy {
    /// Its place in the list of calls, from 0.
    pub call: usize,
    /// The system call's name.
    pub name: String,
    /// The position of the log at which it was over.
    pub position: u64,
}

/// What the bytes of a range are instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instead {
    /// Zeroes.
    Zeroes,
    /// Those that were there before they were overwritten.
    Older,
    /// Something that was never written there.
    Foreign,
}

/// What is wrong with a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Its name is not there.
    Missing,
    /// Its name is there, and should be gone.
    StillThere,
    /// Nobody ever made it.
    NeverMade,
    /// It is a file, folder, link or other of another kind.
    WrongKind,
    /// Its size.
    WrongSize {
        /// The least that may be there.
        least_bytes: u64,
        /// The most.
        most_bytes: u64,
        /// What is there.
        found_bytes: u64,
    },
    /// Its bytes.
    WrongBytes {
        /// From here.
        offset_bytes: u64,
        /// So many.
        len_bytes: u64,
        /// What is there.
        instead: Instead,
    },
    /// A symbolic link leads elsewhere.
    WrongTarget {
        /// Where it should lead.
        expected: FilePath,
        /// Where it leads.
        found: FilePath,
    },
    /// After a rename it is under none of its names.
    Lost {
        /// Its names, the path's first.
        names: Vec<FilePath>,
    },
    /// After a rename it is under both names.
    TwoNames {
        /// The other one.
        other: FilePath,
    },
}

/// Something that was promised and is not so.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct Violation {
    /// Of which file.
    pub path: FilePath,
    /// What is wrong.
    pub fault: Fault,
    /// Who promised it; `None` if it was there before the first call, or is promised at any time.
    pub promised_by: Option<PromisedBy>,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}: ", self.path)?;
        match &self.fault {
            Fault::Missing => write!(formatter, "missing"),
            Fault::StillThere => write!(formatter, "still there, though it was removed, renamed or replaced"),
            Fault::NeverMade => write!(formatter, "a name that nobody made"),
            Fault::WrongKind => write!(formatter, "another kind of file"),
            Fault::WrongSize { least_bytes, most_bytes, found_bytes } if least_bytes == most_bytes => {
                write!(formatter, "wrong size: {found_bytes} bytes instead of {least_bytes}")
            }
            Fault::WrongSize { least_bytes, most_bytes, found_bytes } => {
                write!(formatter, "wrong size: {found_bytes} bytes instead of {least_bytes} to {most_bytes}")
            }
            Fault::WrongBytes { offset_bytes, len_bytes, instead } => {
                let instead = match instead {
                    Instead::Zeroes => "zeroes",
                    Instead::Older => "an old version",
                    Instead::Foreign => "bytes that were never written there",
                };
                write!(formatter, "{instead} in bytes {offset_bytes} to {}", offset_bytes + len_bytes - 1)
            }
            Fault::WrongTarget { expected, found } => {
                write!(formatter, "the symbolic link leads to {found:?} instead of {expected:?}")
            }
            Fault::Lost { names } => write!(formatter, "lost: it is under none of its names {names:?}"),
            Fault::TwoNames { other } => write!(formatter, "a rename left both this name and {other:?}"),
        }?;
        match &self.promised_by {
            Some(PromisedBy { call, name, position }) => {
                write!(formatter, "; promised by call {call} ({name}), over at position {position} of the log")
            }
            None => write!(formatter, "; no later call allows it"),
        }
    }
}
