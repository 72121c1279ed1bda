//! A fio job file or a block trace as an experiment of one point.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use toml::{Table, Value};
use workload::fio::JobFile;
use workload::fio::parse::Source;

use crate::error::LabError;
use crate::experiment::Experiment;
use crate::spec::{Override, SpecSource};

/// The device a job or trace runs on when none is named.
pub const DEFAULT_DEVICE: &str = "samsung-980pro-1tb";

/// An experiment around `file`: a fio job file if its first line of substance
/// opens a section, else a block trace.
pub fn experiment(file: &Path, overrides: &[Override]) -> Result<Experiment, LabError> {
    let unreadable = |source| LabError::Input { path: file.display().to_string(), source };
    let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut workload = Table::new();
    let mut origin = SpecSource::default();
    if looks_like_job(file).map_err(unreadable)? {
        // Inline, so that the spec kept with the results needs no other file.
        let bytes = fs::read(file).map_err(unreadable)?;
        let shown = file.display().to_string();
        let text = String::from_utf8(bytes).map_err(|error| not_text(&shown, error.as_bytes()))?;
        let text = text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_owned);
        // What of the environment the job takes is part of the experiment.
        let mut used = Table::new();
        for name in text.split("${").skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)) {
            if let Ok(value) = std::env::var(name) {
                used.insert(name.to_owned(), Value::String(value));
            }
        }
        if !used.is_empty() {
            workload.insert("variables".to_owned(), Value::Table(used));
        }
        origin = SpecSource::job_file(&shown, &text);
        workload.insert("fio".to_owned(), text.into());
    } else {
        let absolute = fs::canonicalize(file).map_err(unreadable)?;
        workload.insert("trace".to_owned(), absolute.display().to_string().into());
    }
    let mut stack = Table::new();
    stack.insert("device".to_owned(), DEFAULT_DEVICE.into());
    let mut document = Table::new();
    document.insert("title".to_owned(), Value::String(name.clone()));
    document.insert("stack".to_owned(), Value::Table(stack));
    document.insert("workload".to_owned(), Value::Table(workload));
    Ok(Experiment::from_document(&name, document, overrides, Path::new(""), origin)?)
}

/// Bytes that are no job file, with the line of the first that is no text.
fn not_text(name: &str, bytes: &[u8]) -> LabError {
    let text = String::from_utf8_lossy(bytes).into_owned();
    match JobFile::parse(&Source { name, text: bytes, variables: &BTreeMap::new(), overrides: &[] }) {
        Err(error) => LabError::Job(Box::new(error), text),
        Ok(_) => LabError::Unfit { message: format!("{name} is not UTF-8 text") },
    }
}

/// Looks at the first line that is neither blank nor a comment.
fn looks_like_job(file: &Path) -> std::io::Result<bool> {
    let mut reader = BufReader::new(fs::File::open(file)?);
    let mut line = Vec::new();
    // A job file's comments are short; a trace has none.
    for _ in 0..10_000 {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(false);
        }
        let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line).trim_ascii();
        if text.is_empty() || text.starts_with(b"#") || text.starts_with(b";") {
            continue;
        }
        return Ok(text.starts_with(b"["));
    }
    Ok(false)
}
