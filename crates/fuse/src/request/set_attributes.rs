//! Which attributes are to be set.

use crate::abi::input::{SetAttrIn, Valid};

/// A time that is to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The server's now.
    Now,
    /// Seconds since 1970, and nanoseconds.
    At(i64, u32),
}

/// Which attributes SETATTR sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Of an open file, if it is ftruncate(2) or its like.
    pub handle: Option<u64>,
    /// Permissions, with a type that does not count.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// In bytes.
    pub size: Option<u64>,
    /// Last access.
    pub accessed: Option<SetTime>,
    /// Last modification.
    pub modified: Option<SetTime>,
    /// Last change; otherwise it is now.
    pub changed: Option<SetTime>,
    /// Set-user-ID and set-group-ID go.
    pub kill_privileges: bool,
}

impl SetAttributes {
    pub(super) fn of(input: &SetAttrIn) -> Self {
        let valid = Valid::from_bits_truncate(input.valid);
        let [atime, mtime, ctime] = input.times;
        let [atime_nsec, mtime_nsec, ctime_nsec] = input.times_nsec;
        let time = |set, now, seconds: u64, nanoseconds| {
            if valid.contains(now) {
                Some(SetTime::Now)
            } else {
                // The bits of a signed number.
                valid.contains(set).then_some(SetTime::At(seconds as i64, nanoseconds))
            }
        };
        Self {
            handle: valid.contains(Valid::FH).then_some(input.fh),
            mode: valid.contains(Valid::MODE).then_some(input.mode),
            uid: valid.contains(Valid::UID).then_some(input.uid),
            gid: valid.contains(Valid::GID).then_some(input.gid),
            size: valid.contains(Valid::SIZE).then_some(input.size),
            accessed: time(Valid::ATIME, Valid::ATIME_NOW, atime, atime_nsec),
            modified: time(Valid::MTIME, Valid::MTIME_NOW, mtime, mtime_nsec),
            changed: valid.contains(Valid::CTIME).then_some(SetTime::At(ctime as i64, ctime_nsec)),
            kill_privileges: valid.contains(Valid::KILL_SUIDGID),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_valid_is_set() {
        let input = SetAttrIn {
            valid: (Valid::SIZE | Valid::ATIME | Valid::ATIME_NOW | Valid::MTIME).bits(),
            size: 9,
            times: [1, -2_i64 as u64, 3],
            times_nsec: [4, 5, 6],
            mode: 0o777,
            uid: 1,
            ..SetAttrIn::default()
        };
        let expected = SetAttributes {
            size: Some(9),
            accessed: Some(SetTime::Now),
            modified: Some(SetTime::At(-2, 5)),
            ..SetAttributes::default()
        };
        assert_eq!(SetAttributes::of(&input), expected);
    }
}
