//! The stories of a run: one typical request of each kind, and its way.

use trace::{Step, TypicalRequests};

use super::Simulated;
use crate::results::StoryRecord;

/// Spans kept from each slice of a run: some hundred requests.
pub(super) const SPANS: usize = 8192;

/// The kinds of request that have a story.
const KINDS: [(Step, &str); 6] = [
    (Step::Read, "read"),
    (Step::Write, "write"),
    (Step::Flush, "flush"),
    (Step::Discard, "discard"),
    (Step::ZoneReset, "zone reset"),
    (Step::ZoneFinish, "zone finish"),
];

/// Looks for requests of those kinds that `workload` may do: once they are found, nothing more need be recorded.
pub(super) fn of(workload: &dyn Simulated) -> TypicalRequests {
    TypicalRequests::of(KINDS.map(|(step, _)| step).into_iter().filter(|step| workload.may_do(*step)))
}

/// What was found, with a title.
pub(super) fn told(found: TypicalRequests) -> Vec<StoryRecord> {
    let named = |step| KINDS.iter().find(|(kind, _)| *kind == step).map_or("request", |(_, what)| what);
    let titled = |(step, path)| StoryRecord { title: format!("A {} of median latency", named(step)), path };
    found.take().into_iter().map(titled).collect()
}
