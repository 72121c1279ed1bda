//! Prefetching for programs in control groups that the agent was told of: seen in the kernel, loaded by the executor.

use std::path::PathBuf;

use observe::cgroups::Cgroup;
use observe::mounts::Mounts;
use serde::Serialize;

use crate::PrefetcherError;
use crate::executor::{Executor, Report};
use crate::settings::Settings;
use crate::table::Shared;
use crate::watch::{Watch, Watched};

/// What was done for the groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Served {
    /// Reads that were seen.
    pub reads_seen: u64,
    /// What was loaded for them.
    #[serde(flatten)]
    pub report: Report,
}

/// What of it runs.
pub struct Serving {
    watch: Watch,
    shared: Shared,
    executor: Executor,
}

impl Serving {
    /// Begins. All groups have one budget, which the limit of each bounds.
    ///
    /// # Errors
    /// Where one is no control group, or the kernel does not let its reads be watched.
    pub fn begin(groups: &[PathBuf], settings: &Settings) -> Result<Self, PrefetcherError> {
        let mounts = Mounts::now().map_err(PrefetcherError::kernel("tell what is mounted"))?;
        let found = groups.iter().map(|group| Cgroup::of(group, &mounts)).collect::<Result<Vec<_>, _>>();
        let found = found.map_err(|error| PrefetcherError::Settings(error.to_string()))?;
        let shared = Shared::make(settings, false)?;
        let folders = found.iter().map(|group| group.path.clone()).collect();
        let executor = Executor::start(&shared, settings, folders)?;
        let watch = Watch::begin(shared.table(), &Watched::Groups(found));
        match watch {
            Ok(watch) => Ok(Self { watch, shared, executor }),
            Err(error) => {
                executor.finish();
                Err(PrefetcherError::kernel("watch what is read")(error))
            }
        }
    }

    /// What was done until now.
    pub fn so_far(&self) -> Served {
        Served { reads_seen: self.watch.seen(), report: Report::of(self.shared.table(), true) }
    }

    /// Ends it, and says what was done.
    pub fn finish(self) -> Served {
        let reads_seen = self.watch.seen();
        drop(self.watch);
        drop(self.shared);
        Served { reads_seen, report: self.executor.finish().0 }
    }
}
