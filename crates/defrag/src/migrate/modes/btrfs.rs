//! Btrfs.

use super::{Mode, Verdict};

const DEFAULT: Verdict = Verdict::Tried("btrfs");
const NO_COW: Verdict = Verdict::Tried("btrfs-nodatacow");
const OLD: Verdict = Verdict::Tried("btrfs-old");
const RICH: Verdict = Verdict::Tried("btrfs-rich");

const RIGHTS: Verdict = Verdict::Apart("says who may do what");
const PLACE: Verdict = Verdict::Apart("says where new extents come from");
const TIMING: Verdict = Verdict::Apart("says how often, or by how many threads, something is done");
const USUAL: Verdict = Verdict::Apart("is the default, which is tried");
const ERRORS: Verdict = Verdict::Apart("says what is done about errors");
const VIEW: Verdict = Verdict::Apart("says what of the file system is seen");

const UNTRIED: Verdict = Verdict::Refused("moving on it is untried");
const RESCUE: Verdict = Verdict::Refused("a file system that is being rescued is not to be written to");
const COMPRESSES: Verdict = Verdict::Refused("what is rewritten is compressed, which makes more pieces, not fewer");
const NO_BARRIER: Verdict =
    Verdict::Refused("without barriers the device may make the new tree lasting before the data; mount with `barrier`");

/// `btrfs_show_options` of fs/btrfs/super.c, up to Linux 6.18.
pub(super) const OPTIONS: &[Mode] = &[
    Mode::option("barrier", USUAL),
    Mode::option("nobarrier", NO_BARRIER),
    Mode::option("degraded", UNTRIED),
    Mode::option("compress=*", COMPRESSES),
    Mode::option("compress-force=*", COMPRESSES),
    Mode::option("compress", COMPRESSES),
    Mode::option("compress-force", COMPRESSES),
    Mode::option("nodatacow", NO_COW),
    Mode::option("datacow", USUAL),
    Mode::option("nodatasum", NO_COW),
    Mode::option("datasum", USUAL),
    Mode::option("autodefrag", RICH),
    Mode::option("notreelog", RICH),
    Mode::option("treelog", USUAL),
    Mode::option("flushoncommit", RICH),
    Mode::option("noflushoncommit", USUAL),
    Mode::option("space_cache", OLD),
    Mode::option("space_cache=v1", Verdict::Apart("is another name of space_cache")),
    Mode::option("space_cache=v2", DEFAULT),
    Mode::option("nospace_cache", Verdict::Apart("makes the map of free space from the extents")),
    Mode::option("clear_cache", Verdict::Apart("rebuilds the map of free space at the mount")),
    Mode::option("discard", OLD),
    Mode::option("discard=sync", Verdict::Apart("is another name of discard")),
    Mode::option("discard=async", RICH),
    Mode::option("nodiscard", USUAL),
    Mode::option("max_inline=*", Verdict::Apart("what lies among metadata is left alone")),
    Mode::option("ssd", PLACE),
    Mode::option("ssd_spread", PLACE),
    Mode::option("nossd", PLACE),
    Mode::option("fragment=*", PLACE),
    Mode::option("metadata_ratio=*", PLACE),
    Mode::option("commit=*", TIMING),
    Mode::option("thread_pool=*", TIMING),
    Mode::option("skip_balance", TIMING),
    Mode::option("rescan_uuid_tree", TIMING),
    Mode::option("enospc_debug", ERRORS),
    Mode::option("fatal_errors=*", ERRORS),
    Mode::option("ref_verify", ERRORS),
    Mode::option("ref_tracker", ERRORS),
    Mode::option("noacl", RIGHTS),
    Mode::option("acl", RIGHTS),
    Mode::option("user_subvol_rm_allowed", RIGHTS),
    // Also when it is there: the kernel drops it once the file system is mounted (`btrfs_clear_oneshot_options`).
    Mode::option("usebackuproot", Verdict::Apart("chooses a root while mounting, and is over then")),
    Mode::option("subvol=*", VIEW),
    Mode::option("subvolid=*", VIEW),
    Mode::option("device=*", VIEW),
    Mode::option("norecovery", RESCUE),
    Mode::option("nologreplay", RESCUE),
    Mode::option("rescue=*", RESCUE),
    Mode::option("ignorebadroots", RESCUE),
    Mode::option("ignoredatacsums", RESCUE),
    Mode::option("ignoremetacsums", RESCUE),
    Mode::option("ignoresuperflags", RESCUE),
];

/// `BTRFS_FEATURE_COMPAT_*` (word 0), `BTRFS_FEATURE_COMPAT_RO_*` (1) and `BTRFS_FEATURE_INCOMPAT_*` (2) of
/// include/uapi/linux/btrfs.h.
pub(super) const FEATURES: &[Mode] = &[
    Mode::feature("free_space_tree", 1, 0, DEFAULT),
    Mode::feature("free_space_tree_valid", 1, 1, DEFAULT),
    Mode::feature("verity", 1, 2, Verdict::Apart("files that have it are left alone one by one")),
    Mode::feature("block_group_tree", 1, 3, Verdict::Apart("says where block groups are listed")),
    Mode::feature("mixed_backref", 2, 0, DEFAULT),
    Mode::feature("default_subvol", 2, 1, VIEW),
    Mode::feature("mixed_groups", 2, 2, OLD),
    Mode::feature("compress_lzo", 2, 3, Verdict::Apart("what is compressed is left alone")),
    Mode::feature("compress_zstd", 2, 4, Verdict::Apart("what is compressed is left alone")),
    Mode::feature("big_metadata", 2, 5, DEFAULT),
    Mode::feature("extended_iref", 2, 6, Verdict::Apart("is about names")),
    Mode::feature(
        "raid56",
        2,
        7,
        Verdict::Refused("a crash within a stripe leaves its parity wrong, of other data too"),
    ),
    Mode::feature("skinny_metadata", 2, 8, DEFAULT),
    Mode::feature("no_holes", 2, 9, DEFAULT),
    Mode::feature("metadata_uuid", 2, 10, Verdict::Apart("is the file system's name")),
    Mode::feature("raid1c34", 2, 11, Verdict::Apart("writes the same in more places, as raid1 does")),
    Mode::feature("zoned", 2, 12, UNTRIED),
    Mode::feature("extent_tree_v2", 2, 13, UNTRIED),
    Mode::feature("raid_stripe_tree", 2, 14, UNTRIED),
    Mode::feature("simple_quota", 2, 16, Verdict::Apart("counts what is newly written to the subvolume that owns it")),
    Mode::feature("remap_tree", 2, 17, UNTRIED),
];
