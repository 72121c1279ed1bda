//! What several points of a sweep refer to, read once.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use workload::replay::{ReadOptions, Record, TraceReader};

use crate::device::{Described, DeviceError, describe};
use crate::error::LabError;
use crate::spec::{Override, Spec, hash_document, leaves};

/// Requests of traces that are kept in memory, over all traces of a plan: 64 MiB.
const RECORDS_MAX: usize = (64 << 20) / size_of::<Record>();
/// Devices and states of hashes that are kept.
const KEPT_MAX: usize = 4096;

/// What was read so far.
#[derive(Default)]
pub(crate) struct Shared {
    /// By name and changes.
    devices: BTreeMap<(String, String), Arc<Device>>,
    /// By file and way of reading.
    traces: BTreeMap<(PathBuf, String), Option<Arc<[Record]>>>,
    records: usize,
    /// By what was hashed before and the file.
    hashed: BTreeMap<(String, PathBuf), blake3::Hasher>,
}

/// A device and its document's hash.
pub(crate) struct Device {
    pub(crate) described: Described,
    pub(crate) hash: String,
}

/// The device that `spec` names, with its changes.
pub(crate) fn device(spec: &Spec, folder: &Path) -> Result<Described, DeviceError> {
    let changes: Vec<Override> =
        leaves(&spec.stack.device_set).into_iter().map(|(key, value)| Override::new(&key, value)).collect();
    describe(&spec.stack.device, folder, &changes)
}

impl Shared {
    /// The same as [`device`], with its hash.
    pub(crate) fn device(&mut self, spec: &Spec, folder: &Path) -> Result<Arc<Device>, LabError> {
        let key = (spec.stack.device.clone(), spec.stack.device_set.to_string());
        if let Some(known) = self.devices.get(&key) {
            return Ok(Arc::clone(known));
        }
        let described = device(spec, folder)?;
        let device = Arc::new(Device { hash: hash_document(&described.document), described });
        if self.devices.len() < KEPT_MAX {
            self.devices.insert(key, Arc::clone(&device));
        }
        Ok(device)
    }

    /// Reads a trace to its end, so that a fault in the last line shows before the
    /// first run, and takes its content into `hasher`, which has taken in what
    /// `before` names. Gives the requests where there is room for them.
    pub(crate) fn trace(
        &mut self,
        path: &Path,
        options: &ReadOptions,
        before: &str,
        hasher: &mut blake3::Hasher,
    ) -> Result<Option<Arc<[Record]>>, LabError> {
        let key = (path.to_owned(), format!("{options:?}"));
        let records = match self.traces.get(&key) {
            Some(known) => known.clone(),
            None => {
                let records = self.records_of(path, options)?;
                self.traces.insert(key, records.clone());
                records
            }
        };
        let key = (before.to_owned(), path.to_owned());
        match self.hashed.get(&key) {
            Some(known) => *hasher = known.clone(),
            None => {
                let taken = File::open(path).and_then(|file| hasher.update_reader(file).map(drop));
                taken.map_err(|source| unreadable(path, source))?;
                if self.hashed.len() < KEPT_MAX {
                    self.hashed.insert(key, hasher.clone());
                }
            }
        }
        Ok(records)
    }

    fn records_of(&mut self, path: &Path, options: &ReadOptions) -> Result<Option<Arc<[Record]>>, LabError> {
        let room = RECORDS_MAX - self.records;
        let mut kept: Option<Vec<Record>> = Some(Vec::new());
        for record in open_trace(path, options)? {
            let record = record?;
            match &mut kept {
                Some(records) if records.len() < room => records.push(record),
                _ => kept = None,
            }
        }
        self.records += kept.as_ref().map_or(0, Vec::len);
        Ok(kept.map(Into::into))
    }
}

/// A file that cannot be read.
pub(super) fn unreadable(path: &Path, source: std::io::Error) -> LabError {
    LabError::Input { path: path.display().to_string(), source }
}

/// Opens a trace for reading from its start.
pub(crate) fn open_trace(path: &Path, options: &ReadOptions) -> Result<TraceReader<BufReader<File>>, LabError> {
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    Ok(TraceReader::new(path.display().to_string(), BufReader::new(file), options)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_without_room_is_read_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, "1,web,0,Read,0,4096,0\n2,web,0,Write,4096,4096,0\n").unwrap();
        let options = ReadOptions::default();
        let mut shared = Shared { records: RECORDS_MAX - 1, ..Shared::default() };
        let mut small = blake3::Hasher::new();
        assert!(shared.trace(&path, &options, "", &mut small).unwrap().is_none());
        let mut shared = Shared::default();
        for _ in 0..2 {
            let mut hasher = blake3::Hasher::new();
            let records = shared.trace(&path, &options, "", &mut hasher).unwrap().unwrap();
            assert_eq!((records.len(), hasher.finalize()), (2, small.finalize()));
            assert_eq!(records[1].bytes, 4096);
        }
        // Read once: that the file is gone makes no difference.
        std::fs::remove_file(&path).unwrap();
        assert!(shared.trace(&path, &options, "", &mut blake3::Hasher::new()).is_ok());
        assert!(shared.trace(&path, &options, "other", &mut blake3::Hasher::new()).is_err());
    }
}
