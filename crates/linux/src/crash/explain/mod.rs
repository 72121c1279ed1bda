//! Why a state is bad, as far as it follows from what was recorded: the device's log, the command's calls, and which promise the
//! judge needs to find fault.

mod cause;
mod flushes;
mod groups;
mod known;
mod writers;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use crash::files::{Action, Call, Data};
use crash::{Event, LogReader};
use file_systems::FileSystem;
use observe::calls::Followed;

use super::survival::Survival;
use super::task::{Fault, Lost, Recorded, Smallest, Verdict};
use crate::error::LinuxError;
pub use cause::Cause;
pub use groups::{Group, grouped};
use writers::Writers;

/// Everything that was recorded in a folder, to explain what was found there.
pub struct Evidence {
    log: LogReader,
    recorded: Recorded,
    survival: Survival,
    file_system: FileSystem,
    writers: Writers,
}

/// A bad state that was made small, explained.
#[derive(Clone, PartialEq, Debug)]
pub struct Explained {
    /// Why it is bad.
    pub cause: Cause,
    /// What is lost in it and by whom it was written, a line each.
    pub lost: Vec<String>,
}

impl Evidence {
    pub(super) fn read(
        log: &Path,
        calls: &Path,
        recorded: Recorded,
        survival: Survival,
        file_system: FileSystem,
    ) -> Result<Self, LinuxError> {
        let open = |path: &Path| {
            let file = File::open(path).map_err(LinuxError::system(format!("cannot read {}", path.display())))?;
            Ok::<_, LinuxError>(BufReader::with_capacity(1 << 20, file))
        };
        let damaged =
            |path: &Path, why: String| LinuxError::Invalid { message: format!("{} is damaged: {why}", path.display()) };
        let reader = LogReader::open(log).map_err(|error| damaged(log, error.to_string()))?;
        let followed = Followed::read(open(calls)?).map_err(|error| damaged(calls, error.to_string()))?;
        let writers = Writers::new(followed.calls, followed.programs);
        Ok(Self { log: reader, recorded, survival, file_system, writers })
    }

    /// A state that was made small; nothing of another.
    pub fn explain(&self, verdict: &Verdict) -> Option<Explained> {
        let fault = verdict.fault.as_ref()?;
        let smallest = fault.smallest.as_ref()?;
        let mut lost = Vec::new();
        if !smallest.lost.is_empty() {
            let enough = if smallest.minimal { "with any of these back it is good" } else { "fewer may be enough" };
            lost.push(format!("lost ({enough}):"));
            lost.extend(smallest.lost.iter().map(|lost| format!("  {}", self.describe(lost))));
        }
        Some(Explained { cause: self.cause(fault, smallest), lost })
    }

    /// How much was written of which only the length is known.
    pub fn unknown_bytes(&self) -> u64 {
        let unknown = |call: &Call| match &call.action {
            Action::Write { data: Data::Unknown(len_bytes), .. } => *len_bytes,
            _ => 0,
        };
        self.writers.calls.iter().map(unknown).sum()
    }

    fn describe(&self, lost: &Lost) -> String {
        let part = if lost.lost_parts == lost.parts {
            "all".to_owned()
        } else {
            format!("{} of {} units", lost.lost_parts, lost.parts)
        };
        let what = match self.log.log.entries().get(lost.entry).map(|entry| &entry.event) {
            Some(Event::Write { content: crash::Content::Zeroes(_), .. }) => "discard",
            Some(Event::Write { fua: true, .. }) => "write with FUA",
            _ => "write",
        };
        let place = lost.place.as_ref().map_or_else(String::new, |place| format!(" ({place})"));
        let by = self.writer(lost).map_or_else(String::new, |by| format!("; {by}"));
        format!("#{} {what} of {} bytes at {}{place}: {part}{by}", lost.entry, lost.len_bytes, lost.offset_bytes)
    }

    /// By whom a lost write was made: whoever wrote the file's bytes, or the call in which the device got it.
    fn writer(&self, lost: &Lost) -> Option<String> {
        let position = self.position_bytes(lost.entry);
        if let Some(call) = lost.file.as_ref().and_then(|file| self.writers.of_file(file, position)) {
            return Some(format!("written by {}", self.writers.name(call)));
        }
        self.writers.during(position).map(|call| format!("given to the device during {}", self.writers.name(call)))
    }

    /// How long the log was before an entry.
    fn position_bytes(&self, entry: usize) -> u64 {
        self.log.positions_bytes.get(entry).copied().unwrap_or(u64::MAX)
    }

    fn call(&self, number: usize) -> Option<&Call> {
        self.writers.calls.get(number)
    }
}
