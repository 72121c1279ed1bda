//! What a trial came to, for people and as JSON.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::path::Path;

use linux::crash::{Evidence, Judged, Recording, Summary, Trial};
use units::{Printable, printable};

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

    /// A few lines, and the first bad states, those that were made small first.
    pub fn text(&self, show: usize) -> String {
        let mut text = String::new();
        let bad = self.summary.bad();
        let sampled = match self.summary.sampled_moments {
            0 => String::new(),
            moments => format!(", {moments} of them with too many units for each subset"),
        };
        let _ = writeln!(
            text,
            "{} distinct states looked at, of {} moments{sampled}; {}",
            self.summary.verdicts.len(),
            self.summary.moments,
            if bad.is_empty() { "all good".to_owned() } else { format!("{} bad", bad.len()) }
        );
        let _ = writeln!(
            text,
            "{} on {}, Linux {}, survives: {}; {} acknowledged",
            self.trial.linux.file_system,
            self.trial.linux.device,
            self.kernel,
            self.trial.survival,
            self.recording.acknowledgements
        );
        if !self.recording.unfollowed.is_empty() {
            let ways = self.recording.unfollowed.join(", ");
            let _ = writeln!(
                text,
                "  from its first {ways} on, files are not held against promises: such changes are not followed"
            );
        }
        for (judged, count) in self.by_judge() {
            let _ = writeln!(text, "  {count} found bad by {}", said_by(judged));
        }
        let mut shown = bad;
        shown.sort_by_key(|verdict| verdict.fault.as_ref().is_none_or(|fault| fault.smallest.is_none()));
        for verdict in shown.iter().take(show) {
            let Some(fault) = &verdict.fault else { continue };
            let cut = (verdict.entries, verdict.lost, verdict.parts);
            bad_state(&mut text, &verdict.state, cut, said_by(fault.by), &fault.what);
            for line in self.evidence.explain(verdict) {
                let _ = writeln!(text, "  {}", printable(&line));
            }
            let _ =
                writeln!(text, "  look: plumb crash replay {} {} -- bash", Printable::path(self.named), verdict.state);
        }
        text
    }

    /// One object.
    pub fn json(&self) -> serde_json::Value {
        let bad: Vec<serde_json::Value> = self
            .summary
            .bad()
            .into_iter()
            .map(|verdict| serde_json::json!({ "verdict": verdict, "explanation": self.evidence.explain(verdict) }))
            .collect();
        serde_json::json!({
            "states": self.summary.verdicts.len(),
            "states_of_all_shards": self.summary.states,
            "generated": self.summary.generated,
            "moments": self.summary.moments,
            "sampled_moments": self.summary.sampled_moments,
            "acknowledgements": self.recording.acknowledgements,
            "unfollowed": self.recording.unfollowed,
            "file_system": self.trial.linux.file_system.to_string(),
            "device": self.trial.linux.device,
            "survives": self.trial.survival.to_string(),
            "kernel": self.kernel,
            "bad": bad,
        })
    }
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
        "\n{state}: power lost after {entries} entries of the log, {lost} of {parts} undecided units lost; {by} says:"
    );
    for line in what.lines() {
        let _ = writeln!(text, "  | {}", printable(line));
    }
}

fn said_by(judged: Judged) -> &'static str {
    match judged {
        Judged::Mount => "the kernel's mount",
        Judged::Files => "what fsync and its like promised of files",
        Judged::Recover => "--recover",
        Judged::Check => "--check",
        Judged::Unmount => "the kernel's unmount",
        Judged::Fsck => "the file system's checker",
    }
}
