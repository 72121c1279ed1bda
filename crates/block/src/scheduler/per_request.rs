//! What a scheduler knows of each request, beside the request itself.

use std::ops::{Index, IndexMut};

use crate::request::Rq;

/// A value for each request, by its index.
#[derive(Default)]
pub(super) struct PerRequest<T>(Vec<T>);

impl<T: Clone + Default> PerRequest<T> {
    /// Notes what is known of a request.
    pub(super) fn insert(&mut self, rq: Rq, value: T) {
        let at = rq as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, T::default());
        }
        self.0[at] = value;
    }

    /// Forgets a request: what was known of it, the default if nothing was.
    pub(super) fn take(&mut self, rq: Rq) -> T {
        self.0.get_mut(rq as usize).map(std::mem::take).unwrap_or_default()
    }
}

impl<T> Index<Rq> for PerRequest<T> {
    type Output = T;
    fn index(&self, rq: Rq) -> &T {
        &self.0[rq as usize]
    }
}

impl<T> IndexMut<Rq> for PerRequest<T> {
    fn index_mut(&mut self, rq: Rq) -> &mut T {
        &mut self.0[rq as usize]
    }
}
