//! A fio job file or a block trace as an experiment of one point.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use toml::{Table, Value};
use workload::fio::JobFile;
use workload::fio::parse::Source;

use crate::run::LabError;
use crate::spec::{Experiment, Override};

/// The device a job or trace runs on when none is named.
pub const DEFAULT_DEVICE: &str = "samsung-980pro-1tb";

/// An experiment around `file`: a fio job file if its first line of substance
/// opens a section, else a block trace.
pub fn experiment(file: &Path, overrides: &[Override]) -> Result<Experiment, LabError> {
    let unreadable = |source| LabError::Input { path: file.display().to_string(), source };
    let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut workload = Table::new();
    if looks_like_job(file).map_err(unreadable)? {
        // Inline, so that the spec kept with the results needs no other file.
        let text = fs::read_to_string(file).map_err(unreadable)?;
        let variables = std::env::vars().collect();
        let source =
            Source { name: &file.display().to_string(), text: text.as_bytes(), variables: &variables, overrides: &[] };
        // Under a real kernel the real fio is the judge of its job file.
        if !overrides.iter().any(Override::chooses_linux) {
            JobFile::parse(&source).map_err(|error| LabError::Job(Box::new(error), text.clone()))?;
        }
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
    for item in overrides {
        item.apply(&mut document)?;
    }
    Ok(Experiment::from_document(&name, document, Path::new(""))?)
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
        let text = line.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") || text.starts_with(b";") {
            continue;
        }
        return Ok(text.starts_with(b"["));
    }
    Ok(false)
}
