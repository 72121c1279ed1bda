//! Files held against what fsync and its like promised of them.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use crash::files::{Entry, FileId, Found, Promises, Rules, Unsynced, judge};
use observe::calls::Followed;
use observe::tree::{TreeError, read_tree};

use super::record::WHOLE_BYTES_MAX;
use crate::crash::Judge;
use crate::guest::error::{GuestError, attempt};

/// Most bytes of files that are read of one state, zeroes and all.
const FILES_BYTES_MAX: u64 = 16 << 30;
/// Violations that are said of one state.
const SAID_MAX: usize = 5;

/// What was promised of the files.
pub(super) struct FilePromises {
    promises: Promises,
    /// Of each acknowledgement its order among the ends of calls, and how many calls were over.
    acknowledged: Vec<(u64, usize)>,
}

/// What breaks promises.
pub(super) struct Broken {
    pub(super) what: String,
    /// The call that gave the first of them.
    pub(super) promised_by: Option<usize>,
}

impl FilePromises {
    /// By the calls of the command, over the files that were there at first and are mounted at `folder` now.
    pub(super) fn new(task: &Judge, folder: &Path, device: u64) -> Result<Self, GuestError> {
        let file = attempt(File::open(&task.calls), || format!("cannot read {}", task.calls.display()))?;
        let followed = Followed::read(BufReader::new(file))
            .map_err(|error| GuestError::new(format!("{}: {error}", task.calls.display())))?;
        let found = read(folder)?.map_err(GuestError::new)?;
        let rules = Rules::of(task.file_system.mount_type().unwrap_or_default());
        let over = |order: u64| followed.calls.partition_point(|call| call.left.order < order);
        let acknowledged = followed.acknowledgements.iter().map(|made| (made.at.order, over(made.at.order))).collect();
        Ok(Self { promises: Promises::new(rules, &as_on(device, &found), &followed.calls), acknowledged })
    }

    /// What the command had changed and not synchronised when it acknowledged for this time; nothing where files are not known then.
    pub(super) fn unsynced(&self, acknowledgement: usize, position_bytes: u64) -> Option<Vec<Unsynced>> {
        let (order, calls) = *self.acknowledged.get(acknowledgement)?;
        self.promises.knows(position_bytes).then(|| self.promises.unsynced(order, calls))
    }

    /// What of the files mounted at `folder` is not as it was promised at a position of the log.
    ///
    /// # Errors
    /// Where that cannot be told, since there is too much of them.
    pub(super) fn violations(&self, folder: &Path, position_bytes: u64) -> Result<Option<Broken>, GuestError> {
        if !self.promises.knows(position_bytes) {
            return Ok(None);
        }
        let found = match read(folder)? {
            Ok(found) => found,
            // What the kernel does not give back is lost.
            Err(why) => return Ok(Some(Broken { what: why, promised_by: None })),
        };
        let violations = judge(&self.promises.promised(position_bytes), &found);
        let mut lines: Vec<String> = violations.iter().take(SAID_MAX).map(ToString::to_string).collect();
        if violations.len() > SAID_MAX {
            lines.push(format!("and {} more", violations.len() - SAID_MAX));
        }
        let promised_by = violations.iter().find_map(|violation| Some(violation.promised_by.as_ref()?.call));
        Ok((!lines.is_empty()).then(|| Broken { what: lines.join("\n"), promised_by }))
    }
}

/// The files, or why the kernel does not give them.
fn read(folder: &Path) -> Result<Result<Found, String>, GuestError> {
    match read_tree(folder, FILES_BYTES_MAX, WHOLE_BYTES_MAX) {
        Err(error @ TreeError::TooLarge { .. }) => {
            Err(GuestError::of_the_caller(format!("{error}, too many to be held against promises (--no-files)")))
        }
        read => Ok(read.map_err(|error| error.to_string())),
    }
}

/// The same files with the device's number under which the command saw them.
fn as_on(device: u64, found: &Found) -> Found {
    let (own, root) = (found.folder().device, found.folder());
    let seen = |file: FileId| if file.device == own { FileId { device, ..file } } else { file };
    let mut same = Found::new(seen(root));
    for (path, entry) in found.entries() {
        same.insert(path.clone(), Entry { file: seen(entry.file), node: entry.node.clone() });
    }
    same
}
