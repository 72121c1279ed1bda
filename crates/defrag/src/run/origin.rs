//! What a plan was made from.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use units::Printable;

use crate::plan::Mode;

/// The trace of a plan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TraceOrigin {
    /// Where it lay; a trace with another name and the same contents is the same.
    #[serde(with = "crate::path_text")]
    pub path: PathBuf,
    /// BLAKE3 of the file, in hexadecimal digits.
    pub blake3: String,
}

/// What a plan was made from: with the same of everything, a run goes on with that plan.
///
/// Limits (budget, rate, pressure) are not among it: a run may go on with others.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Files and folders to choose from, absolute and without symbolic links; none: all of the trace.
    #[serde(with = "crate::path_text::list")]
    pub paths: Vec<PathBuf>,
    /// The traced I/O.
    pub trace: Option<TraceOrigin>,
    /// How ranges were chosen.
    pub mode: Mode,
    /// Windows kept, in per cent.
    pub hotness_percent: u8,
    /// The readahead window where no trace tells it.
    pub readahead_bytes: u64,
    /// Shared extents, too.
    pub shared: bool,
    /// What other programs have open, too.
    pub open_files: bool,
}

impl Origin {
    /// In what `wanted` is another, in words; empty where it is the same.
    pub fn differences(&self, wanted: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut differ = |is: bool, what: &str, was: &dyn std::fmt::Display| {
            if is {
                found.push(format!("{what} {was}"));
            }
        };
        differ(self.paths != wanted.paths, "of", &names(&self.paths));
        let trace = |origin: &Self| origin.trace.as_ref().map(|trace| trace.blake3.clone());
        let path = self.trace.as_ref().map_or("none".to_owned(), |trace| Printable::path(&trace.path).to_string());
        let same_name = self.trace.as_ref().map(|trace| &trace.path) == wanted.trace.as_ref().map(|trace| &trace.path);
        let was = if same_name { format!("{path} as it was then") } else { path };
        differ(trace(self) != trace(wanted), "of the trace", &was);
        differ(self.mode != wanted.mode, "of mode", &self.mode);
        differ(self.hotness_percent != wanted.hotness_percent, "with --hotness", &self.hotness_percent);
        let readahead = units::ByteSize(self.readahead_bytes);
        differ(self.readahead_bytes != wanted.readahead_bytes, "with --readahead", &readahead);
        let with = |is: bool| if is { "with" } else { "without" };
        differ(self.shared != wanted.shared, with(self.shared), &"--shared");
        differ(self.open_files != wanted.open_files, with(self.open_files), &"--open-files");
        found
    }
}

/// Most paths that a message names.
const MAX_NAMED: usize = 4;

fn names(paths: &[PathBuf]) -> String {
    let name = |path: &PathBuf| Printable::path(path).to_string();
    match paths {
        [] => "all that the trace has".to_owned(),
        _ if paths.len() <= MAX_NAMED => paths.iter().map(name).collect::<Vec<_>>().join(", "),
        _ => format!("{} and {} more", name(&paths[0]), paths.len() - 1),
    }
}

/// The path as it is from any folder: without symbolic links where it is there, otherwise from the root.
pub fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_is_named() {
        let trace = |blake3: &str| Some(TraceOrigin { path: "/a.trace".into(), blake3: blake3.to_owned() });
        let origin = Origin {
            paths: vec!["/srv".into()],
            trace: trace("1"),
            mode: Mode::Traced,
            hotness_percent: 100,
            readahead_bytes: 128 << 10,
            shared: false,
            open_files: false,
        };
        let against = |change: fn(&mut Origin)| {
            let mut other = origin.clone();
            change(&mut other);
            origin.differences(&other)
        };
        assert_eq!(against(|_| ()), [""; 0]);
        assert_eq!(against(|other| other.paths.push("/x".into())), ["of /srv"]);
        assert_eq!(
            against(|other| other.trace.as_mut().unwrap().blake3 = "2".into()),
            ["of the trace /a.trace as it was then"]
        );
        assert_eq!(against(|other| other.trace.as_mut().unwrap().path = "/b".into()), [""; 0]);
        assert_eq!(against(|other| other.trace = None), ["of the trace /a.trace"]);
        assert_eq!(against(|other| other.mode = Mode::Whole), ["of mode traced"]);
        assert_eq!(against(|other| other.hotness_percent = 5), ["with --hotness 100"]);
        assert_eq!(against(|other| other.readahead_bytes = 4096), ["with --readahead 128KiB"]);
        assert_eq!(
            against(|other| (other.shared, other.open_files) = (true, true)),
            ["without --shared", "without --open-files"]
        );
    }
}
