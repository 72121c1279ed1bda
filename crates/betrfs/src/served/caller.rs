//! Who calls, and when.

use std::fs;

use fuse::Request;

use super::Served;
use crate::operations::Caller;

const SET_GROUP_ID_AND_EXECUTE: u32 = 0o2010;

/// Groups of whoever makes something with this mode. They only count for a set-group-ID program, which is made so rarely
/// that asking for them is cheap.
pub(super) fn groups(request: &Request<'_>, mode: u32) -> Vec<u32> {
    if mode & SET_GROUP_ID_AND_EXECUTE != SET_GROUP_ID_AND_EXECUTE || request.caller.uid == 0 {
        return Vec::new();
    }
    all_groups(request)
}

/// Groups of whoever asks.
pub(super) fn all_groups(request: &Request<'_>) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{}/status", request.caller.pid)).unwrap_or_default();
    groups_of(&status)
}

/// The groups that `/proc/PID/status` names.
fn groups_of(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    line.unwrap_or_default().split_whitespace().filter_map(|group| group.parse().ok()).collect()
}

impl Served<'_> {
    /// The caller of a request that makes something.
    pub(super) fn maker<'b>(&self, request: &Request<'_>, umask: u32, groups: &'b [u32]) -> Caller<'b> {
        let fuse::Caller { uid, gid, .. } = request.caller;
        Caller { uid, gid, groups, umask: (umask & 0o777) as u16, now: (self.clock)() }
    }

    /// The caller of any other request.
    pub(super) fn caller(&self, request: &Request<'_>) -> Caller<'static> {
        let fuse::Caller { uid, gid, .. } = request.caller;
        Caller { uid, gid, groups: &[], umask: 0, now: (self.clock)() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_numbers_of_one_line() {
        assert_eq!(groups_of("Name:\tsh\nGid:\t5 5 5 5\nGroups:\t27 1000 \nNStgid:\t1\n"), [27, 1000]);
        assert!(groups_of("").is_empty() && groups_of("Groups:\t\n").is_empty());
    }
}
