//! ext4.

use super::{Mode, Verdict};

const DEFAULT: Verdict = Verdict::Tried("ext4");
const WRITEBACK: Verdict = Verdict::Tried("ext4-writeback");
const PLAIN: Verdict = Verdict::Tried("ext4-plain");
const RICH: Verdict = Verdict::Tried("ext4-rich");

const NAMES: Verdict = Verdict::Apart("is about names and attributes");
const RIGHTS: Verdict = Verdict::Apart("says who may do what, or who is charged");
const PLACE: Verdict = Verdict::Apart("says where new blocks come from");
const TIMING: Verdict = Verdict::Apart("says how long the journal or a background task waits");
const QUOTA: Verdict = Verdict::Apart("counts blocks, of which a file has as many as before");
const USUAL: Verdict = Verdict::Apart("is the default, which is tried");
const ERRORS: Verdict = Verdict::Apart("says what is done about errors");
const ATTRIBUTE: Verdict = Verdict::Apart("files that have it are left alone one by one");
const TABLES: Verdict = Verdict::Apart("says where the file system keeps its own tables");

const NO_JOURNAL: Verdict =
    Verdict::Refused("without a journal a crash may find the map of a moved file older or newer than its data");
const NO_BARRIER: Verdict =
    Verdict::Refused("without barriers the device may make the new map lasting before the data; mount with `barrier`");
const ASYNC_COMMIT: Verdict = Verdict::Refused(
    "with asynchronous commits the journal may be lasting before the data that it speaks of; mount without",
);
const DIRECT_ACCESS: Verdict = Verdict::Refused("moving beside direct access to memory is untried");

/// `_ext4_show_options` of fs/ext4/super.c, of a mount and of `/proc/fs/ext4/*/options`, up to Linux 6.18.
pub(super) const OPTIONS: &[Mode] = &[
    Mode::option("data=ordered", DEFAULT),
    Mode::option("data=writeback", WRITEBACK),
    Mode::option("data=journal", Verdict::Refused("the kernel does not move such files")),
    Mode::option("barrier", DEFAULT),
    Mode::option("barrier=1", USUAL),
    Mode::option("nobarrier", NO_BARRIER),
    Mode::option("barrier=0", NO_BARRIER),
    Mode::option("journal_async_commit", ASYNC_COMMIT),
    Mode::option("norecovery", NO_JOURNAL),
    Mode::option("noload", NO_JOURNAL),
    Mode::option("journal_dev=*", Verdict::Refused("a journal on another device is untried")),
    Mode::option("journal_path=*", Verdict::Refused("a journal on another device is untried")),
    Mode::option("fc_debug_force", Verdict::Refused("its journal may not recover; `tune2fs -O ^fast_commit` first")),
    Mode::option("fast_commit", Verdict::Refused("its journal may not recover; `tune2fs -O ^fast_commit` first")),
    Mode::option("journal_checksum", DEFAULT),
    Mode::option("nojournal_checksum", PLAIN),
    Mode::option("delalloc", DEFAULT),
    Mode::option("nodelalloc", WRITEBACK),
    Mode::option("dioread_nolock", DEFAULT),
    Mode::option("nodioread_nolock", WRITEBACK),
    Mode::option("dioread_lock", Verdict::Apart("is another name of nodioread_nolock")),
    Mode::option("discard", WRITEBACK),
    Mode::option("nodiscard", DEFAULT),
    Mode::option("auto_da_alloc", DEFAULT),
    Mode::option("noauto_da_alloc", WRITEBACK),
    Mode::option("block_validity", DEFAULT),
    Mode::option("noblock_validity", WRITEBACK),
    Mode::option("noquota", DEFAULT),
    Mode::option("quota", QUOTA),
    Mode::option("usrquota", QUOTA),
    Mode::option("grpquota", QUOTA),
    Mode::option("prjquota", QUOTA),
    Mode::option("usrjquota=*", QUOTA),
    Mode::option("grpjquota=*", QUOTA),
    Mode::option("jqfmt=*", QUOTA),
    Mode::option("dax", DIRECT_ACCESS),
    Mode::option("dax=always", DIRECT_ACCESS),
    Mode::option("dax=inode", ATTRIBUTE),
    Mode::option("dax=never", Verdict::Apart("is off")),
    Mode::option("data_err=abort", ERRORS),
    Mode::option("data_err=ignore", ERRORS),
    Mode::option("errors=*", ERRORS),
    Mode::option("warn_on_error", ERRORS),
    Mode::option("nowarn_on_error", ERRORS),
    Mode::option("abort", ERRORS),
    Mode::option("shutdown", ERRORS),
    Mode::option("emergency_ro", ERRORS),
    Mode::option("bsddf", RIGHTS),
    Mode::option("minixdf", RIGHTS),
    Mode::option("grpid", RIGHTS),
    Mode::option("nogrpid", RIGHTS),
    Mode::option("bsdgroups", RIGHTS),
    Mode::option("sysvgroups", RIGHTS),
    Mode::option("resuid=*", RIGHTS),
    Mode::option("resgid=*", RIGHTS),
    Mode::option("resv_strict", RIGHTS),
    Mode::option("nouid32", RIGHTS),
    Mode::option("acl", RIGHTS),
    Mode::option("noacl", RIGHTS),
    Mode::option("user_xattr", NAMES),
    Mode::option("nouser_xattr", NAMES),
    Mode::option("mbcache", NAMES),
    Mode::option("no_mbcache", NAMES),
    Mode::option("nombcache", NAMES),
    Mode::option("max_dir_size_kb=*", NAMES),
    Mode::option("debug_want_extra_isize=*", NAMES),
    Mode::option("i_version", Verdict::Apart("counts changes, and a move is none")),
    Mode::option("iversion", Verdict::Apart("counts changes, and a move is none")),
    Mode::option("test_dummy_encryption", ATTRIBUTE),
    Mode::option("test_dummy_encryption=*", ATTRIBUTE),
    Mode::option("inlinecrypt", ATTRIBUTE),
    Mode::option("commit=*", TIMING),
    Mode::option("min_batch_time=*", TIMING),
    Mode::option("max_batch_time=*", TIMING),
    Mode::option("journal_ioprio=*", TIMING),
    Mode::option("inode_readahead_blks=*", TIMING),
    Mode::option("init_itable=*", TIMING),
    Mode::option("init_itable", TIMING),
    Mode::option("noinit_itable", TIMING),
    Mode::option("prefetch_block_bitmaps", TIMING),
    Mode::option("no_prefetch_block_bitmaps", TIMING),
    Mode::option("fc_debug_max_replay=*", TIMING),
    Mode::option("debug", TIMING),
    Mode::option("stripe=*", PLACE),
    Mode::option("mblk_io_submit", PLACE),
    Mode::option("nomblk_io_submit", PLACE),
    Mode::option("mb_optimize_scan=*", PLACE),
    Mode::option("orlov", PLACE),
    Mode::option("oldalloc", PLACE),
    Mode::option("sb=*", TABLES),
];

/// `EXT4_FEATURE_COMPAT_*` (word 0), `EXT4_FEATURE_INCOMPAT_*` (1) and `EXT4_FEATURE_RO_COMPAT_*` (2) of fs/ext4/ext4.h.
pub(super) const FEATURES: &[Mode] = &[
    Mode::feature("dir_prealloc", 0, 0, NAMES),
    Mode::feature("imagic_inodes", 0, 1, TABLES),
    Mode::feature("has_journal", 0, 2, DEFAULT),
    Mode::feature("ext_attr", 0, 3, NAMES),
    Mode::feature("resize_inode", 0, 4, TABLES),
    Mode::feature("dir_index", 0, 5, NAMES),
    Mode::feature("sparse_super2", 0, 9, TABLES),
    Mode::feature(
        "fast_commit",
        0,
        10,
        Verdict::Refused("its journal may not recover; `tune2fs -O ^fast_commit` first"),
    ),
    Mode::feature("stable_inodes", 0, 11, RICH),
    Mode::feature("orphan_file", 0, 12, RICH),
    Mode::feature("filetype", 1, 1, NAMES),
    Mode::feature("needs_recovery", 1, 2, DEFAULT),
    Mode::feature("meta_bg", 1, 4, TABLES),
    Mode::feature("extent", 1, 6, DEFAULT),
    Mode::feature("64bit", 1, 7, DEFAULT),
    Mode::feature("mmp", 1, 8, Verdict::Apart("is a block in which hosts say that they are there")),
    Mode::feature("flex_bg", 1, 9, DEFAULT),
    Mode::feature("ea_inode", 1, 10, RICH),
    Mode::feature("dirdata", 1, 12, NAMES),
    Mode::feature("metadata_csum_seed", 1, 13, RICH),
    Mode::feature("large_dir", 1, 14, RICH),
    Mode::feature("inline_data", 1, 15, RICH),
    Mode::feature("encrypt", 1, 16, RICH),
    Mode::feature("casefold", 1, 17, NAMES),
    Mode::feature("sparse_super", 2, 0, TABLES),
    Mode::feature("large_file", 2, 1, DEFAULT),
    Mode::feature("huge_file", 2, 3, DEFAULT),
    Mode::feature("uninit_bg", 2, 4, PLAIN),
    Mode::feature("dir_nlink", 2, 5, NAMES),
    Mode::feature("extra_isize", 2, 6, NAMES),
    Mode::feature("quota", 2, 8, QUOTA),
    Mode::feature("bigalloc", 2, 9, Verdict::Refused("the kernel does not move files in clusters of blocks")),
    Mode::feature("metadata_csum", 2, 10, DEFAULT),
    Mode::feature("read-only", 2, 12, Verdict::Refused("nothing can be written")),
    Mode::feature("project", 2, 13, QUOTA),
    Mode::feature("shared_blocks", 2, 14, Verdict::Refused("its blocks may be several files'")),
    Mode::feature("verity", 2, 15, RICH),
    Mode::feature("orphan_present", 2, 16, Verdict::Apart("is set while the orphan file has entries")),
];
