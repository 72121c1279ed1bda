//! One thread's part of a set, and which file of it comes next.

use std::collections::BTreeSet;

/// The files of a thread: those that are there and those that are not, each taken in turn as Filebench's rotors do.
#[derive(Default, Debug)]
pub(crate) struct Share {
    there: Rotor,
    absent: Rotor,
}

#[derive(Default, Debug)]
struct Rotor {
    files: BTreeSet<usize>,
    next: usize,
}

impl Rotor {
    fn turn(&mut self) -> Option<usize> {
        let at = *self.files.range(self.next..).next().or_else(|| self.files.first())?;
        self.next = at + 1;
        Some(at)
    }
}

impl Share {
    /// Of files, each with whether it is there.
    pub(super) fn new(files: impl Iterator<Item = (usize, bool)>) -> Self {
        let mut share = Self { there: Rotor::default(), absent: Rotor::default() };
        for (file, is_there) in files {
            let rotor = if is_there { &mut share.there } else { &mut share.absent };
            rotor.files.insert(file);
        }
        share
    }

    /// The next file that is there.
    pub(crate) fn next_there(&mut self) -> Option<usize> {
        self.there.turn()
    }

    /// The next file that is not there; from now on it is.
    pub(crate) fn create_next(&mut self) -> Option<usize> {
        let file = self.absent.turn()?;
        self.absent.files.remove(&file);
        self.there.files.insert(file);
        Some(file)
    }

    /// The next file that is there; from now on it is not.
    pub(crate) fn delete_next(&mut self) -> Option<usize> {
        let file = self.there.turn()?;
        self.there.files.remove(&file);
        self.absent.files.insert(file);
        Some(file)
    }

    /// How many are there.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.there.files.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_in_turn_and_change_sides() {
        let mut share = Share::new([(3, true), (7, true), (11, false), (15, true), (19, false)].into_iter());
        assert_eq!([share.next_there(), share.next_there()], [Some(3), Some(7)]);
        assert_eq!(share.delete_next(), Some(15));
        assert_eq!(share.next_there(), Some(3), "round and round");
        assert_eq!([share.create_next(), share.create_next(), share.create_next()], [Some(11), Some(15), Some(19)]);
        assert_eq!(share.create_next(), None);
        assert_eq!(share.count(), 5);
        assert_eq!(std::iter::from_fn(|| share.delete_next()).count(), 5);
        assert_eq!(share.next_there(), None);
    }
}
