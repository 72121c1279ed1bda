//! Errors as a person meets them: what, where, and the mend.

use std::process::ExitCode;

use lab::{LabError, spec::SpecError};
use miette::{Diagnostic, NamedSource, SourceSpan};

use crate::commands::{EXIT_FAILED, EXIT_USAGE};

/// Why a subcommand gave up.
#[derive(Debug)]
pub enum Failure {
    /// The user's input or command line is at fault.
    Input(Box<dyn Diagnostic + Send + Sync>),
    /// The machine refused: a file that cannot be written, a port in use.
    Machine(String),
}

#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
struct Plain {
    message: String,
}

#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
struct InText {
    message: String,
    #[source_code]
    text: NamedSource<String>,
    #[label("here")]
    span: SourceSpan,
}

impl Failure {
    /// A fault of the input that has no place in a text.
    pub fn input(message: impl ToString) -> Self {
        Self::Input(Box::new(Plain { message: message.to_string() }))
    }

    /// A fault at a place in a text.
    fn in_text(message: String, origin: &str, text: &str, span: std::ops::Range<usize>) -> Self {
        let text = NamedSource::new(origin, text.to_owned());
        Self::Input(Box::new(InText { message, text, span: span.into() }))
    }

    /// Prints to standard error; the exit status that fits.
    pub fn report(self) -> ExitCode {
        match self {
            Self::Input(diagnostic) => {
                eprintln!("{:?}", miette::Report::new_boxed(diagnostic));
                ExitCode::from(EXIT_USAGE)
            }
            Self::Machine(message) => {
                eprintln!("Error: {message}");
                ExitCode::from(EXIT_FAILED)
            }
        }
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        match &error {
            SpecError::Syntax { origin, span, text, .. } => {
                Self::in_text(error.to_string(), origin, text, span.clone())
            }
            _ => Self::input(error),
        }
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Spec(error) => error.into(),
            LabError::Results(error) => error.into(),
            LabError::Job(error, text) => {
                let span = error.span.offset..error.span.offset + error.span.length;
                // An override stands beside the file, not in it.
                let in_file = error.file != "override" && span.end <= text.len();
                let message = error.to_string();
                if in_file { Self::in_text(message, &error.file, &text, span) } else { Self::input(message) }
            }
            other => Self::input(other),
        }
    }
}

impl From<lab::results::ResultError> for Failure {
    fn from(error: lab::results::ResultError) -> Self {
        match &error {
            lab::results::ResultError::Write { .. } => Self::Machine(error.to_string()),
            _ => Self::input(error),
        }
    }
}
