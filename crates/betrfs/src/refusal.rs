//! Deliberate refusals for want of room, so that tests can show what they do. Outside of the tests there are none.

/// Who refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Refuser {
    /// The file system, of calls that add something.
    Admission,
    /// The store, whatever a batch does.
    Store,
}

#[cfg(test)]
pub(crate) use switch::{count, end, is_refused, refuse};

/// Nothing is.
#[cfg(not(test))]
pub(crate) const fn is_refused(_by: Refuser) -> bool {
    false
}

#[cfg(test)]
mod switch {
    use super::Refuser;
    use std::cell::Cell;

    /// What is refused: the first of these, and what comes behind it where that lasts.
    #[derive(Clone, Copy)]
    struct Plan {
        by: Refuser,
        first: u64,
        is_lasting: bool,
    }

    thread_local! {
        static PLAN: Cell<Option<Plan>> = const { Cell::new(None) };
        /// Requests so far, and how many of them were refused.
        static COUNT: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    }

    /// Has this thread's request of that number refused, and those behind it if that is to last. Counts from here on.
    pub(crate) fn refuse(by: Refuser, first: u64, is_lasting: bool) {
        PLAN.set(Some(Plan { by, first, is_lasting }));
        COUNT.set((0, 0));
    }

    /// Requests since then, and how many of them were refused. From here on none is.
    pub(crate) fn end() -> (u64, u64) {
        PLAN.set(None);
        COUNT.get()
    }

    /// How many were refused so far.
    pub(crate) fn count() -> u64 {
        COUNT.get().1
    }

    /// Whether this one is.
    pub(crate) fn is_refused(by: Refuser) -> bool {
        let Some(plan) = PLAN.get().filter(|plan| plan.by == by) else { return false };
        let (requests, refused) = COUNT.get();
        let is = requests == plan.first || plan.is_lasting && requests > plan.first;
        COUNT.set((requests + 1, refused + u64::from(is)));
        is
    }
}
