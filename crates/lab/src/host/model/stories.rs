//! The stories of a run: one typical request of each kind, and its way.

use std::collections::BTreeSet;

use trace::{Layer, Recorder, RequestId, Span, Step};
use units::Nanos;

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

/// Looks for the first request of each kind worth telling.
pub(super) struct Stories {
    found: [Option<StoryRecord>; KINDS.len()],
    /// Of the kinds, those that the workload may have.
    may_come: [bool; KINDS.len()],
}

impl Stories {
    /// Stories of what `workload` may do: once they are found, nothing more need be
    /// recorded.
    pub(super) fn of(workload: &dyn Simulated) -> Self {
        Self { found: Default::default(), may_come: KINDS.map(|(step, _)| workload.may_do(step)) }
    }

    /// Takes what was recorded in the slice that began at `began`.
    pub(super) fn look(&mut self, recorder: &Recorder, began: Nanos) {
        if !recorder.is_on() {
            return;
        }
        let (mut spans, _) = recorder.take();
        // A request that was under way at the slice's start lacks its beginning.
        let early: BTreeSet<RequestId> =
            spans.iter().filter(|span| is_whole(span) && span.start < began).map(|span| span.request).collect();
        spans.retain(|span| !early.contains(&span.request));
        for ((step, what), found) in KINDS.iter().zip(&mut self.found) {
            if found.is_none()
                && let Some(request) = trace::median_request(&spans, *step)
                && let Some(path) = trace::follow(&spans, request)
            {
                *found = Some(StoryRecord { title: format!("A {what} of median latency"), path });
            }
        }
        if self.found.iter().zip(self.may_come).all(|(found, may_come)| found.is_some() || !may_come) {
            recorder.stop();
        }
    }

    /// What was found, in the order of the kinds.
    pub(super) fn take(self) -> Vec<StoryRecord> {
        self.found.into_iter().flatten().collect()
    }
}

/// Whether the span is a whole request as its job saw it.
fn is_whole(span: &Span) -> bool {
    span.track.layer() == Layer::Jobs && KINDS.iter().any(|(step, _)| *step == span.step)
}
