//! Faults of file systems that are known: docs/crash.md has each of them, with a repair where there is one.

use file_systems::FileSystem;

use super::flushes::Gap;

/// What is seen of a file system that breaks a promise.
pub(super) struct Seen<'a> {
    pub(super) file_system: FileSystem,
    /// The system call that promised, such as `fsync`.
    pub(super) call: &'a str,
    pub(super) gap: Gap,
    /// What the judge says.
    pub(super) what: &'a str,
    /// A hole had been punched, or a range zeroed, before the promise.
    pub(super) has_punched: bool,
    /// The file was synchronised before it had a name.
    pub(super) was_unnamed: bool,
}

/// A fault.
pub(super) struct Known {
    pub(super) name: &'static str,
    is_it: fn(&Seen<'_>) -> bool,
}

const KNOWN: [Known; 8] = [
    Known {
        name: "XFS: sync and syncfs do not always flush the drive's cache (docs/reports/xfs-sync.md; --known repaired is without it)",
        is_it: |seen| seen.file_system == FileSystem::Xfs && is_sync(seen.call) && matches!(seen.gap, Gap::NoFlush(_)),
    },
    Known {
        name: "F2FS: the first fsync after a checkpoint does not wait for what it wrote (docs/reports/f2fs-first-fsync.md; \
               --known repaired is without it)",
        is_it: |seen| {
            let is_waiting = matches!(seen.gap, Gap::FlushedTooEarly { .. } | Gap::UnderWay(_));
            seen.file_system == FileSystem::F2fs && !is_sync(seen.call) && is_waiting
        },
    },
    Known {
        name: "F2FS: a hole punched across the end of a file makes it longer (docs/reports/f2fs-punch-hole.md; --known repaired is \
               without it)",
        is_it: |seen| seen.file_system == FileSystem::F2fs && seen.has_punched && seen.what.contains("wrong size"),
    },
    Known {
        name: "F2FS: a file that grew to the end of its last page keeps its old size (docs/reports/f2fs-direct-write.md; --known \
               repaired is without it)",
        is_it: |seen| {
            let is_size = seen.what.contains("wrong size") && seen.gap == Gap::NothingLost;
            seen.file_system == FileSystem::F2fs && !is_sync(seen.call) && !seen.has_punched && is_size
        },
    },
    Known {
        name: "F2FS: sync does not flush the drive's cache after an overwrite in place (docs/reports/f2fs-sync.md; --known repaired \
               is without it)",
        is_it: |seen| seen.file_system == FileSystem::F2fs && is_sync(seen.call) && matches!(seen.gap, Gap::NoFlush(_)),
    },
    Known {
        name: "F2FS: fsync writes the node that recovery follows before what it names is flushed, so that a file which grows may \
               hold what lay in its blocks before (docs/crash.md; it is not repaired)",
        is_it: |seen| {
            let is_foreign = seen.what.contains("never written there");
            seen.file_system == FileSystem::F2fs && is_foreign && matches!(seen.gap, Gap::GivenAfter(_))
        },
    },
    Known {
        name: "F2FS: a synchronised file that was renamed is lost when a new one takes its old name and is synchronised, which its \
               documentation allows (docs/crash.md; --mount-options fsync_mode=strict is without it)",
        is_it: |seen| {
            let is_nameless = seen.what.contains("under none of its names") && seen.gap == Gap::NothingLost;
            seen.file_system == FileSystem::F2fs && !is_sync(seen.call) && is_nameless
        },
    },
    Known {
        name: "Btrfs: fsync of a file without a name (O_TMPFILE) keeps nothing for a later link (docs/reports/btrfs-tmpfile.md; \
               --known repaired is without it)",
        is_it: |seen| seen.file_system == FileSystem::Btrfs && seen.was_unnamed,
    },
];

fn is_sync(call: &str) -> bool {
    matches!(call, "sync" | "syncfs")
}

/// The known fault that this is.
pub(super) fn known(seen: &Seen<'_>) -> Option<&'static Known> {
    KNOWN.iter().find(|known| (known.is_it)(seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_known_by_what_is_seen_of_it() {
        let says = |file_system, call, gap, what: &str| {
            let seen = Seen { file_system, call, gap, what, has_punched: false, was_unnamed: false };
            known(&seen).map(|known| known.name.split(' ').take(2).collect::<Vec<_>>().join(" "))
        };
        let of = |file_system, call, gap| says(file_system, call, gap, "");
        let early = Gap::FlushedTooEarly { write: 1, flush: 2 };
        assert_eq!(of(FileSystem::Xfs, "sync", Gap::NoFlush(1)).as_deref(), Some("XFS: sync"));
        assert_eq!(of(FileSystem::Xfs, "fsync", Gap::NoFlush(1)), None);
        assert_eq!(of(FileSystem::F2fs, "fsync", early).as_deref(), Some("F2FS: the"));
        assert_eq!(of(FileSystem::Ext4, "fsync", early), None);
        assert_eq!(of(FileSystem::F2fs, "syncfs", Gap::NoFlush(1)).as_deref(), Some("F2FS: sync"));
        assert_eq!(of(FileSystem::F2fs, "fsync", Gap::NothingLost), None, "the size is what it says");
        let nameless = "\"state.tmp\": lost: it is under none of its names";
        let named = |file_system| says(file_system, "fsync", Gap::NothingLost, nameless);
        assert_eq!(named(FileSystem::F2fs).as_deref(), Some("F2FS: a"));
        assert_eq!(named(FileSystem::Ext4), None);
        let foreign = "bytes that were never written there in bytes 0 to 511";
        let named = says(FileSystem::F2fs, "sync", Gap::GivenAfter(1), foreign);
        assert_eq!(named.as_deref(), Some("F2FS: fsync"));
        assert_eq!(says(FileSystem::Xfs, "sync", Gap::GivenAfter(1), foreign), None);
    }
}
