//! The cause of a bad state: decided by evidence, and named no further than that goes.

use crash::Event;
use crash::files::{Action, Allocation, Change, Unsynced};

use super::flushes::{Gap, completed};
use super::known::{Seen, known};
use super::{Evidence, Fault, Lost, Smallest};
use crate::crash::broken_order::Broken;
use crate::crash::survival::Survival;
use crate::crash::task::{Judged, Needs};

/// Changes that are named.
const NAMED_MAX: usize = 3;

/// Why a state is bad.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause {
    /// For programs: `lying-device`, `order`, `missing-sync`, `file-system`, `torn-write`, `unordered`, `unknown`.
    pub kind: &'static str,
    /// In a sentence.
    pub words: String,
    /// The known fault of a file system that it is.
    pub known: Option<&'static str>,
    /// The same for all states with this cause.
    pub(super) key: String,
}

impl Cause {
    fn new(kind: &'static str, key: impl AsRef<str>, words: impl Into<String>) -> Self {
        Self { kind, words: words.into(), known: None, key: format!("{kind} {}", key.as_ref()) }
    }
}

impl Evidence {
    pub(super) fn cause(&self, fault: &Fault, smallest: &Smallest) -> Cause {
        if self.survival == Survival::LyingCache {
            return Cause::new("lying-device", "", "the device acknowledged flushes that it did not carry out");
        }
        let given = self.log.log.entries().get(..smallest.until).unwrap_or_default();
        if let Some(broken) = Broken::first(given, &smallest.lost) {
            return Cause::new("order", "", broken.words(self.survival == Survival::Streams));
        }
        match (fault.by, &smallest.needs) {
            (Judged::Files, _) => self.broken_promise(smallest),
            (Judged::Check | Judged::Recover, Needs::Promise { acknowledgement, unsynced }) => {
                self.lost_promise(smallest, *acknowledgement, unsynced.as_deref())
            }
            (Judged::Check | Judged::Recover, Needs::Nothing | Needs::NotTried) => {
                self.without_promise(smallest, false)
            }
            (Judged::Mount | Judged::Unmount | Judged::Fsck, _) => self.without_promise(smallest, true),
        }
    }

    /// What a durability call promised, and is not so: that call is there.
    fn broken_promise(&self, smallest: &Smallest) -> Cause {
        let call = smallest.promised_by.and_then(|number| Some((number, self.call(number)?)));
        let Some((number, call)) = call else {
            let words = format!(
                "{} breaks what it keeps at any time, whatever the program synchronises (docs/crash-promises.md)",
                self.file_system
            );
            return Cause {
                known: self.known("", Gap::NothingLost, smallest, false),
                ..Cause::new("file-system", "", words)
            };
        };
        let at = self.log.entries_at(call.left.position);
        self.file_system_fault(smallest, &call.name, &self.writers.name(number), at, false)
    }

    /// The file system does not keep what `promised` promised, before the entry `at` of the log.
    fn file_system_fault(
        &self,
        smallest: &Smallest,
        call: &str,
        promised: &str,
        at: usize,
        was_unnamed: bool,
    ) -> Cause {
        let lost: Vec<usize> = smallest.lost.iter().map(|lost| lost.entry).collect();
        let gap = Gap::of(&self.log.log, &lost, at);
        let known = self.known(call, gap, smallest, was_unnamed);
        let which = known.unwrap_or("it is none of the faults that are known");
        let words = format!(
            "the file system's own fault: {} does not keep what {promised} promised; {}. {which}",
            self.file_system,
            gap.words()
        );
        Cause { known, ..Cause::new("file-system", format!("{call} {} {which}", gap.name()), words) }
    }

    fn known(&self, call: &str, gap: Gap, smallest: &Smallest, was_unnamed: bool) -> Option<&'static str> {
        let is_hole = |how: &Allocation| !matches!(how, Allocation::Extend | Allocation::KeepSize);
        let until = self.position_bytes(smallest.until);
        let has_punched = self.writers.calls.iter().any(|call| {
            matches!(&call.action, Action::Allocate { how, .. } if is_hole(how)) && call.entered.position <= until
        });
        let what = &smallest.what;
        known(&Seen { file_system: self.file_system, call, gap, what, has_punched, was_unnamed })
            .map(|known| known.name)
    }

    /// The judge fails only where this line is promised.
    fn lost_promise(&self, smallest: &Smallest, acknowledgement: usize, unsynced: Option<&[Unsynced]>) -> Cause {
        let Some(promise) = self.recorded.acknowledgements.get(acknowledgement) else {
            return self.without_promise(smallest, false);
        };
        let line = &promise.line;
        let at = self.log.entries_at(promise.position_bytes);
        let lost: Vec<usize> = smallest.lost.iter().map(|lost| lost.entry).collect();
        let gap = Gap::of(&self.log.log, &lost, at);
        let Some(unsynced) = unsynced else {
            let words = format!(
                "`{line}` was promised, and {}; what the program had synchronised by then is not known",
                gap.words()
            );
            return Cause::new("unknown", format!("promise {}", gap.name()), words);
        };
        if unsynced.iter().any(|change| change.was_synced_without_a_name) {
            return self.file_system_fault(smallest, "fsync", "`fsync` of a file without a name", at, true);
        }
        let guilty = guilty(unsynced, &smallest.lost);
        if guilty.is_empty() {
            let synced = self.writers.calls.iter().rposition(|call| {
                matches!(call.action, Action::Sync { .. } | Action::SyncAll)
                    && call.left.position <= promise.position_bytes
            });
            let Some(number) = synced else {
                let words = format!(
                    "`{line}` was promised, and nothing was changed before that needs to be synchronised; {}",
                    gap.words()
                );
                return Cause::new("unknown", format!("unchanged {}", gap.name()), words);
            };
            let name = self.call(number).map_or("fsync", |call| call.name.as_str());
            let promised =
                format!("{}, after which all was synchronised and `{line}` promised,", self.writers.name(number));
            return self.file_system_fault(smallest, name, &promised, at, false);
        }
        let named: Vec<String> = guilty.iter().take(NAMED_MAX).map(|change| self.unsynced(change)).collect();
        let more =
            if guilty.len() > NAMED_MAX { format!(" and {} more", guilty.len() - NAMED_MAX) } else { String::new() };
        let key: Vec<String> = guilty.iter().take(NAMED_MAX).map(|change| kind_of(change)).collect();
        let words = format!(
            "an fsync is missing before the promise `{line}`: not synchronised by then: {}{more}",
            named.join("; ")
        );
        Cause::new("missing-sync", key.join(" "), words)
    }

    fn unsynced(&self, change: &Unsynced) -> String {
        let by =
            self.writers.at(change.entered).map_or_else(String::new, |call| format!(" ({})", self.writers.name(call)));
        let path = change.path.to_string();
        match change.change {
            Change::Bytes { from_bytes, to_bytes } => format!("bytes {from_bytes} to {to_bytes} of {path}{by}"),
            Change::Size => format!("the size of {path}{by}"),
            Change::Name { is_there: true } => format!("the name {path}{by}, an fsync of its folder would do"),
            Change::Name { is_there: false } => format!("that {path} is gone{by}, an fsync of its folder would do"),
        }
    }

    /// The judge fails whatever was promised: what is there is not whole in itself.
    fn without_promise(&self, smallest: &Smallest, is_structure: bool) -> Cause {
        let whose = if is_structure { format!("{}: ", self.file_system) } else { String::new() };
        let kind = |kind| if is_structure { "file-system" } else { kind };
        let is_torn = |lost: &&Lost| lost.lost_parts < lost.parts;
        let across = |lost: &Lost| Some((lost.entry, lost.file.as_ref()?.path.clone(), lost.beside.clone()?));
        if let Some((entry, lost, there)) = smallest.lost.iter().filter(is_torn).find_map(across) {
            let words = format!(
                "{whose}{there} is there without {lost}, whose bytes went to the device in one write with it (#{entry}), which may be \
                 torn anywhere: nothing had asked for {lost} first (an fsync of it before {there} is written)"
            );
            return Cause::new(kind("unordered"), "across-files", words);
        }
        if let Some(torn) = smallest.lost.iter().find(is_torn) {
            let place = torn.place.as_deref().unwrap_or("what lies there is not known");
            let words = format!(
                "{whose}a torn write: of #{} ({place}) {} of {} units of what the device writes whole are lost; who reads it must \
                 be able to tell that it is not whole",
                torn.entry, torn.lost_parts, torn.parts
            );
            return Cause::new(kind("torn-write"), "torn", words);
        }
        let Some(first) = smallest.lost.iter().min_by_key(|lost| lost.entry) else {
            let words = format!(
                "{whose}every write that the device had been given is there: this was written before what belongs to it, and nothing \
                 had asked for another order (an fsync of the data before it is named, for instance)"
            );
            return Cause::new(kind("unordered"), "nothing-lost", words);
        };
        match self.newer(first, smallest) {
            Some(newer) => {
                let words = format!(
                    "{whose}#{newer} is there without #{}, after whose completion it was written: {}",
                    first.entry,
                    self.between(first, newer)
                );
                Cause::new(kind("unordered"), "newer", words)
            }
            None => {
                let words = format!(
                    "{whose}#{} was still under way: what it replaces, or what refers to it, was not safe without it",
                    first.entry
                );
                Cause::new(kind("unordered"), "under-way", words)
            }
        }
    }

    /// A write that is there and was submitted after this one had completed.
    fn newer(&self, first: &Lost, smallest: &Smallest) -> Option<usize> {
        let entries = self.log.log.entries();
        let Event::Write { id, .. } = &entries.get(first.entry)?.event else { return None };
        let done = completed(&self.log.log, first.entry, *id)?;
        let is_lost = |entry: usize| smallest.lost.iter().any(|lost| lost.entry == entry);
        let later = entries.iter().enumerate().take(smallest.until).skip(done);
        later.filter(|(_, entry)| matches!(entry.event, Event::Write { .. })).map(|(at, _)| at).find(|at| !is_lost(*at))
    }

    /// What the program asked for between the call that wrote a lost write and the entry of one that is there.
    fn between(&self, first: &Lost, newer: usize) -> String {
        let wrote = first.file.as_ref().and_then(|file| self.writers.of_file(file, self.position_bytes(first.entry)));
        let until = self.position_bytes(newer);
        let Some(wrote) = wrote else {
            return "nothing orders the two, a flush is missing between them".to_owned();
        };
        let synced = self.writers.calls.iter().enumerate().skip(wrote).find(|(_, call)| {
            let is_of_it = match &call.action {
                Action::Sync { file, .. } => first.file.as_ref().is_some_and(|lost| lost.inode == file.inode),
                Action::SyncAll => true,
                _ => false,
            };
            is_of_it && call.left.position <= until
        });
        let name = self.writers.name(wrote);
        match synced {
            Some((number, _)) => format!(
                "{name} was synchronised by {} before that, so the file system did not keep the order",
                self.writers.name(number)
            ),
            None => format!("order within a commit: no fsync came after {name} and before it"),
        }
    }
}

/// Of changes that were not synchronised those that what is lost can be; all, where that is not known.
fn guilty<'u>(unsynced: &'u [Unsynced], lost: &[Lost]) -> Vec<&'u Unsynced> {
    let is_of = |change: &Unsynced, lost: &Lost| match (&lost.file, &change.file) {
        (Some(file), Some(other)) => file.inode == other.inode,
        _ => false,
    };
    let of_lost: Vec<&Unsynced> =
        unsynced.iter().filter(|change| lost.iter().any(|lost| is_of(change, lost))).collect();
    if !of_lost.is_empty() {
        return of_lost;
    }
    // Bytes of files that were all synchronised are lost: no other file's are the cause.
    let are_known = !lost.is_empty() && lost.iter().all(|lost| lost.file.is_some());
    if are_known { Vec::new() } else { unsynced.iter().collect() }
}

/// What kind of change, of which file.
fn kind_of(change: &Unsynced) -> String {
    let kind = match change.change {
        Change::Bytes { .. } => "bytes",
        Change::Size => "size",
        Change::Name { is_there: true } => "name",
        Change::Name { is_there: false } => "gone",
    };
    // Files of a kind have names with numbers in them.
    let path: String =
        change.path.to_string().chars().map(|letter| if letter.is_ascii_digit() { '#' } else { letter }).collect();
    format!("{kind}:{path}")
}
