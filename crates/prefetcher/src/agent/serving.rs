//! Prefetching for programs in control groups that the agent was told of: seen in the kernel, loaded by the executor.

use std::path::PathBuf;

use observe::cgroups::Cgroup;
use observe::mounts::Mounts;

use crate::PrefetcherError;
use crate::executor::{Executor, Report};
use crate::settings::Settings;
use crate::table::Shared;
use crate::watch::{Watch, Watched};

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

    /// Ends it: reads that were seen, and what was done.
    pub fn finish(self) -> (u64, Report) {
        let seen = self.watch.seen();
        drop(self.watch);
        drop(self.shared);
        (seen, self.executor.finish().0)
    }
}
