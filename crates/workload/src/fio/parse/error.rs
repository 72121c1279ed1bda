//! What is wrong with a job file, and where.

use super::ValueError;

/// A place in a job file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Byte offset in the file.
    pub offset: usize,
    /// Length in bytes.
    pub length: usize,
}

/// A job file that cannot be run, with the place of the fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{}:{}: {kind}", span.line, span.column)]
pub struct ParseError {
    /// Name of the job file, or `override` for an option given beside it.
    pub file: String,
    /// Where in it.
    pub span: Span,
    /// What.
    pub kind: ParseErrorKind,
}

/// What is wrong with a job file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseErrorKind {
    /// Bytes that are not UTF-8.
    #[error("the file is not text (UTF-8) here")]
    NotText,
    /// An option before the first section.
    #[error("this line stands before the first section; put `[global]` or a job name in brackets above it")]
    OutsideSection,
    /// A section header without its closing bracket.
    #[error("the section name lacks its closing `]`")]
    UnclosedSection,
    /// A section header without a name.
    #[error("the section has no name; write one between the brackets")]
    UnnamedSection,
    /// An include directive.
    #[error("`include` is not supported; paste the included lines here")]
    Include,
    /// A name fio does not have either.
    #[error("unknown option `{option}`{}", nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    UnknownOption {
        /// The name given.
        option: String,
        /// The supported option most like it, where one is.
        nearest: Option<String>,
    },
    /// An option fio has and the model does not.
    #[error("fio's option `{option}` is not supported: {why}")]
    UnsupportedOption {
        /// The name given.
        option: String,
        /// Why, and what to do instead.
        why: String,
    },
    /// An option without the value it needs.
    #[error("option `{option}` needs a value: write `{option}={form}`")]
    MissingValue {
        /// The option.
        option: String,
        /// What its value looks like.
        form: String,
    },
    /// A value the option does not take.
    #[error("option `{option}`: {error}")]
    Value {
        /// The option.
        option: String,
        /// What is wrong.
        error: ValueError,
    },
    /// A `${` without its brace.
    #[error("`${{` lacks its closing `}}`")]
    UnclosedVariable,
    /// A file without a job.
    #[error("the file has no job; add a section such as `[job1]`")]
    NoJobs,
    /// More threads than the model takes.
    #[error("the jobs make {threads} threads; at most {} are supported: lower numjobs", super::JobFile::MAX_THREADS)]
    TooManyThreads {
        /// Threads of all jobs.
        threads: u64,
    },
    /// More I/Os in flight than the model takes.
    #[error(
        "the jobs keep {in_flight} I/Os in flight; at most {} are supported: lower iodepth or numjobs",
        super::JobFile::MAX_IN_FLIGHT
    )]
    TooManyInFlight {
        /// I/Os of all jobs.
        in_flight: u64,
    },
    /// Options that cannot stand together.
    #[error("job `{job}`: {conflict}")]
    Conflict {
        /// The job's name.
        job: String,
        /// What cannot stand together, and the remedy.
        conflict: String,
    },
}
