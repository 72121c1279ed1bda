//! A trace while it is being made.

use super::error::TraceError;
use super::filter::{Filters, Selection};
use super::model::Trace;
use super::recorder::Recorder;
use super::source::{self, Source, SourceKind};

/// How far a recording is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Accesses, equal ones counted each.
    pub events: u64,
    /// Distinct accesses.
    pub distinct: u64,
    /// Accesses that the source dropped.
    pub lost: u64,
}

/// Traces the running kernel from [`Recording::start`] to [`Recording::finish`].
///
/// [`Recording::poll`] has to be called some ten times a second: the kernel's buffers
/// are bounded, and what does not fit is lost (and counted). Dropping a recording ends
/// it and leaves nothing behind in the kernel.
pub struct Recording {
    kind: SourceKind,
    source: Box<dyn Source>,
    recorder: Recorder,
    selection: Selection,
}

impl Recording {
    /// Starts tracing what `filters` let through, by `kind` or, without one, by the
    /// first that is available, in the order of [`SourceKind::ALL`].
    ///
    /// # Errors
    /// [`TraceError::Filter`] for a filter that names nothing; [`TraceError::Unavailable`]
    /// if the kernel refuses (without a `kind`: the refusal of the last one tried).
    pub fn start(kind: Option<SourceKind>, filters: &Filters) -> Result<Self, TraceError> {
        let selection = Selection::of(filters)?;
        let kinds: Vec<SourceKind> = kind.map_or_else(|| SourceKind::ALL.to_vec(), |kind| vec![kind]);
        let mut refusal = None;
        for kind in kinds {
            match source::start(kind, &selection) {
                Ok(source) => return Ok(Self { kind, source, recorder: Recorder::default(), selection }),
                Err(error @ TraceError::Unavailable { .. }) => refusal = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(refusal.unwrap_or(TraceError::Filter { filter: "sources".into(), why: "none was tried".into() }))
    }

    /// By which source.
    pub fn kind(&self) -> SourceKind {
        self.kind
    }

    /// Takes over what has come, and says how far it is. Does not wait.
    pub fn poll(&mut self) -> Result<Progress, TraceError> {
        self.source.collect(&mut self.recorder)?;
        Ok(self.progress())
    }

    /// How far it was at the last `poll`.
    pub fn progress(&self) -> Progress {
        let recorder = &self.recorder;
        Progress { events: recorder.events, distinct: recorder.distinct() as u64, lost: recorder.lost }
    }

    /// Ends the tracing and finds the files of the inodes seen: their paths and
    /// generations.
    pub fn finish(mut self) -> Result<Trace, TraceError> {
        self.source.stop(&mut self.recorder)?;
        super::resolve::trace_of(self.kind.name(), self.recorder, &self.selection)
    }
}
