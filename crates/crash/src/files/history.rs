//! What something was, one version after the other, and which of them may be left.

use super::calls::Call;

/// Something was made durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Promise {
    /// All that was over before this moment's order is covered.
    pub(super) covers: u64,
    /// It holds from this position of the log on.
    pub(super) position: u64,
    /// The number of the call that gave it.
    pub(super) call: usize,
}

/// Promises about one thing, in the order in which they were given: each covers more than the one before.
#[derive(Clone, Debug, Default)]
pub(super) struct PromiseList(Vec<Promise>);

impl PromiseList {
    pub(super) fn push(&mut self, promise: Promise) {
        // The older one covers as much, and holds earlier.
        if self.0.last().is_none_or(|last| last.covers < promise.covers) {
            self.0.push(promise);
        }
    }

    /// Whether one that was given by the first `calls` calls covers what was over at `left`.
    pub(super) fn covers(&self, left: u64, calls: usize) -> bool {
        self.0.iter().any(|promise| promise.call < calls && left < promise.covers)
    }

    /// The one that covers the most at a position of the log.
    pub(super) fn at(&self, until: u64) -> Option<Promise> {
        let after = self.0.partition_point(|promise| promise.position <= until);
        after.checked_sub(1).and_then(|last| self.0.get(last)).copied()
    }
}

/// Of two promises the one that covers more.
pub(super) fn stronger(one: Option<Promise>, other: Option<Promise>) -> Option<Promise> {
    match (one, other) {
        (Some(one), Some(other)) if other.covers > one.covers => Some(other),
        (Some(one), _) => Some(one),
        (None, other) => other,
    }
}

/// When something was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Span {
    /// It was not there before this moment.
    pub(super) entered: u64,
    /// The same moment, as a position of the log.
    pub(super) position: u64,
    /// It was there from this moment on; never surely, if the call was never over.
    pub(super) left: u64,
}

impl Span {
    pub(super) fn of(call: &Call) -> Self {
        let left = if call.result.is_some() { call.left.order } else { u64::MAX };
        Self { entered: call.entered.order, position: call.entered.position, left }
    }
}

/// One state of something.
#[derive(Clone, Debug)]
pub(super) struct Version<T> {
    pub(super) value: T,
    pub(super) span: Span,
}

/// All states of something.
#[derive(Clone, Debug)]
pub(super) struct History<T> {
    versions: Vec<Version<T>>,
    pub(super) promises: PromiseList,
}

impl<T> History<T> {
    /// It was this before anything began, and is so durably.
    pub(super) fn new(value: T) -> Self {
        // Most have one more: there is a history of each sector.
        let mut versions = Vec::with_capacity(2);
        versions.push(Version { value, span: Span::default() });
        Self { versions, promises: PromiseList::default() }
    }

    pub(super) fn push(&mut self, value: T, span: Span) {
        self.versions.push(Version { value, span });
    }

    pub(super) fn versions(&self) -> &[Version<T>] {
        &self.versions
    }

    /// The newest.
    pub(super) fn last(&self) -> &Version<T> {
        // There is always the first one.
        &self.versions[self.versions.len() - 1]
    }

    /// Whether another change was on its way when this one began: nobody knows which came first.
    pub(super) fn overlaps(&self, span: Span) -> bool {
        self.versions.iter().rev().take(8).any(|version| version.span.left > span.entered)
    }

    /// What may be left by a power cut at the position `until`, if `also` was promised beside what is promised here.
    pub(super) fn allowed(&self, until: u64, also: Option<Promise>) -> Allowed<'_, T> {
        let promise = stronger(self.promises.at(until), also);
        let covers = promise.map_or(0, |promise| promise.covers);
        let covered = self.versions.iter().filter(|version| version.span.left < covers);
        let newest = covered.map(|version| version.span.entered).max().unwrap_or(0);
        Allowed { history: self, newest, until, promise }
    }
}

/// What may be left of something.
pub(super) struct Allowed<'a, T> {
    history: &'a History<T>,
    /// What was over before this order is superseded by what is promised.
    newest: u64,
    until: u64,
    pub(super) promise: Option<Promise>,
}

impl<'a, T> Allowed<'a, T> {
    /// Not superseded, and begun before the cut.
    pub(super) fn versions(&self) -> impl Iterator<Item = &'a Version<T>> + use<'a, T> {
        let Self { history, newest, until, .. } = *self;
        history.versions.iter().filter(move |version| version.span.left >= newest && version.span.position <= until)
    }

    /// What was promised is no longer allowed where these were left.
    pub(super) fn superseded(&self) -> impl Iterator<Item = &'a Version<T>> + use<'a, T> {
        let newest = self.newest;
        self.history.versions.iter().filter(move |version| version.span.left < newest)
    }

    /// The place among the versions of the newest one that is surely there or superseded by what began before the cut.
    pub(super) fn anchor(&self) -> usize {
        self.history.versions.iter().rposition(|version| version.span.entered <= self.newest).unwrap_or(0)
    }
}
