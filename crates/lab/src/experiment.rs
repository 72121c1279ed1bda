//! An experiment: a spec as a file or a command line gives it, its points, and what it names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::quantity::{MetricPlan, Values};
use crate::results::RunResult;
use crate::spec::{self, Override, Point, Spec, SpecError, SpecSource, hash_document};

/// A parsed spec with the document and the folder it came from.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Short name: the file's stem.
    pub name: String,
    /// The document after overrides.
    pub document: toml::Table,
    /// The document, typed.
    pub spec: Spec,
    /// Where relative paths in the spec start.
    pub folder: PathBuf,
    /// The user's file, for errors.
    pub source: SpecSource,
    points: Vec<Arc<Point>>,
    plan: MetricPlan,
}

impl Experiment {
    /// Reads a spec file and applies `overrides`.
    pub fn load(path: &Path, overrides: &[Override]) -> Result<Self, SpecError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| SpecError::Unreadable { path: path.to_owned(), source })?;
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Self::parse(&name, &path.display().to_string(), &text, &folder, overrides)
    }

    /// Parses a spec's text; `origin` names it in errors.
    pub fn parse(
        name: &str,
        origin: &str,
        text: &str,
        folder: &Path,
        overrides: &[Override],
    ) -> Result<Self, SpecError> {
        // Typed first, straight from the text: only this way do errors know their line.
        toml::from_str::<Spec>(text).map_err(|error| SpecError::from_toml(origin, text, &error))?;
        let document: toml::Table = toml::from_str(text).map_err(|error| SpecError::from_toml(origin, text, &error))?;
        Self::from_document(name, document, overrides, folder, SpecSource::spec(origin, text))
    }

    /// Types `document` with changes; `source` is the user's file, for errors.
    pub fn from_document(
        name: &str,
        mut document: toml::Table,
        overrides: &[Override],
        folder: &Path,
        source: SpecSource,
    ) -> Result<Self, SpecError> {
        let original = document.clone();
        for item in overrides {
            item.apply(&mut document)?;
        }
        let spec = Spec::deserialize(document.clone()).map_err(|error| SpecError::Override {
            change: culprit(original, overrides),
            swept: None,
            message: error.message().trim_end().to_owned(),
        })?;
        let (name, folder) = (name.to_owned(), folder.to_owned());
        let mut experiment =
            Self { name, document, spec, folder, source, points: Vec::new(), plan: MetricPlan::default() };
        experiment.check().map_err(|error| error.placed(&experiment.source))?;
        // Every point must type-check before the first one runs.
        let points = spec::expand(&experiment.spec, &experiment.document);
        experiment.points = points.map_err(|error| error.placed(&experiment.source))?;
        let plan = MetricPlan::read(&experiment.spec, &experiment.points);
        experiment.plan = plan.map_err(|error| error.placed(&experiment.source))?;
        Ok(experiment)
    }

    fn check(&self) -> Result<(), SpecError> {
        let workload = &self.spec.workload;
        let given = [
            workload.fio.is_some(),
            workload.fio_file.is_some(),
            workload.trace.is_some(),
            workload.journal.is_some(),
            workload.defrag.is_some(),
            workload.program.is_some(),
        ];
        if given.iter().filter(|given| **given).count() != 1 {
            return Err(SpecError::WorkloadChoice);
        }
        if self.spec.run.repeats == 0 {
            return Err(SpecError::NoRepeats);
        }
        self.check_keys()
    }

    /// Whether every key that plots, published values and the like use is swept.
    fn check_keys(&self) -> Result<(), SpecError> {
        let spec = &self.spec;
        let mut used: Vec<(&'static str, &String)> = Vec::new();
        used.extend(spec.published.iter().flat_map(|row| row.at.keys()).map(|key| ("[[published]] at", key)));
        used.extend(
            spec.plot.iter().flat_map(|plot| [&plot.x].into_iter().chain(&plot.series)).map(|key| ("[[plot]]", key)),
        );
        let maps = spec.heat_map.iter().flat_map(|map| [&map.x, &map.y].into_iter().chain(&map.by));
        used.extend(maps.map(|key| ("[[heat_map]]", key)));
        used.extend(
            spec.derived.iter().flat_map(|row| row.at.keys().chain(row.to.keys())).map(|key| ("[[derived]]", key)),
        );
        used.extend(spec.derived.iter().flat_map(|row| &row.over).map(|key| ("[[derived]] over", key)));
        let interference = spec.interference.iter().flat_map(|section| section.without.keys().chain(&section.over));
        used.extend(interference.map(|key| ("[interference]", key)));
        match used.into_iter().find(|(_, key)| !spec.sweep.contains_key(*key)) {
            Some((place, key)) => Err(SpecError::NotSwept { key: key.clone(), place }),
            None => Ok(()),
        }
    }

    /// The points of the sweep, in order.
    pub fn points(&self) -> &[Arc<Point>] {
        &self.points
    }

    /// What it names, parsed.
    pub fn plan(&self) -> &MetricPlan {
        &self.plan
    }

    /// What `points` of it yield in their `runs`, both in the sweep's order.
    pub fn values<'a>(&'a self, points: &'a [Arc<Point>], runs: &'a [RunResult]) -> Values<'a> {
        Values::new(&self.spec, self.plan.streams.as_ref(), points, runs)
    }

    /// Identity of the experiment: 16 hex digits of the BLAKE3 hash of the
    /// document after overrides.
    pub fn hash(&self) -> String {
        hash_document(&self.document)
    }
}

/// The first change with which `document` is no spec.
fn culprit(mut document: toml::Table, overrides: &[Override]) -> Option<String> {
    let spoils = |item: &&Override| item.apply(&mut document).is_err() || Spec::deserialize(document.clone()).is_err();
    overrides.iter().find(spoils).map(Override::said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_of_the_meaning() {
        let spec = |text: &str| {
            let text = format!("title = 't'\nworkload.fio = '[j]'\n{text}");
            Experiment::parse("a", "a.toml", &text, Path::new(""), &[]).unwrap().hash()
        };
        let plain = spec("stack.device = 'x'\nrun.seed = 1\n");
        assert_eq!(plain, spec("run = { seed = 1 } # the same\nstack = { device = 'x' }\n"));
        assert_ne!(plain, spec("stack.device = 'x'\nrun.seed = 2\n"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_an_answer(text in "[ -~\n]{0,200}") {
            let _ = Experiment::parse("a", "a.toml", &text, Path::new(""), &[]);
        }

        #[test]
        fn any_override_is_an_answer(text in "[ -~]{0,60}") {
            if let Ok(change) = text.parse::<Override>() {
                let _ = change.apply(&mut toml::Table::new());
            }
        }
    }
}
