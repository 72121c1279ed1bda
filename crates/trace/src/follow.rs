//! The story of one request: where its time went.

use serde::{Deserialize, Serialize};
use units::Nanos;

use crate::{Layer, RequestId, Span, Step};

/// What one request went through.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Path {
    /// The request.
    pub request: RequestId,
    /// When its first span starts.
    pub start: Nanos,
    /// When its job saw it done: the end of its last span in [`Layer::Jobs`],
    /// or of its last span where it has none there.
    pub completed: Nanos,
    /// When its last span ends: after `completed` where the device goes on
    /// with it, as it does with a write that it has only buffered.
    pub end: Nanos,
    /// Its spans, by start, outer layers first.
    pub hops: Vec<Hop>,
    /// Time before completion in which no step that it waited for was open.
    pub unrecorded: Nanos,
}

/// One step of a path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hop {
    /// The span.
    pub span: Span,
    /// The parts of the path's time that are this step's own, ascending and
    /// apart: in which it was open and no deeper layer worked for the request.
    /// For a queue or a command, that is time spent waiting. The own times of
    /// all hops and the unrecorded time add up to the path's duration. A
    /// step that is still open at completion was not waited for and owns nothing.
    pub own: Vec<(Nanos, Nanos)>,
}

impl Path {
    /// From its first nanosecond to its completion.
    pub fn duration(&self) -> Nanos {
        self.completed.since(self.start)
    }

    /// `time` as a fraction of the duration; zero for a path without duration.
    pub fn share(&self, time: Nanos) -> f64 {
        match self.duration() {
            Nanos::ZERO => 0.0,
            duration => time.0 as f64 / duration.0 as f64,
        }
    }
}

impl Hop {
    /// How long the span was open.
    pub fn duration(&self) -> Nanos {
        self.span.end.since(self.span.start)
    }

    /// How much of the path's time is the step's own.
    pub fn own_time(&self) -> Nanos {
        self.own.iter().map(|(from, to)| to.since(*from)).sum()
    }

    fn extend_own(&mut self, from: Nanos, to: Nanos) {
        match self.own.last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ => self.own.push((from, to)),
        }
    }
}

/// Collects what `request` went through; `None` if no span is its own.
///
/// Every instant until completion belongs to the deepest layer that is open then
/// ([`Layer`](crate::Layer) orders them); among equals, to the span that ends last,
/// because the request waits for that one.
pub fn follow(spans: &[Span], request: RequestId) -> Option<Path> {
    let mut hops: Vec<Hop> =
        spans.iter().filter(|span| span.request == request).map(|span| Hop { span: *span, own: Vec::new() }).collect();
    hops.sort_by_key(|hop| (hop.span.start, hop.span.track.layer(), std::cmp::Reverse(hop.span.end), hop.span.track));
    let start = hops.first()?.span.start;
    let end = hops.iter().map(|hop| hop.span.end).max()?;
    let seen = hops.iter().filter(|hop| hop.span.track.layer() == Layer::Jobs).map(|hop| hop.span.end).max();
    let completed = seen.unwrap_or(end);

    let mut edges: Vec<Nanos> = hops.iter().flat_map(|hop| [hop.span.start, hop.span.end]).collect();
    edges.retain(|edge| *edge <= completed);
    edges.sort_unstable();
    edges.dedup();
    let mut unrecorded = Nanos::ZERO;
    for edge in edges.windows(2) {
        let (from, to) = (edge[0], edge[1]);
        let owner = hops
            .iter_mut()
            .filter(|hop| hop.span.start <= from && to <= hop.span.end && hop.span.end <= completed)
            .max_by_key(|hop| (hop.span.track.layer(), hop.span.end));
        match owner {
            Some(hop) => hop.extend_own(from, to),
            None => unrecorded += to - from,
        }
    }
    Some(Path { request, start, completed, end, hops, unrecorded })
}

/// The request whose whole `step`, as its job saw it, took the median time
/// (the earlier one of equals): a typical one to [`follow`].
pub fn median_request(spans: &[Span], step: Step) -> Option<RequestId> {
    let mut wholes: Vec<_> = spans
        .iter()
        .filter(|span| span.step == step && span.track.layer() == Layer::Jobs && span.request != RequestId::default())
        .map(|span| (span.end.since(span.start), span.start, span.request))
        .collect();
    wholes.sort_unstable();
    let middle = wholes.len().checked_sub(1)? / 2;
    wholes.get(middle).map(|(.., request)| *request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Track;

    fn span(start: u64, end: u64, track: Track, step: Step, request: u64) -> Span {
        Span { start: Nanos(start), end: Nanos(end), track, step, request: RequestId(request), offset: 0, bytes: 4096 }
    }

    #[test]
    fn own_times_go_to_the_deepest_layer() {
        let die = |die| Track::Die { channel: 0, die };
        let spans = [
            span(40, 90, die(0), Step::FlashRead, 7),
            span(10, 120, Track::NvmeQueue(0), Step::Command, 7),
            span(0, 125, Track::Job(0), Step::Read, 7),
            span(0, 500, Track::Job(1), Step::Read, 8),
            span(40, 80, die(1), Step::FlashRead, 7),
            span(80, 100, Track::Channel(0), Step::ChannelTransfer, 7),
        ];
        let path = follow(&spans, RequestId(7)).unwrap();
        let own: Vec<_> = path.hops.iter().map(|hop| (hop.span.step, hop.own_time().0)).collect();
        assert_eq!(
            own,
            [
                (Step::Read, 15),
                (Step::Command, 50),
                (Step::FlashRead, 50),
                // Hidden behind the die that ends later.
                (Step::FlashRead, 0),
                (Step::ChannelTransfer, 10),
            ]
        );
        assert_eq!((path.start, path.end, path.unrecorded), (Nanos(0), Nanos(125), Nanos(0)));
        assert_eq!(path.share(path.hops[1].own_time()), 0.4);
        assert_eq!(path.hops[1].own, [(Nanos(10), Nanos(40)), (Nanos(100), Nanos(120))]);
        assert_eq!(follow(&spans, RequestId(9)), None);
    }

    #[test]
    fn a_step_open_at_completion_was_not_waited_for() {
        let die = Track::Die { channel: 0, die: 0 };
        let spans = [
            span(0, 20, Track::Job(0), Step::Write, 1),
            span(5, 18, Track::NvmeQueue(0), Step::Command, 1),
            span(15, 90, die, Step::FlashProgram, 1),
        ];
        let path = follow(&spans, RequestId(1)).unwrap();
        assert_eq!((path.completed, path.end, path.duration()), (Nanos(20), Nanos(90), Nanos(20)));
        let own: Vec<_> = path.hops.iter().map(|hop| hop.own_time().0).collect();
        assert_eq!(own, [7, 13, 0]);
    }

    #[test]
    fn gaps_are_told_apart() {
        let spans = [span(0, 10, Track::Controller, Step::Process, 1), span(30, 40, Track::Link, Step::Transfer, 1)];
        let path = follow(&spans, RequestId(1)).unwrap();
        assert_eq!(path.unrecorded, Nanos(20));
    }

    #[test]
    fn the_median_is_a_lower_median() {
        let job = Track::Job(0);
        let spans = [
            span(0, 30, job, Step::Read, 1),
            span(0, 10, job, Step::Read, 2),
            span(0, 20, job, Step::Read, 3),
            span(0, 40, job, Step::Read, 4),
            span(0, 99, job, Step::Write, 5),
            span(0, 1, Track::Link, Step::Read, 6),
        ];
        assert_eq!(median_request(&spans, Step::Read), Some(RequestId(3)));
        assert_eq!(median_request(&spans, Step::Flush), None);
    }
}
