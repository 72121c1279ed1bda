//! What to look at and what to assume: the arguments that `scan` and `run` share, and the plan made of them.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use defrag::KeepFree;
use defrag::access::{Located, Trace, locate};
use defrag::analysis::Hotness;
use defrag::extents::WriteBack;
use defrag::plan::{Mode, Plan, SkipReason};
use defrag::run::{Attempts, Origin, TraceOrigin, absolute};
use defrag::scan::{Counts, ScanOptions, Scanner};
use indicatif::{ProgressBar, ProgressStyle};
use units::{ByteSize, Printable};

use crate::failure::Failure;

/// Least and most bytes of an assumed read.
const READS_BYTES: std::ops::RangeInclusive<u64> = 4096..=1 << 30;

/// The readahead window that is assumed unless another is given.
const READAHEAD: ByteSize = ByteSize(defrag::analysis::READAHEAD_BYTES);

/// Which files, and for which I/O.
#[derive(Args)]
pub struct Choice {
    /// Files and folders, these with all that lies on their file system [default with --trace: every traced file]
    paths: Vec<PathBuf>,
    /// Plan for the I/O that this trace has
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// traced: what the trace touches; bypass: as if files were read from end to end;
    /// whole: every byte, as conventional tools do [default: traced with --trace, otherwise bypass]
    #[arg(long, value_name = "traced|bypass|whole")]
    mode: Option<Mode>,
    /// Keep the hottest windows of each traced file only, in per cent of their number
    #[arg(long, value_name = "PCT", default_value = "100")]
    hotness: Hotness,
    /// The readahead window where no trace tells it, and the reads that bypass and whole assume
    #[arg(long, value_name = "SIZE", default_value = "128KiB")]
    readahead: ByteSize,
    /// Move shared extents too: reflinked or snapshotted data is copied and takes up room twice
    #[arg(long)]
    shared: bool,
    /// Leave so much free space, a size or a share such as 10% [default: 5% of the file system, 1GiB at most]
    #[arg(long, value_name = "SIZE|PCT%")]
    keep_free: Option<KeepFree>,
}

/// A plan, and how it was come by.
pub struct Found {
    pub plan: Plan,
    pub counts: Counts,
    /// File systems whose device does not say how large a request may be.
    pub without_limits: usize,
    /// Ended by a signal.
    pub interrupted: bool,
}

/// What was asked for, checked, with its trace.
pub struct Chosen<'a> {
    choice: &'a Choice,
    mode: Mode,
    /// The trace, and the BLAKE3 of its file.
    trace: Option<(Trace, TraceOrigin)>,
}

impl Choice {
    /// Whether shared extents are to be moved.
    pub fn shared(&self) -> bool {
        self.shared
    }

    /// Free space that is to be left.
    pub fn keep_free(&self) -> KeepFree {
        self.keep_free.unwrap_or_default()
    }

    /// Whether it says what to look at.
    pub fn is_given(&self) -> bool {
        !self.paths.is_empty() || self.trace.is_some()
    }

    /// Checks it, and reads the trace.
    pub fn load(&self) -> Result<Chosen<'_>, Failure> {
        let mode = self.mode()?;
        if !READS_BYTES.contains(&self.readahead.0) || !self.readahead.0.is_multiple_of(4096) {
            return Err(Failure::input("--readahead is a multiple of 4KiB up to 1GiB, such as 128KiB"));
        }
        let load = |path: &PathBuf| {
            let (trace, blake3) = Trace::load_identified(path).map_err(Failure::input)?;
            Ok::<_, Failure>((trace, TraceOrigin { path: absolute(path), blake3 }))
        };
        let trace = self.trace.as_ref().filter(|_| mode == Mode::Traced).map(load).transpose()?;
        Ok(Chosen { choice: self, mode, trace })
    }

    /// What is given of an origin although nothing says what to look at: with the journal's in place of the rest.
    pub fn over(&self, origin: &Origin) -> Origin {
        Origin {
            mode: self.mode.unwrap_or(origin.mode),
            hotness_percent: if self.hotness == Hotness::ALL { origin.hotness_percent } else { self.hotness.percent() },
            readahead_bytes: if self.readahead == READAHEAD { origin.readahead_bytes } else { self.readahead.0 },
            shared: self.shared || origin.shared,
            ..origin.clone()
        }
    }

    fn mode(&self) -> Result<Mode, Failure> {
        let mode = match (self.mode, &self.trace) {
            (Some(mode), _) => mode,
            (None, Some(_)) => Mode::Traced,
            (None, None) => Mode::Bypass,
        };
        if mode == Mode::Traced && self.trace.is_none() {
            return Err(Failure::input(
                "--mode traced needs a trace; record one with `plumb defrag trace` and name it with --trace, or take --mode bypass",
            ));
        }
        if mode != Mode::Traced && self.paths.is_empty() {
            return Err(Failure::input("name the files or folders to look at, or a trace with --trace"));
        }
        if mode != Mode::Traced && self.hotness != Hotness::ALL {
            return Err(Failure::input(format!(
                "--hotness ranks what a trace has touched, and mode {mode} has none; leave it out, or take --mode traced"
            )));
        }
        Ok(mode)
    }
}

impl Chosen<'_> {
    /// What a plan is made from.
    pub fn origin(&self, open_files: bool) -> Origin {
        Origin {
            paths: self.choice.paths.iter().map(|path| absolute(path)).collect(),
            trace: self.trace.as_ref().map(|(_, origin)| origin.clone()),
            mode: self.mode,
            hotness_percent: self.choice.hotness.percent(),
            readahead_bytes: self.choice.readahead.0,
            shared: self.choice.shared,
            open_files,
        }
    }

    /// Looks at everything asked for.
    pub fn plan(
        &self,
        budget_bytes: Option<u64>,
        write_back: WriteBack,
        open: bool,
        quiet: bool,
        stop: &AtomicBool,
    ) -> Result<Found, Failure> {
        let options = ScanOptions {
            mode: self.mode,
            readahead_bytes: self.choice.readahead.0,
            hotness: self.choice.hotness,
            shared: self.choice.shared,
            open,
            keep_free: self.choice.keep_free(),
            write_back,
        };
        let attempts = Attempts::place().map(|path| Attempts::load(&path)).unwrap_or_default();
        let mut scanner = Scanner::new(options).knowing(attempts);
        let bar = spinner(quiet);
        let interrupted = match &self.trace {
            Some((trace, _)) => self.traced(&mut scanner, trace, &bar, stop)?,
            None => self.walked(&mut scanner, &bar, stop)?,
        };
        bar.finish_and_clear();
        let (counts, without_limits) = (scanner.counts(), scanner.without_limits());
        Ok(Found { plan: scanner.finish(budget_bytes), counts, without_limits, interrupted })
    }

    fn walked(&self, scanner: &mut Scanner, bar: &ProgressBar, stop: &AtomicBool) -> Result<bool, Failure> {
        for path in &self.choice.paths {
            let mut watch = |counts: &Counts, path: &Path| watch(bar, stop, counts, path);
            if scanner.walk(path, &mut watch).map_err(Failure::input)?.is_break() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Every file of the trace that lies under one of the paths.
    fn traced(
        &self,
        scanner: &mut Scanner,
        trace: &Trace,
        bar: &ProgressBar,
        stop: &AtomicBool,
    ) -> Result<bool, Failure> {
        let roots = roots(&self.choice.paths)?;
        let mut is_touched = vec![false; roots.len()];
        let accesses = trace.by_file();
        for located in located(trace)? {
            let (path, now) = match located.now {
                Ok(found) => found,
                // Where it was is not known, so that it belongs to every choice of paths.
                Err(why) => {
                    let path = trace.files.get(&located.file).cloned().flatten();
                    scanner.skip(&path.unwrap_or_else(|| located.file.to_string().into()), SkipReason::Unreadable(why));
                    continue;
                }
            };
            let mut chosen = roots.is_empty();
            for (root, is_touched) in roots.iter().zip(&mut is_touched) {
                let is_under = path.starts_with(root);
                chosen |= is_under;
                *is_touched |= is_under;
            }
            if chosen {
                scanner.traced(&path, now, accesses.get(&located.file).map_or(&[], Vec::as_slice));
                if watch(bar, stop, &scanner.counts(), &path).is_break() {
                    return Ok(true);
                }
            }
        }
        for (path, is_touched) in self.choice.paths.iter().zip(is_touched) {
            if !is_touched {
                scanner.skip(path, SkipReason::NotTraced);
            }
        }
        Ok(false)
    }
}

/// The files and folders that traced files have to be, or lie under: their real paths.
pub fn roots(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let real = |path: &PathBuf| {
        path.canonicalize()
            .map_err(|error| Failure::input(format!("cannot look at {}: {error}", Printable::path(&path))))
    };
    paths.iter().map(real).collect()
}

/// Where the files of a trace are now.
pub fn located(trace: &Trace) -> Result<Vec<Located>, Failure> {
    locate(trace).map_err(|error| Failure::Machine(error.to_string()))
}

fn watch(bar: &ProgressBar, stop: &AtomicBool, counts: &Counts, path: &Path) -> ControlFlow<()> {
    bar.set_position(counts.files);
    // Formatting a path for each of a million files would cost more than looking at them.
    if !bar.is_hidden() && counts.files.is_multiple_of(256) {
        bar.set_message(Printable::path(&path).to_string());
    }
    if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Files looked at and their rate; nothing where standard error is no terminal.
fn spinner(quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {human_pos} files ({per_sec})  {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
