//! What says which pages of a file are in memory, and has the kernel load those that are not: sources behind one interface, chosen
//! by what there is.

pub mod bits;
pub mod bpf;
pub mod cachemap;
pub mod cachestat;
pub(crate) mod halving;
mod none;

use std::io;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::path::Path;

use prefetch::{PAGE_BYTES, Range};
use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};

use crate::PrefetcherError;
use crate::agent::client::Agent;
use crate::mutants::{Mutant, mutated};

/// A source.
pub trait Residency: Send + Sync {
    /// Pages of a range that are in memory; none where nobody says.
    fn resident_pages(&self, file: BorrowedFd<'_>, range: Range) -> Option<u64>;

    /// Whether all of a range is in memory, but for a tenth; none where nobody says.
    fn is_resident(&self, file: BorrowedFd<'_>, range: Range) -> Option<bool> {
        let pages = range.bytes().div_ceil(PAGE_BYTES);
        let resident = self.resident_pages(file, range)?;
        Some(resident * 10 >= pages * 9 || resident > 0 && mutated(Mutant::PageIsWindow))
    }

    /// Most bytes that one call of [`load`](Self::load) loads, where the kernel's own calls take `clamp_bytes` and say nothing of the rest.
    fn most_bytes(&self, clamp_bytes: u64) -> u64 {
        clamp_bytes
    }

    /// Begins to load a range by one call, without waiting: the bytes that were asked for.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn load(&self, file: BorrowedFd<'_>, range: Range) -> io::Result<u64> {
        let Some(length) = NonZeroU64::new(range.bytes()) else { return Ok(0) };
        fadvise(file, range.start_bytes, Some(length), Advice::WillNeed)?;
        Ok(range.bytes())
    }
}

/// Which source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The best that there is
    #[default]
    Auto,
    /// Nothing is known: what is foreseen is asked for
    None,
    /// cachestat(2): how many pages of a range
    Cachestat,
    /// Bitmaps that BPF programs keep: of the agent, or of programs of its own, which takes CAP_BPF and CAP_PERFMON
    Bpf,
    /// cachemap(2) of the kernel `cachemap`: page by page, and without a limit
    Call,
    /// The published record of what readahead has asked for, of the same kernel
    Bitmap,
}

/// The names that people use.
const NAMES: [(Source, &str); 6] = [
    (Source::Auto, "auto"),
    (Source::None, "none"),
    (Source::Cachestat, "cachestat"),
    (Source::Bpf, "bpf"),
    (Source::Call, "call"),
    (Source::Bitmap, "bitmap"),
];

impl Source {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(source, _)| *source == self).map_or("", |(_, name)| name)
    }

    /// The source. `Auto` takes the best that is there: the call, the agent that listens at this path, cachestat, nothing.
    ///
    /// # Errors
    /// Where one is named that there is not, with what is missing.
    pub fn open(self, agent: &Path) -> Result<Box<dyn Residency>, PrefetcherError> {
        let missing = |what: &str| PrefetcherError::Settings(format!("--residency {}: {what}", self.name()));
        let agent = || Agent::connect(agent);
        let call = |shadow: bool| cachemap::Cachemap::new(shadow);
        Ok(match self {
            Self::None => Box::new(none::Nothing),
            Self::Auto => match (call(false), agent(), cachestat::is_there()) {
                (Some(call), ..) => Box::new(call),
                (None, Ok(agent), _) => Box::new(agent),
                (None, Err(_), true) => Box::new(cachestat::Cachestat),
                (None, Err(_), false) => Box::new(none::Nothing),
            },
            Self::Cachestat if cachestat::is_there() => Box::new(cachestat::Cachestat),
            Self::Cachestat => return Err(missing("this kernel has no cachestat (Linux 6.5 and newer)")),
            Self::Bpf => match agent() {
                Ok(agent) => Box::new(agent),
                Err(_) => Box::new(bpf::Bpf::attach().map_err(|error| missing(&error.to_string()))?),
            },
            Self::Call | Self::Bitmap => {
                let there = call(self == Self::Bitmap);
                Box::new(there.ok_or_else(|| missing("this kernel has no such call (plumb linux --kernel cachemap)"))?)
            }
        })
    }
}

impl std::str::FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(source, _)| *source).ok_or_else(|| format!("one of {}", NAMES.map(|(_, name)| name).join(", ")))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::fd::AsFd;

    use super::*;

    /// So many pages of whatever is asked about.
    struct Pages(Option<u64>);

    impl Residency for Pages {
        fn resident_pages(&self, _: BorrowedFd<'_>, _: Range) -> Option<u64> {
            self.0
        }
    }

    #[test]
    pub(crate) fn a_window_is_there_but_for_a_tenth() {
        let file = tempfile::tempfile().unwrap();
        let range = Range { start_bytes: 0, end_bytes: 100 * PAGE_BYTES - 1 };
        let found = |pages| Pages(pages).is_resident(file.as_fd(), range);
        assert_eq!([Some(0), Some(1), Some(89)].map(found), [Some(false); 3]);
        assert_eq!([Some(90), Some(100)].map(found), [Some(true); 2]);
        assert_eq!(found(None), None, "nobody says");
    }
}
