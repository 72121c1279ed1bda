//! What an iterator has not given yet, from both ends.

use crate::bytes::order::compare;
use crate::bytes::range::{Direction, KeyRange, successor};

/// A range that gets shorter at both ends. The last key of each end is kept in a place of its own, so that a step copies a key and
/// allocates nothing.
#[derive(Debug)]
pub(super) struct Left {
    range: KeyRange,
    front: Passed,
    back: Passed,
}

/// The last key that an end has given, if that is not taken off the range yet.
#[derive(Default, Debug)]
struct Passed {
    key: Vec<u8>,
    is_new: bool,
}

impl Passed {
    fn key(&self) -> Option<&[u8]> {
        self.is_new.then_some(&self.key)
    }
}

impl Left {
    pub fn of(range: KeyRange) -> Self {
        Self { range, front: Passed::default(), back: Passed::default() }
    }

    /// An end has given a key.
    #[inline]
    pub fn pass(&mut self, key: &[u8], direction: Direction) {
        let end = match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        };
        end.key.clear();
        end.key.extend_from_slice(key);
        end.is_new = true;
    }

    /// Whether the other end has not got to a key.
    #[inline]
    pub fn is_before_end(&self, key: &[u8], direction: Direction) -> bool {
        match direction {
            Direction::Forward => {
                self.back.key().or(self.range.end.as_deref()).is_none_or(|end| compare(key, end).is_lt())
            }
            Direction::Backward => match self.front.key() {
                Some(front) => compare(key, front).is_gt(),
                None => self.range.start.is_empty() || compare(key, &self.range.start).is_ge(),
            },
        }
    }

    /// The keys that neither end has given.
    pub fn range(&mut self) -> &mut KeyRange {
        if std::mem::take(&mut self.front.is_new) {
            self.range.start = successor(&self.front.key);
        }
        if std::mem::take(&mut self.back.is_new) {
            self.range.end = Some(self.back.key.as_slice().into());
        }
        &mut self.range
    }

    /// Nothing is left.
    pub fn end(&mut self) {
        let range = self.range();
        range.end = Some(range.start.clone());
    }
}
