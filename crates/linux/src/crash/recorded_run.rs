//! What a trial recorded, for whoever judges its states without a kernel.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use crash::LogReader;
use crash::files::Call;
use observe::calls::Followed;

use super::task::Recorded;
use crate::error::LinuxError;

/// A command's run, as the device and the kernel's callers saw it.
pub struct RecordedRun {
    /// The device's log, from before the file system was made.
    pub log: LogReader,
    /// The first entry after which the power may go.
    pub first: usize,
    /// The number of the device under which the command saw its files.
    pub device: u64,
    /// The command's calls on files.
    pub calls: Vec<Call>,
}

impl RecordedRun {
    pub(super) fn read(log: &Path, calls: &Path, recorded: &Recorded) -> Result<Self, LinuxError> {
        let open = |path: &Path| {
            let file = File::open(path).map_err(LinuxError::system(format!("cannot read {}", path.display())))?;
            Ok::<_, LinuxError>(BufReader::with_capacity(1 << 20, file))
        };
        let damaged =
            |path: &Path, why: String| LinuxError::Invalid { message: format!("{} is damaged: {why}", path.display()) };
        let reader = LogReader::read(open(log)?).map_err(|error| damaged(log, error.to_string()))?;
        let followed = Followed::read(open(calls)?).map_err(|error| damaged(calls, error.to_string()))?;
        let first = reader.entries_at(recorded.began_bytes);
        Ok(Self { log: reader, first, device: recorded.device, calls: followed.calls })
    }
}
