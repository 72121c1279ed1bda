//! What is asked of the inside of a guest, and what it answers: files in the run's folder.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::settings::Judging;
use crate::outcome::Ended;
use crate::plan::Text;
use crash::LogReader;
use crash::files::Unsynced;
use file_systems::FileSystem;

/// What the inside does.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    /// Runs a command while the device keeps a log of writes.
    Record(Record),
    /// Looks at states.
    Judge(Box<Judge>),
    /// Tries the caller's scripts where no power was lost.
    Rehearse(Box<Judge>, Rehearsal),
    /// Mounts a state and runs a command in it.
    Stand(Box<Judge>, Stand),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// For `sh -e`, before the states that are looked at.
    pub(crate) setup: Option<String>,
    pub(crate) command: Vec<Text>,
    /// Where the caller stands.
    pub(crate) callers_folder: Text,
    /// The server writes it.
    pub(crate) log: PathBuf,
    /// Where the command's calls go.
    pub(crate) calls: PathBuf,
    /// Where [`Recorded`] goes.
    pub(crate) recorded: PathBuf,
}

/// What came of running the command. Positions are lengths of the log in bytes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Recorded {
    /// What was there before was flushed.
    pub(crate) began_bytes: u64,
    /// The number of the device under which the command saw its files.
    pub(crate) device: u64,
    pub(crate) ended: Ended,
    /// In order.
    pub(crate) acknowledgements: Vec<Acknowledgement>,
    /// Ways of changing files that the command used and that are not followed.
    pub(crate) unfollowed: Vec<String>,
}

impl Recorded {
    /// What had been acknowledged before this entry of the log.
    pub(crate) fn promised_until(&self, log: &LogReader, entry: usize) -> &[Acknowledgement] {
        let promises = &self.acknowledgements;
        let count = promises.partition_point(|promise| log.entries_at(promise.position_bytes) <= entry);
        promises.get(..count).unwrap_or_default()
    }
}

/// A line that the command wrote to `$PLUMB_ACKNOWLEDGE`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Acknowledgement {
    /// How long the log was.
    pub(crate) position_bytes: u64,
    /// Without its end.
    pub(crate) line: String,
}

/// What of the states one guest looks at, and how.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Judge {
    pub(crate) log: PathBuf,
    pub(crate) recorded: PathBuf,
    pub(crate) calls: PathBuf,
    pub(crate) file_system: FileSystem,
    pub(crate) mount_options: String,
    /// Its scripts as the guest runs them.
    pub(crate) judging: Judging,
    /// Every n-th state from this one.
    pub(crate) first: usize,
    pub(crate) step: usize,
    /// Is written anew before each look at a state, so that the outside sees that it goes on.
    pub(crate) beat: PathBuf,
    /// Where [`Verdict`]s go, one JSON object a line.
    pub(crate) verdicts: PathBuf,
    /// States that were judged before, in order.
    pub(crate) known: Vec<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Rehearsal {
    /// Is made where the scripts are content.
    pub(crate) done: PathBuf,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Stand {
    pub(crate) hash: String,
    /// In its place the smallest one that was found from it.
    pub(crate) smallest: Option<Smallest>,
    pub(crate) command: Vec<Text>,
}

/// A line of the guest's answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// First of all: what there is to do.
    StatePlan {
        /// Distinct states, of all guests.
        states: usize,
        /// Before equal ones were made one.
        generated: u64,
        moments: usize,
        sampled_moments: usize,
        /// At most so many distinct states there are.
        #[serde(default)]
        subsets: f64,
    },
    Verdict(Box<Verdict>),
    /// All of this guest's were looked at.
    Done,
}

/// What was found in a state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The state's name: a hash of all its bytes.
    pub state: String,
    /// After how many entries of the log the power goes.
    pub entries: usize,
    /// The last entry before which it may have gone with the same bytes left.
    pub until: usize,
    /// How many parts of undecided writes there are.
    pub parts: usize,
    /// How many of them are lost.
    pub lost: usize,
    /// Nothing for a good one.
    pub fault: Option<Fault>,
}

/// What is wrong with a state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// Who says so.
    pub by: Judged,
    /// In its words.
    pub what: String,
    /// The fewest lost writes with which it is still there, if that was looked for.
    pub smallest: Option<Smallest>,
}

/// Who found a fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// The kernel does not mount it.
    Mount,
    /// Files are not as fsync and its like promised.
    Files,
    /// The command of `--recover` fails.
    Recover,
    /// The command of `--check` fails.
    Check,
    /// It cannot be unmounted.
    Unmount,
    /// The file system's checker finds faults after the kernel's recovery.
    Fsck,
}

/// A state with the fault and as few lost writes as were found: everything in it is of this one state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Smallest {
    /// What its judge says of it.
    pub what: String,
    /// Which moment of the log it is of, counted from 0.
    pub moment: usize,
    /// After how many entries of the log the power goes.
    pub entries: usize,
    /// The last entry before which it may have gone.
    pub until: usize,
    /// How many parts of undecided writes there are.
    pub parts: usize,
    /// Which of them are lost.
    pub lost_parts: Vec<usize>,
    /// Which promise its judge needs to find fault.
    pub needs: Needs,
    /// The call whose promise files break, by its place in the list of calls.
    pub promised_by: Option<usize>,
    /// What is lost in it.
    pub lost: Vec<Lost>,
    /// Whether none of these can be given back.
    pub minimal: bool,
    /// States that were looked at for it.
    pub judged: usize,
}

/// Which promise a judge needs to find fault with a state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// It was not asked.
    NotTried,
    /// None: it fails where nothing was promised.
    Nothing,
    /// With this one it fails, and not with those before it.
    Promise {
        /// Its place among the acknowledgements.
        acknowledgement: usize,
        /// What the command had changed and not synchronised when it promised; nothing where that is not known.
        unsynced: Option<Vec<Unsynced>>,
    },
}

/// What stands behind the name of a state for the smallest one that was found from it.
pub const SMALLEST: &str = "-smallest";

/// What a judge says, but for numbers: of states with one cause it is often the same.
pub(crate) fn signature(what: &str) -> String {
    let mut short = String::new();
    for letter in what.chars() {
        let letter = if letter.is_ascii_digit() { '#' } else { letter };
        if letter != '#' || !short.ends_with('#') {
            short.push(letter);
        }
    }
    short
}

/// Bytes of a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LostFile {
    /// By one of its names.
    pub path: String,
    /// Its number.
    pub inode: u64,
    /// From here.
    pub from_bytes: u64,
    /// To here.
    pub to_bytes: u64,
}

/// A write that is lost, whole or in part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lost {
    /// Which entry of the log it is.
    pub entry: usize,
    /// Where it began.
    pub offset_bytes: u64,
    /// How long it was.
    pub len_bytes: u64,
    /// What lies there when nothing is lost, where that is known.
    pub place: Option<String>,
    /// The file whose bytes are lost, where that is known.
    pub file: Option<LostFile>,
    /// Another file, whose bytes are there of the same write.
    #[serde(default)]
    pub beside: Option<String>,
    /// How many of its parts are lost.
    pub lost_parts: usize,
    /// How many it has.
    pub parts: usize,
}
