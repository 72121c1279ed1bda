//! Deliberate refusals of free blocks, so that tests can show what they do. Outside of the tests there are none.

#[cfg(test)]
pub(crate) use switch::{count, end, is_refused, refuse};

/// Nothing is.
#[cfg(not(test))]
pub(crate) const fn is_refused() -> bool {
    false
}

#[cfg(test)]
mod switch {
    use std::cell::Cell;
    use std::ops::Range;

    thread_local! {
        static REFUSED: Cell<(u64, u64)> = const { Cell::new((u64::MAX, u64::MAX)) };
        /// Requests so far, and how many of them were refused.
        static COUNT: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    }

    /// Has requests of these numbers refused on this thread, counted from here on.
    pub(crate) fn refuse(requests: Range<u64>) {
        REFUSED.set((requests.start, requests.end));
        COUNT.set((0, 0));
    }

    /// From here on none is refused. Returns how many requests there were.
    pub(crate) fn end() -> u64 {
        REFUSED.set((u64::MAX, u64::MAX));
        COUNT.get().0
    }

    /// How many were refused so far.
    pub(crate) fn count() -> u64 {
        COUNT.get().1
    }

    /// Whether this request is.
    pub(crate) fn is_refused() -> bool {
        let ((start, end), (requests, refused)) = (REFUSED.get(), COUNT.get());
        let is = (start..end).contains(&requests);
        COUNT.set((requests + 1, refused + u64::from(is)));
        is
    }
}
