//! fio job files: read, run against the modelled stack, printed as fio prints.
//!
//! The options understood are listed in `docs/fio-options.md`; behaviour follows
//! fio 3.33 unless an option's entry there says otherwise.

pub mod generate;
pub mod output;
pub mod parse;
pub mod report;
pub mod run;

pub use parse::{Job, JobFile, Options, ParseError, ParseErrorKind, Span, Unified};
pub use report::{Direction, DirectionReport, JobReport, PerDirection};
pub use run::{Run, start};
