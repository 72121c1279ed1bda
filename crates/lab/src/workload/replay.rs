//! Replays of block traces, on the modelled host.

use std::path::PathBuf;
use std::sync::Arc;

use workload::Host;
use workload::replay::{Align, Fit, Pace, Placement, ReadOptions, Record, Replay, ReplayOptions, Speed};

use super::jobs::replayed;
use super::shared::open_trace;
use super::{Modelled, Reading, Workload};
use crate::error::LabError;
use crate::host::model::{Drive, Played, Simulated};
use crate::spec::{HostKind, ReplayMode};

/// A block trace; one too large to keep is read while it is replayed.
#[derive(Debug)]
struct TraceReplay {
    /// The file.
    path: PathBuf,
    /// How to read it.
    read: ReadOptions,
    /// How to replay it.
    replay: ReplayOptions,
    /// Its requests, where there was room to keep them.
    records: Option<Arc<[Record]>>,
}

impl Simulated for TraceReplay {
    fn play(&self, host: &Host, drive: &mut Drive<'_>) -> Result<Option<Played>, LabError> {
        let file = self.path.display().to_string();
        let started = match &self.records {
            Some(records) => {
                let records = Arc::clone(records);
                Replay::start(host, &file, (0..records.len()).map(move |index| Ok(records[index])), &self.replay)
            }
            None => Replay::start(host, &file, open_trace(&self.path, &self.read)?, &self.replay),
        };
        if !drive(&|| 0.0) {
            return Ok(None);
        }
        Ok(Some(replayed(&started.finish()?)))
    }
}

/// Reads the spec's trace to its end.
pub(super) fn read(reading: &mut Reading<'_>) -> Result<Arc<dyn Workload>, LabError> {
    let (spec, settings) = (reading.spec, &reading.spec.workload.replay);
    if spec.stack.host == HostKind::Live {
        return Err(super::not_live("host = \"model\" for traces"));
    }
    let path = reading.folder.join(spec.workload.trace.as_deref().unwrap_or("".as_ref()));
    let options = ReadOptions {
        format: settings.format.as_deref().map(str::parse).transpose().map_err(LabError::unfit)?,
        disk: settings.disk.clone(),
        action: settings.action.as_deref().map(str::parse).transpose().map_err(LabError::unfit)?.unwrap_or_default(),
    };
    reading.hasher.update(b"trace");
    let before = reading.hasher.finalize().to_hex();
    let records = reading.shared.trace(&path, &options, &before, reading.hasher)?;
    let pace = match settings.mode {
        ReplayMode::Open => {
            let speed = Speed::new(settings.speed).map_err(LabError::unfit)?;
            Pace::OpenLoop { speed, max_in_flight: Pace::MAX_IN_FLIGHT }
        }
        ReplayMode::Closed => Pace::ClosedLoop { in_flight: settings.depth },
    };
    let placement = Placement {
        scale: settings.scale,
        align: if settings.round { Align::Round } else { Align::Exact },
        fit: if settings.wrap { Fit::Wrap } else { Fit::Error },
    };
    let replay = ReplayOptions { pace, placement };
    Ok(Arc::new(Modelled(TraceReplay { path, read: options, replay, records })))
}
