//! Job files as typed values.

mod conflict;
mod document;
mod error;
mod file;
mod ini;
mod options;
mod table;
mod unsupported;
mod value;
mod zone_options;

pub use document::options_document;
pub use error::{ParseError, ParseErrorKind, Span};
pub use file::{Job, JobFile, Source};
pub use options::{
    BlockSizes, Contents, Distribution, Engine, EngineKind, Extent, Options, Pattern, PriorityClass, RateProcess,
    Sequencer, SubmitMode, SyncWrites, Unified, Verify, Zone,
};
pub use table::{OptionSpec, Support, option_specs};
pub use value::ValueError;
pub use zone_options::ZoneOptions;
