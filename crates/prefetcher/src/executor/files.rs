//! What is known of each file: whether it is wanted, by its path, and how much its device loads at once.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::device::{self, Windows};
use super::open::Opened;
use crate::PrefetcherError;
use crate::settings::Settings;

/// Files whose paths are remembered; all are forgotten when there are more.
const REMEMBERED: usize = 65_536;

/// What the paths say.
pub enum Verdict {
    /// It is to be loaded.
    Wanted {
        /// How its device is read ahead.
        windows: Windows,
    },
    /// It is left alone.
    Refused,
}

/// Files and devices that were asked for.
pub struct Files {
    include: Option<GlobSet>,
    exclude: GlobSet,
    wanted: HashMap<(u64, u64), bool>,
    devices: BTreeMap<u64, Windows>,
}

impl Files {
    /// With the patterns of the settings.
    pub fn new(settings: &Settings) -> Result<Self, PrefetcherError> {
        let include = if settings.include.is_empty() { None } else { Some(patterns(&settings.include)?) };
        let exclude = patterns(&settings.exclude)?;
        Ok(Self { include, exclude, wanted: HashMap::new(), devices: BTreeMap::new() })
    }

    /// Whether an open file is wanted.
    pub fn look(&mut self, dev: u64, ino: u64, opened: &Opened) -> Verdict {
        if self.wanted.len() >= REMEMBERED {
            self.wanted.clear();
        }
        let (include, exclude) = (&self.include, &self.exclude);
        let wanted = *self.wanted.entry((dev, ino)).or_insert_with(|| {
            let path = std::fs::read_link(format!("/proc/self/fd/{}", opened.file.as_raw_fd())).unwrap_or_default();
            let matches = |set: &GlobSet| matches(set, &path);
            include.as_ref().is_none_or(matches) && !matches(exclude)
        });
        if !wanted {
            return Verdict::Refused;
        }
        Verdict::Wanted {
            windows: *self.devices.entry(dev).or_insert_with(|| device::windows(dev, opened.file.as_fd())),
        }
    }
}

/// A pattern is held against the whole path, and one without a slash against the name.
fn matches(set: &GlobSet, path: &Path) -> bool {
    set.is_match(path) || path.file_name().is_some_and(|name| set.is_match(name))
}

fn patterns(texts: &[String]) -> Result<GlobSet, PrefetcherError> {
    let wrong = |error: globset::Error| PrefetcherError::Settings(format!("include, exclude: {error}"));
    let mut builder = GlobSetBuilder::new();
    for text in texts {
        builder.add(Glob::new(text).map_err(wrong)?);
    }
    builder.build().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_of_paths_and_of_names() {
        let set = patterns(&["/srv/**/*.sst".into(), "*.log".into(), "model.safetensors".into()]).unwrap();
        for (path, expected) in [
            ("/srv/db/1/000012.sst", true),
            ("/home/you/000012.sst", false),
            ("/var/log/a.log", true),
            ("/models/model.safetensors", true),
            ("/models/model.safetensors.txt", false),
        ] {
            assert_eq!(matches(&set, Path::new(path)), expected, "{path}");
        }
        let error = patterns(&["a[".into()]).unwrap_err().to_string();
        assert!(error.contains("a["), "{error}");
    }
}
