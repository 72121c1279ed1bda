//! One typical request of each kind, found while a run goes on.

use std::collections::BTreeSet;

use units::Nanos;

use crate::{Layer, Path, Recorder, RequestId, Span, Step, follow, median_request};

/// Looks for the first request of each wanted step that is worth telling: of the first slice of a run that has such
/// requests, the one that took the median time.
///
/// ```
/// use trace::{Recorder, Step, TypicalRequests};
/// use units::Nanos;
///
/// let recorder = Recorder::bounded(8192);
/// let mut typical = TypicalRequests::of([Step::Read, Step::Flush]);
/// // A slice of the run, from 0 on, goes here.
/// typical.look(&recorder, Nanos::ZERO);
/// assert!(typical.take().is_empty());
/// ```
pub struct TypicalRequests {
    wanted: Vec<(Step, Option<Path>)>,
}

impl TypicalRequests {
    /// Looks for requests of these steps.
    pub fn of(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { wanted: steps.into_iter().map(|step| (step, None)).collect() }
    }

    /// Takes what was recorded in the slice of the run that began at `began`. Stops the recorder once there is a
    /// request of each step.
    pub fn look(&mut self, recorder: &Recorder, began: Nanos) {
        if !recorder.is_on() {
            return;
        }
        let (mut spans, _) = recorder.take();
        // A request that was under way at the slice's start lacks its beginning.
        let early: BTreeSet<RequestId> =
            spans.iter().filter(|span| self.is_whole(span) && span.start < began).map(|span| span.request).collect();
        spans.retain(|span| !early.contains(&span.request));
        for (step, found) in &mut self.wanted {
            if found.is_none()
                && let Some(request) = median_request(&spans, *step)
            {
                *found = follow(&spans, request);
            }
        }
        if self.wanted.iter().all(|(_, found)| found.is_some()) {
            recorder.stop();
        }
    }

    /// What was found, in the order of the steps.
    pub fn take(self) -> Vec<(Step, Path)> {
        self.wanted.into_iter().filter_map(|(step, found)| Some((step, found?))).collect()
    }

    /// Whether the span is a whole request as its job saw it.
    fn is_whole(&self, span: &Span) -> bool {
        span.track.layer() == Layer::Jobs && self.wanted.iter().any(|(step, _)| *step == span.step)
    }
}
