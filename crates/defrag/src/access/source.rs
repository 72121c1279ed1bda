//! The ways of tracing the running kernel, behind one interface.

use std::fmt;
use std::str::FromStr;

use super::error::TraceError;
use super::filter::Selection;
use super::recorder::Recorder;

/// A way of tracing the running kernel.
///
/// | | sees | cost for a program | filters in the kernel |
/// |---|---|---|---|
/// | `bpf` | reads, direct and mapped access, readahead windows, writes | least | all |
/// | `tracefs` | the same | little; events are lost where they come faster than they are read | place, processes |
/// | `fanotify` | the ranges of reads and writes alike, on kernels from 6.14 on | a switch to Plumb and back for each access | place |
///
/// Measured costs are in `docs/defrag-trace.md`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SourceKind {
    /// Tracepoints counted in the kernel, in a BPF hash map.
    Bpf,
    /// The same tracepoints as text of a private tracefs instance.
    Tracefs,
    /// Pre-content permission events of fanotify(7).
    Fanotify,
}

impl SourceKind {
    /// In the order in which they are tried if none is asked for.
    pub const ALL: [Self; 3] = [Self::Bpf, Self::Tracefs, Self::Fanotify];

    /// As on the command line and in trace files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bpf => "bpf",
            Self::Tracefs => "tracefs",
            Self::Fanotify => "fanotify",
        }
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SourceKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| format!("`{text}` is no source of traces; there are bpf, tracefs and fanotify"))
    }
}

/// One running source. Dropping it ends the tracing and leaves nothing behind.
pub(super) trait Source {
    /// Hands over what has come since the last call, without waiting for more.
    fn collect(&mut self, into: &mut Recorder) -> Result<(), TraceError>;

    /// Ends the tracing and hands over the rest.
    fn stop(&mut self, into: &mut Recorder) -> Result<(), TraceError>;
}

/// Starts the source of this kind.
pub(super) fn start(kind: SourceKind, selection: &Selection) -> Result<Box<dyn Source>, TraceError> {
    Ok(match kind {
        SourceKind::Bpf => Box::new(super::bpf::Bpf::start(selection)?),
        SourceKind::Tracefs => Box::new(super::tracefs::Tracefs::start(selection)?),
        SourceKind::Fanotify => Box::new(super::fanotify::Fanotify::start(selection)?),
    })
}
