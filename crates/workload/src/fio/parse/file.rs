//! A whole job file.

use std::collections::BTreeMap;

use super::conflict::conflict;
use super::ini::{self, Line, Setting};
use super::options::{EngineKind, Options, Verify};
use super::table::{Action, OptionSpec, find, option_specs};
use super::value::Value;
use super::{ParseError, ParseErrorKind, Span, unsupported};
use crate::fio::report::Operation;

/// A job file, or several given settings, as typed jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFile {
    /// Settings of all `[global]` sections, as given, in order.
    pub global: Vec<(String, String)>,
    /// The jobs, in file order; one per section, whatever its `numjobs`.
    pub jobs: Vec<Job>,
    /// What a reader should know about how the file was understood.
    pub notes: Vec<String>,
}

/// One section of a job file.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The section's name.
    pub name: String,
    /// Name of the file it stands in.
    pub file: String,
    /// Line of its header, from 1.
    pub line: usize,
    /// What holds for it: the globals above it, its own settings, the overrides.
    pub options: Options,
    /// Its own settings and the overrides, as given.
    pub given: Vec<(String, String)>,
}

/// Where a job file comes from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its name, for messages.
    pub name: &'a str,
    /// Its bytes.
    pub text: &'a [u8],
    /// What `${NAME}` stands for.
    pub variables: &'a BTreeMap<String, String>,
    /// `option=value` texts that win over the file in every job, as a sweep
    /// or a command line gives them.
    pub overrides: &'a [String],
}

impl Job {
    /// Every kind of operation that it may come to do, besides reports of zones.
    pub fn operations(&self) -> Vec<Operation> {
        let options = &self.options;
        let pattern = options.pattern;
        let verifies = pattern.writes && options.do_verify && options.verify != Verify::None;
        let syncs = options.fsync > 0 || options.fdatasync > 0 || options.end_fsync || options.fsync_on_close;
        let zones = &options.zones;
        let rewrites = pattern.writes || pattern.trims || zones.initial_reset;
        let all = [
            (Operation::Read, pattern.reads || verifies),
            (Operation::Write, pattern.writes),
            (Operation::Trim, pattern.trims),
            (Operation::Sync, syncs),
            (Operation::Reset, zones.zbd && rewrites),
            (Operation::Finish, zones.zbd && zones.finish_bytes.is_some()),
        ];
        all.into_iter().filter(|(_, may)| *may).map(|(operation, _)| operation).collect()
    }
}

impl JobFile {
    /// What errors call the overrides, whose line is their number.
    pub const OVERRIDE: &'static str = "override";

    /// Bound on the threads of all jobs together.
    pub const MAX_THREADS: u32 = 4_096;

    /// Bound on the I/Os all of them keep in flight.
    pub const MAX_IN_FLIGHT: u64 = 1 << 20;

    /// Reads a job file.
    ///
    /// # Errors
    /// The first fault, with its place in the file.
    pub fn parse(source: &Source<'_>) -> Result<Self, ParseError> {
        let at = |file: &str| {
            let file = file.to_owned();
            move |(span, kind): (Span, ParseErrorKind)| ParseError { file: file.clone(), span, kind }
        };
        let in_file = at(source.name);
        let mut overrides = Vec::new();
        for (number, text) in (1..).zip(source.overrides) {
            overrides.push(ini::setting(text, number, source.variables).map_err(at(Self::OVERRIDE))?);
        }
        let mut globals: Vec<Setting> = Vec::new();
        let mut sections: Vec<Section> = Vec::new();
        let mut current: Option<Scope> = None;
        for line in ini::lines(source.text, source.variables).map_err(&in_file)? {
            match (line, current) {
                (Line::Section { name, .. }, _) if name == "global" => current = Some(Scope::Global),
                (Line::Section { name, line }, _) => {
                    current = Some(Scope::Job);
                    sections.push(Section { name, line, globals: globals.len(), own: Vec::new() });
                }
                (Line::Setting(setting), None) => {
                    return Err(in_file((setting.key_span, ParseErrorKind::OutsideSection)));
                }
                (Line::Setting(setting), Some(Scope::Global)) => globals.push(setting),
                (Line::Setting(setting), Some(Scope::Job)) => {
                    if let Some(section) = sections.last_mut() {
                        section.own.push(setting);
                    }
                }
            }
        }
        // Every global is checked, also one that no job stands below.
        apply(&mut Options::default(), globals.iter()).map_err(&in_file)?;
        if sections.is_empty() {
            return Err(in_file((Span { line: 1, column: 1, offset: 0, length: 0 }, ParseErrorKind::NoJobs)));
        }
        let mut jobs = Vec::new();
        for section in &sections {
            let mut options = Options::default();
            let globals = &globals[..section.globals];
            apply(&mut options, globals.iter().chain(&section.own)).map_err(&in_file)?;
            apply(&mut options, overrides.iter()).map_err(at(Self::OVERRIDE))?;
            if let Some(conflict) = conflict(&options) {
                let span = section.own.last().or(globals.last()).map_or(Span::default(), |last| last.key_span);
                let kind = ParseErrorKind::Conflict { job: section.name.clone(), conflict };
                return Err(in_file((span, kind)));
            }
            let given = section.own.iter().chain(&overrides).map(Setting::as_given).collect();
            jobs.push(Job {
                name: section.name.clone(),
                file: source.name.to_owned(),
                line: section.line,
                options,
                given,
            });
        }
        let sum = |of: fn(&Options) -> u64| jobs.iter().map(|job: &Job| of(&job.options)).sum();
        let threads: u64 = sum(|options| u64::from(options.numjobs));
        let in_flight: u64 = sum(|options| u64::from(options.numjobs) * u64::from(options.depth()));
        let whole = Span { line: 1, column: 1, offset: 0, length: 0 };
        if threads > u64::from(Self::MAX_THREADS) {
            return Err(in_file((whole, ParseErrorKind::TooManyThreads { threads })));
        }
        if in_flight > Self::MAX_IN_FLIGHT {
            return Err(in_file((whole, ParseErrorKind::TooManyInFlight { in_flight })));
        }
        let notes = notes(&jobs);
        Ok(Self { global: globals.iter().map(Setting::as_given).collect(), jobs, notes })
    }

    /// The jobs as a job file without globals, every option that is not at its
    /// default in its plainest form: read back, it gives the same options.
    pub fn print(&self) -> String {
        self.jobs.iter().map(Job::print).collect::<Vec<_>>().join("\n")
    }
}

impl Job {
    /// The job as a section of a job file; see [`JobFile::print`].
    pub fn print(&self) -> String {
        let mut text = format!("[{}]\n", self.name);
        for spec in option_specs() {
            if let Action::Typed { print, .. } = spec.action
                && let Some(value) = print(&self.options)
            {
                text += &format!("{}={value}\n", spec.name);
            }
        }
        text
    }
}

#[derive(Clone, Copy)]
enum Scope {
    Global,
    Job,
}

struct Section {
    name: String,
    line: usize,
    /// How many global settings stand above it.
    globals: usize,
    own: Vec<Setting>,
}

impl Setting {
    fn as_given(&self) -> (String, String) {
        (self.key.clone(), self.value.clone().unwrap_or_else(|| "1".to_owned()))
    }
}

fn apply<'a>(
    options: &mut Options,
    settings: impl Iterator<Item = &'a Setting> + Clone,
) -> Result<(), (Span, ParseErrorKind)> {
    // kb_base holds for the whole section, wherever it stands in it.
    for setting in settings.clone().filter(|setting| setting.key == "kb_base") {
        set(options, setting)?;
    }
    for setting in settings {
        set(options, setting)?;
    }
    Ok(())
}

fn set(options: &mut Options, setting: &Setting) -> Result<(), (Span, ParseErrorKind)> {
    let Some(spec) = find(&setting.key) else {
        return Err((setting.key_span, unsupported::explain(&setting.key)));
    };
    let OptionSpec { flag, form, .. } = *spec;
    let Action::Typed { set, .. } = spec.action else { return Ok(()) };
    let text = match &setting.value {
        Some(text) => text.as_str(),
        None if flag => "1",
        None => {
            let kind = ParseErrorKind::MissingValue { option: setting.key.clone(), form: form.to_owned() };
            return Err((setting.key_span, kind));
        }
    };
    // A flag with an empty value is a flag, as `norandommap=` is in fio.
    let text = if flag && text.is_empty() { "1" } else { text };
    set(options, Value { text, kb_base: options.kb_base })
        .map_err(|error| (setting.value_span, ParseErrorKind::Value { option: setting.key.clone(), error }))
}

fn notes(jobs: &[Job]) -> Vec<String> {
    // Passthrough and drivers in user space have no page cache to pass by.
    let cached = |job: &&Job| !matches!(job.options.engine.kind, EngineKind::UringCommand | EngineKind::Spdk);
    let unsaid: Vec<&str> =
        jobs.iter().filter(cached).filter(|job| job.options.direct.is_none()).map(|job| job.name.as_str()).collect();
    let mut notes = Vec::new();
    if !unsaid.is_empty() {
        notes.push(format!(
            "no page cache is modelled: {} without direct=1 run{} as if it were given",
            unsaid.join(", "),
            if unsaid.len() == 1 { "s" } else { "" }
        ));
    }
    for job in jobs {
        if job.options.engine.kind == EngineKind::Synchronous && job.options.iodepth > 1 {
            notes.push(format!(
                "{}: ioengine={} keeps one I/O in flight, not iodepth={}",
                job.name, job.options.engine.name, job.options.iodepth
            ));
        }
    }
    notes
}
