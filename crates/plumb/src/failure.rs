//! Errors as a person meets them: what, where, and the remedy.

use std::process::ExitCode;

use lab::{LabError, spec::SpecError};
use miette::{Diagnostic, NamedSource, SourceSpan};
use units::{printable, printable_lines};

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
        Self::Input(Box::new(Plain { message: printable_lines(&message.to_string()).into_owned() }))
    }

    /// A fault at a place in a text.
    fn in_text(message: String, origin: &str, text: &str, span: std::ops::Range<usize>) -> Self {
        let text = NamedSource::new(printable(origin), veiled(text));
        Self::Input(Box::new(InText { message: printable_lines(&message).into_owned(), text, span: span.into() }))
    }

    /// Prints to standard error; the exit status that fits.
    pub fn report(self) -> ExitCode {
        match self {
            Self::Input(diagnostic) => {
                eprintln!("{:?}", miette::Report::new_boxed(diagnostic));
                ExitCode::from(EXIT_USAGE)
            }
            Self::Machine(message) => {
                eprintln!("Error: {}", printable_lines(&message));
                ExitCode::from(EXIT_FAILED)
            }
        }
    }
}

/// A text of as many bytes, in which a terminal has nothing to do.
fn veiled(text: &str) -> String {
    let veil = |character: char| match character {
        '\n' | '\t' => character.to_string(),
        character if printable(character.encode_utf8(&mut [0; 4])).len() == character.len_utf8() => {
            character.to_string()
        }
        character => "?".repeat(character.len_utf8()),
    };
    text.chars().map(veil).collect()
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
                let message = error.to_string();
                if span.end <= text.len() {
                    Self::in_text(message, &error.file, &text, span)
                } else {
                    Self::input(message)
                }
            }
            other => Self::input(other),
        }
    }
}

impl From<lab::device::DeviceError> for Failure {
    fn from(error: lab::device::DeviceError) -> Self {
        LabError::from(error).into()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_sources_only_show() {
        let Failure::Input(fault) = Failure::input("a\u{1b}[2J\nb \\n") else { panic!("no fault of the input") };
        assert_eq!(fault.to_string(), "a\\u{1b}[2J\nb \\n");
        let text = "rw=\u{1b}[31m\u{202e}x\r\n\tµs\u{9b}";
        assert_eq!(veiled(text), "rw=?[31m???x?\n\tµs??");
        assert_eq!(veiled(text).len(), text.len());
    }
}
