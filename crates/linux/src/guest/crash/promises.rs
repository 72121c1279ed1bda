//! Files held against what fsync and its like promised of them.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use crash::files::{Entry, FileId, Found, Promises, Rules, judge};
use observe::calls::Followed;
use observe::tree::read_tree;

use crate::crash::Judge;
use crate::guest::error::{GuestError, attempt};

/// Most bytes of files that are read of one state.
const FILES_BYTES_MAX: u64 = 1 << 30;
/// Violations that are said of one state.
const SAID_MAX: usize = 5;

/// What was promised of the files.
pub(super) struct FilePromises(Promises);

impl FilePromises {
    /// By the calls of the command, over the files that were there at first and are mounted at `folder` now.
    pub(super) fn new(task: &Judge, folder: &Path, device: u64) -> Result<Self, GuestError> {
        let file = attempt(File::open(&task.calls), || format!("cannot read {}", task.calls.display()))?;
        let followed = Followed::read(BufReader::new(file))
            .map_err(|error| GuestError::new(format!("{}: {error}", task.calls.display())))?;
        let found = read(folder).map_err(GuestError::new)?;
        let rules = Rules::of(task.file_system.mount_type().unwrap_or_default());
        Ok(Self(Promises::new(rules, &as_on(device, &found), &followed.calls)))
    }

    /// What of the files mounted at `folder` is not as it was promised at a position of the log.
    pub(super) fn violations(&self, folder: &Path, position_bytes: u64) -> Option<String> {
        if !self.0.knows(position_bytes) {
            return None;
        }
        let found = match read(folder) {
            Ok(found) => found,
            // What the kernel does not give back is lost.
            Err(why) => return Some(why),
        };
        let violations = judge(&self.0.promised(position_bytes), &found);
        let mut lines: Vec<String> = violations.iter().take(SAID_MAX).map(ToString::to_string).collect();
        if violations.len() > SAID_MAX {
            lines.push(format!("and {} more", violations.len() - SAID_MAX));
        }
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

fn read(folder: &Path) -> Result<Found, String> {
    read_tree(folder, FILES_BYTES_MAX).map_err(|error| error.to_string())
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
