//! What a trial came to, for people and as JSON.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::path::Path;

use linux::crash::{Evidence, Group, Judged, Recording, SMALLEST, Summary, Trial, grouped};
use units::{ByteSize, Printable, printable};

/// Everything there is to say.
pub struct Report<'a> {
    pub summary: &'a Summary,
    pub evidence: &'a Evidence,
    pub recording: &'a Recording,
    pub kernel: &'a str,
    pub trial: &'a Trial,
    /// The trial's folder as the user called it.
    pub named: &'a Path,
}

impl Report<'_> {
    fn by_judge(&self) -> BTreeMap<Judged, usize> {
        let mut counts = BTreeMap::new();
        for fault in self.summary.bad().iter().filter_map(|verdict| verdict.fault.as_ref()) {
            *counts.entry(fault.by).or_insert(0) += 1;
        }
        counts
    }

    /// States that another judge wanted the kernel's word on, and how many of them are good.
    fn brought(&self) -> (usize, usize) {
        let brought = &self.trial.judging.brought;
        let found: Vec<_> = brought.iter().filter_map(|state| self.summary.verdicts.get(&state.name())).collect();
        (found.len(), found.iter().filter(|verdict| verdict.fault.is_none()).count())
    }

    /// A few lines, and the causes of bad states.
    pub fn text(&self, show: usize) -> String {
        let mut text = String::new();
        if !self.recording.unfollowed.is_empty() {
            let ways = self.recording.unfollowed.join(", ");
            let _ = writeln!(
                text,
                "files were not held against durability guarantees from the first {ways} on: what that changes is not followed"
            );
        }
        let unknown_bytes = self.evidence.unknown_bytes();
        if unknown_bytes > 0 && self.trial.judging.files {
            let _ = writeln!(
                text,
                "of {} that were written the bytes are not known: of files only sizes and names are held against durability guarantees there",
                ByteSize(unknown_bytes)
            );
        }
        let bad = self.summary.bad();
        let sampled = match self.summary.sampled_moments {
            0 => String::new(),
            moments => format!(", {moments} of them with too many units for each subset"),
        };
        let _ = writeln!(
            text,
            "{} distinct crash states looked at, at {} crash points{sampled}; {}",
            self.summary.verdicts.len(),
            self.summary.moments,
            if bad.is_empty() { "all good".to_owned() } else { format!("{} bad", bad.len()) }
        );
        let (brought, good) = self.brought();
        if brought > 0 {
            let _ = writeln!(
                text,
                "  {brought} of them are bad without a kernel, or were left to it; with the kernel {good} of these are good"
            );
        }
        let _ = writeln!(
            text,
            "{} on {}, Linux {}, survives: {}; {} acknowledged",
            self.trial.linux.file_system,
            self.trial.linux.device,
            self.kernel,
            self.trial.judging.survival,
            self.recording.acknowledgements
        );
        for (judged, count) in self.by_judge() {
            let _ = writeln!(text, "  {count} found bad by {}", said_by(judged));
        }
        let groups = grouped(self.evidence, &bad);
        if groups.len() > 1 {
            let _ = writeln!(text, "  {} causes, the most frequent first", groups.len());
        }
        for (number, group) in groups.iter().take(show).enumerate() {
            self.group(&mut text, number + 1, group);
        }
        text
    }

    /// A cause, how many states it has, and the smallest of them: its words, what is lost in it, and how to stand in it.
    fn group(&self, text: &mut String, number: usize, group: &Group<'_>) {
        let verdict = group.example;
        let Some(fault) = &verdict.fault else { return };
        let states = if group.states == 1 { "1 state".to_owned() } else { format!("{} states", group.states) };
        let cause = match &group.explained {
            Some(explained) => explained.cause.words.as_str(),
            None => "none of them was made small, so no cause is known",
        };
        let _ = writeln!(text, "\n{number}. {states}: {}", printable(cause));
        let (state, cut, what) = match &fault.smallest {
            Some(smallest) => (
                format!("{}{SMALLEST}", verdict.state),
                (smallest.entries, smallest.lost_parts.len(), smallest.parts),
                &smallest.what,
            ),
            None => (verdict.state.clone(), (verdict.entries, verdict.lost, verdict.parts), &fault.what),
        };
        bad_state(text, &state, cut, said_by(fault.by), what);
        for line in group.explained.iter().flat_map(|explained| &explained.lost) {
            let _ = writeln!(text, "  {}", printable(line));
        }
        let _ = writeln!(text, "  look: plumb crash replay {} {state} -- bash", Printable::path(self.named));
    }

    /// One object.
    pub fn json(&self) -> serde_json::Value {
        let bad = self.summary.bad();
        let causes: Vec<serde_json::Value> = grouped(self.evidence, &bad).iter().map(cause).collect();
        let bad: Vec<serde_json::Value> = bad
            .into_iter()
            .map(|verdict| {
                let explained = self.evidence.explain(verdict);
                let lines: Vec<String> = explained
                    .into_iter()
                    .flat_map(|explained| [vec![explained.cause.words], explained.lost].concat())
                    .collect();
                serde_json::json!({ "verdict": verdict, "explanation": lines })
            })
            .collect();
        let (brought, brought_good) = self.brought();
        serde_json::json!({
            "states": self.summary.verdicts.len(),
            "states_of_all_shards": self.summary.states,
            "brought": brought,
            "brought_good": brought_good,
            "generated": self.summary.generated,
            "moments": self.summary.moments,
            "sampled_moments": self.summary.sampled_moments,
            "subsets": self.summary.subsets,
            "acknowledgements": self.recording.acknowledgements,
            "unfollowed": self.recording.unfollowed,
            "unknown_bytes": self.evidence.unknown_bytes(),
            "file_system": self.trial.linux.file_system.to_string(),
            "device": self.trial.linux.device,
            "survives": self.trial.judging.survival.to_string(),
            "kernel": self.kernel,
            "causes": causes,
            "bad": bad,
        })
    }
}

/// A cause as one object.
fn cause(group: &Group<'_>) -> serde_json::Value {
    let cause = group.explained.as_ref().map(|explained| &explained.cause);
    serde_json::json!({
        "by": group.by,
        "states": group.states,
        "kind": cause.map(|cause| cause.kind),
        "known": cause.and_then(|cause| cause.known),
        "words": cause.map(|cause| &cause.words),
        "example": group.example.state,
        "lost": group.explained.as_ref().map(|explained| &explained.lost),
    })
}

/// A state, the cut that leaves it (entries before it, undecided units lost, and all of these), and who says what of it.
pub fn bad_state(
    text: &mut String,
    state: &dyn Display,
    (entries, lost, parts): (usize, usize, usize),
    by: &str,
    what: &str,
) {
    let _ = writeln!(
        text,
        "{state}: power lost after {entries} entries of the log, {lost} of {parts} undecided units lost; {by} says:"
    );
    for line in what.lines() {
        let _ = writeln!(text, "  | {}", printable(line));
    }
}

fn said_by(judged: Judged) -> &'static str {
    match judged {
        Judged::Mount => "the kernel's mount",
        Judged::Files => "the durability guarantees of fsync and its like",
        Judged::Recover => "--recover",
        Judged::Check => "--check",
        Judged::Unmount => "the kernel's unmount",
        Judged::Fsck => "the file system's checker",
    }
}
