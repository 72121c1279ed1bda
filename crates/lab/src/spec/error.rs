//! Why a spec cannot be run, and what to do about it.

use std::path::PathBuf;

use super::source::{SpecSource, line_and_column};

/// A spec that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}; name an existing spec (`plumb list experiments` shows those that ship)", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is not a spec.
    #[error("{origin}:{line}:{column}: {message}")]
    Syntax {
        /// The file's name.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Byte range in the text, for a rendered excerpt.
        span: std::ops::Range<usize>,
        /// The whole text.
        text: String,
        /// What is wrong.
        message: String,
    },
    /// A changed or swept value does not fit the spec.
    #[error("{}{message}", change.as_ref().map(|change| format!("{change} does not fit the spec: ")).unwrap_or_default())]
    Override {
        /// The change: `--set KEY=VALUE`, or a swept key with its value; `None` where none was made.
        change: Option<String>,
        /// The key swept, where it was a sweep.
        swept: Option<String>,
        /// What is wrong.
        message: String,
    },
    /// A `--set` is not `key=value`.
    #[error("`{text}` is not an override; write KEY=VALUE, such as stack.device=optane-905p-960gb")]
    OverrideForm {
        /// What was given.
        text: String,
    },
    /// A path goes through something that is not a table.
    #[error("`{key}` goes through `{part}`, which is a value and not a table; check the key with the spec file")]
    NotATable {
        /// The whole path.
        key: String,
        /// The part that is a value.
        part: String,
    },
    /// None or several of the workload kinds.
    #[error(
        "[workload] names none or several workloads; give exactly one of `fio`, `fio_file`, `trace`, `journal`, `defrag`, `program`"
    )]
    WorkloadChoice,
    /// No repeats.
    #[error("run.repeats is 0, so nothing would run; set it to 1 or more")]
    NoRepeats,
    /// A swept key without values.
    #[error("[sweep] `{key}` has no values; write a list such as [1, 2, 4], or take the key out")]
    EmptySweep {
        /// The key.
        key: String,
    },
    /// A swept value that names no bundle.
    #[error("[sweep] `{key}` has the value `{value}`, which [variants.{key}] does not have; write one of {known}")]
    NoVariant {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The values there are.
        known: String,
    },
    /// A value that cannot be shown for what it is asked of.
    #[error("{place}: {message}")]
    Unclear {
        /// Where.
        place: &'static str,
        /// What is wrong, and the remedy.
        message: String,
    },
    /// A name that is none of a value.
    #[error("{message}")]
    Name {
        /// The name.
        name: String,
        /// What there is.
        message: String,
    },
    /// Too many points.
    #[error("the sweep has more than {limit} points; take values out or split the spec")]
    TooManyPoints {
        /// The limit.
        limit: usize,
    },
    /// A key that is used as if swept.
    #[error("{place} uses `{key}`, which [sweep] does not vary; add it there or correct the name")]
    NotSwept {
        /// The key.
        key: String,
        /// Where.
        place: &'static str,
    },
}

impl SpecError {
    /// With the place in the user's file, where the fault has one there.
    pub(crate) fn placed(self, source: &SpecSource) -> Self {
        let key = match &self {
            Self::WorkloadChoice => "workload".to_owned(),
            Self::NoRepeats => "run.repeats".to_owned(),
            Self::EmptySweep { key } | Self::NoVariant { key, .. } | Self::Override { swept: Some(key), .. } => {
                format!("sweep.{key}")
            }
            Self::TooManyPoints { .. } => "sweep".to_owned(),
            Self::Unclear { place, .. } => place.trim_matches(['[', ']']).to_owned(),
            Self::Name { name, .. } => {
                let name = name.clone();
                return source.at_text(&name, self);
            }
            Self::NotSwept { key, .. } => {
                let key = key.clone();
                return source.at_text(&key, self);
            }
            _ => return self,
        };
        source.at_key(&key, self)
    }

    pub(crate) fn from_toml(origin: &str, text: &str, error: &toml::de::Error) -> Self {
        let span = error.span().unwrap_or(0..0);
        let (line, column) = line_and_column(text, span.start);
        Self::Syntax {
            origin: origin.to_owned(),
            line,
            column,
            span,
            text: text.to_owned(),
            message: error.message().to_owned(),
        }
    }
}
