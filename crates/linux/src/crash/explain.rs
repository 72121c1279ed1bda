//! What a bad state lacks, in words.

use std::path::Path;

use crash::{Event, LogReader};

use super::broken_order::Broken;
use super::survival::Survival;
use super::task::{Acknowledgement, Judged, Lost, Recorded, Verdict};
use crate::error::LinuxError;

/// Everything that was recorded in a folder, to explain what was found there.
pub struct Evidence {
    log: LogReader,
    recorded: Recorded,
    survival: Survival,
}

impl Evidence {
    pub(super) fn read(log: &Path, recorded: Recorded, survival: Survival) -> Result<Self, LinuxError> {
        let bytes = std::fs::read(log).map_err(LinuxError::system(format!("cannot read {}", log.display())))?;
        let log = LogReader::read(&*bytes)
            .map_err(|error| LinuxError::Invalid { message: format!("{}: {error}", log.display()) })?;
        Ok(Self { log, recorded, survival })
    }

    /// Lines on a bad state: what is lost of it, and which barrier is missing.
    pub fn explain(&self, verdict: &Verdict) -> Vec<String> {
        let Some(smallest) = verdict.fault.as_ref().and_then(|fault| fault.smallest.as_ref()) else {
            return Vec::new();
        };
        if smallest.lost.is_empty() {
            return vec![self.nothing_lost(verdict)];
        }
        let mut lines: Vec<String> = vec![format!(
            "lost ({}):",
            if smallest.minimal { "with any of these back it is good" } else { "fewer may be enough" }
        )];
        lines.extend(smallest.lost.iter().map(|lost| format!("  {}", self.describe(lost))));
        lines.push(self.missing(&smallest.lost, verdict));
        lines
    }

    fn describe(&self, lost: &Lost) -> String {
        let part = if lost.lost_parts == lost.parts {
            "all".to_owned()
        } else {
            format!("{} of {} units", lost.lost_parts, lost.parts)
        };
        let what = match self.log.log.entries().get(lost.entry).map(|entry| &entry.event) {
            Some(Event::Write { content: crash::Content::Zeroes(_), .. }) => "discard",
            Some(Event::Write { fua: true, .. }) => "write with FUA",
            _ => "write",
        };
        let place = lost.place.as_ref().map_or_else(String::new, |place| format!(" ({place})"));
        format!("#{} {what} of {} bytes at {}{place}: {part}", lost.entry, lost.len_bytes, lost.offset_bytes)
    }

    /// Every write is there that the device had, and the state is bad.
    fn nothing_lost(&self, verdict: &Verdict) -> String {
        match self.last_promise(verdict.until) {
            Some(line) => format!(
                "every write that the device had been given is there: what `{line}` promised was still in the kernel's memory, an \
                 fsync is missing before it"
            ),
            None if verdict.fault.as_ref().is_some_and(|fault| fault.by == Judged::Files) => {
                "every write that the device had been given is there: it is the file system that does not keep the promise, in what it \
                 wrote for it or in recovery"
                    .to_owned()
            }
            None => "every write that the device had been given is there: the file system wrote this before what belongs to it, \
                     and nothing had asked it for another order (an fsync of the data before it is named, for instance)"
                .to_owned(),
        }
    }

    fn last_promise(&self, until: usize) -> Option<&str> {
        self.recorded.promised_until(&self.log, until).last().map(|promise| promise.line.as_str())
    }

    /// The barrier that would have kept the state from coming about.
    fn missing(&self, lost: &[Lost], verdict: &Verdict) -> String {
        if self.survival == Survival::LyingCache {
            return "the device acknowledged flushes that it did not carry out".to_owned();
        }
        let given = self.log.log.entries().get(..verdict.until).unwrap_or_default();
        if let Some(broken) = Broken::first(given, lost) {
            return broken.words(self.survival == Survival::Streams);
        }
        let completed = |entry: usize| -> Option<usize> {
            let entries = self.log.log.entries();
            let Event::Write { id, .. } = &entries.get(entry)?.event else { return None };
            let is_end = |event: &Event| matches!(event, Event::Completed(done) if done == id);
            entries.iter().skip(entry).position(|entry| is_end(&entry.event)).map(|after| entry + after)
        };
        let Some(first) = lost.iter().map(|lost| lost.entry).min() else { return String::new() };
        let done = completed(first);
        let promises = self.recorded.promised_until(&self.log, verdict.until);
        // The first promise that the lost writes could have kept: the one made after they completed, or the last one.
        let after =
            |promise: &&Acknowledgement| done.is_some_and(|done| self.log.entries_at(promise.position_bytes) > done);
        if let Some(promise) = promises.iter().find(after).or(promises.last()) {
            let at = self.log.entries_at(promise.position_bytes);
            let line = &promise.line;
            return if at <= first {
                format!(
                    "#{first} was given to the device after `{line}` had been promised: an fsync is missing before the promise"
                )
            } else if done.is_some_and(|done| done < at) {
                format!("no flush came between #{first} and the promise `{line}`: an fsync is missing before it")
            } else {
                format!(
                    "#{first} was still under way when `{line}` was promised: an fsync is missing before the promise"
                )
            };
        }
        let gone = |entry: usize| lost.iter().any(|lost| lost.entry == entry);
        let newer = done.and_then(|done| {
            let entries = self.log.log.entries().iter().enumerate().take(verdict.until).skip(done);
            entries
                .filter(|(_, entry)| matches!(entry.event, Event::Write { .. }))
                .map(|(at, _)| at)
                .find(|at| !gone(*at))
        });
        match newer {
            Some(newer) => format!(
                "#{newer} was written after #{first} had completed, and can be there without it: nothing orders the two, a \
                 flush is missing between them"
            ),
            None => {
                format!("#{first} was still under way: what it replaces, or what refers to it, was not safe without it")
            }
        }
    }
}
