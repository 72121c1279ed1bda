//! fio jobs on the modelled host.

use std::collections::BTreeMap;

use trace::Step;
use workload::Host;
use workload::fio::parse::{Source, Verify};
use workload::fio::{self, JobFile, ParseError};

use super::super::Reading;
use super::super::jobs::played;
use super::super::shared::unreadable;
use crate::error::LabError;
use crate::host::model::{Drive, Played, Simulated};
use crate::spec::{Inline, Spec, SpecError, SpecSource, value_text};

impl Simulated for JobFile {
    fn verifies(&self) -> bool {
        self.jobs.iter().any(|job| job.options.verify != Verify::None)
    }

    fn may_do(&self, step: Step) -> bool {
        self.jobs.iter().flat_map(|job| job.operations()).any(|operation| operation.step() == step)
    }

    fn play(&self, host: &Host, drive: &mut Drive<'_>) -> Result<Option<Played>, LabError> {
        let started = fio::start(host, self).map_err(|error| LabError::Unfit { message: error.to_string() })?;
        if !drive(&|| started.fraction()) {
            return Ok(None);
        }
        let notes = started.notes().to_vec();
        Ok(Some(played(&started.finish(), &notes)))
    }
}

/// Reads the spec's jobs.
pub(super) fn read(reading: &mut Reading<'_>) -> Result<JobFile, LabError> {
    let (spec, source) = (reading.spec, reading.source);
    if let Some(path) = &spec.workload.fio_file {
        let path = reading.folder.join(path);
        let text = std::fs::read(&path).map_err(|source| unreadable(&path, source))?;
        return jobs(spec, &path.display().to_string(), &text, None, source, reading.hasher);
    }
    let text = spec.workload.fio.as_deref().unwrap_or_default();
    let place = source.inline(text);
    // Without a place it is from the command line.
    let name = place.as_ref().map_or("--set workload.fio", Inline::name);
    jobs(spec, name, text.as_bytes(), place.as_ref(), source, reading.hasher)
}

/// Reads a job file; `place` says where it stands, if in another file.
fn jobs(
    spec: &Spec,
    name: &str,
    text: &[u8],
    place: Option<&Inline>,
    source: &SpecSource,
    hasher: &mut blake3::Hasher,
) -> Result<JobFile, LabError> {
    let variables: BTreeMap<String, String> =
        spec.workload.variables.iter().map(|(key, value)| (key.clone(), value_text(value))).collect();
    let overrides: Vec<String> =
        spec.workload.set.iter().map(|(key, value)| format!("{key}={}", value_text(value))).collect();
    let parsed = JobFile::parse(&Source { name, text, variables: &variables, overrides: &overrides });
    let mut jobs = parsed.map_err(|error| {
        if error.file == JobFile::OVERRIDE {
            return override_fault(spec, source, &error);
        }
        let (error, text) = match place {
            Some(place) => place.fault(error),
            None => (error, String::from_utf8_lossy(text).into_owned()),
        };
        LabError::Job(Box::new(error), text)
    })?;
    if let (Some(place), Ok(text)) = (place, std::str::from_utf8(text)) {
        place.place(text, &mut jobs);
    }
    let wanted: Vec<&String> = spec.workload.sections.values().flatten().collect();
    if let Some(absent) = wanted.iter().find(|name| jobs.jobs.iter().all(|job| job.name != ***name)) {
        let known: Vec<&str> = jobs.jobs.iter().map(|job| job.name.as_str()).collect();
        let message = format!(
            "workload.sections names `{absent}`, which {name} does not have; write one of {}",
            known.join(", ")
        );
        return Err(LabError::Unfit { message });
    }
    if !spec.workload.sections.is_empty() {
        jobs.jobs.retain(|job| wanted.contains(&&job.name));
    }
    hasher.update(b"fio").update(text);
    Ok(jobs)
}

/// What is wrong with an option that the spec or the command line sets in every job.
fn override_fault(spec: &Spec, source: &SpecSource, error: &ParseError) -> LabError {
    let Some((key, value)) = spec.workload.set.iter().nth(error.span.line.saturating_sub(1)) else {
        return LabError::Unfit { message: error.kind.to_string() };
    };
    let dotted = format!("workload.set.{key}");
    let change = Some(format!("--set {dotted}={}", value_text(value)));
    let message = error.kind.to_string();
    let fault = SpecError::Override { change, swept: None, message: message.clone() };
    // In the file it needs no other name.
    match source.at_key(&dotted, SpecError::Override { change: None, swept: None, message }) {
        SpecError::Override { .. } => fault.into(),
        placed => placed.into(),
    }
}
