//! F2FS.

use super::{Mode, Verdict};

const DEFAULT: Verdict = Verdict::Tried("f2fs");
const RICH: Verdict = Verdict::Tried("f2fs-rich");

const NAMES: Verdict = Verdict::Apart("is about names, attributes and files within their inode");
const RIGHTS: Verdict = Verdict::Apart("says who may do what, or who is charged");
const PLACE: Verdict = Verdict::Apart("says where in the log something is written");
const TIMING: Verdict = Verdict::Apart("says when or how often something is done");
const ERRORS: Verdict = Verdict::Apart("says what is done about errors");
const CACHES: Verdict = Verdict::Apart("says what is kept in memory");
const ATTRIBUTE: Verdict = Verdict::Apart("files that have it are left alone one by one");

const UNTRIED: Verdict = Verdict::Refused("moving on it is untried");
const NO_BARRIER: Verdict = Verdict::Refused(
    "without barriers the device may make the new map lasting before the data; mount with `barrier` and fsync_mode=posix",
);

/// `f2fs_show_options` of fs/f2fs/super.c, up to Linux 6.18.
pub(super) const OPTIONS: &[Mode] = &[
    Mode::option("barrier", DEFAULT),
    Mode::option("nobarrier", NO_BARRIER),
    Mode::option("fsync_mode=posix", DEFAULT),
    Mode::option("fsync_mode=strict", RICH),
    Mode::option("fsync_mode=nobarrier", NO_BARRIER),
    Mode::option("checkpoint=enable", Verdict::Apart("is the default, which is tried")),
    Mode::option("checkpoint=disable*", Verdict::Refused("what is moved is kept at both places; mount without")),
    Mode::option("checkpoint_merge", DEFAULT),
    Mode::option("nocheckpoint_merge", RICH),
    Mode::option("mode=adaptive", DEFAULT),
    Mode::option("mode=lfs", RICH),
    Mode::option("mode=fragment:*", Verdict::Refused("the kernel scatters what is written on purpose")),
    Mode::option("alloc_mode=default", PLACE),
    Mode::option("alloc_mode=reuse", PLACE),
    Mode::option("active_logs=*", DEFAULT),
    Mode::option("flush_merge", DEFAULT),
    Mode::option("noflush_merge", RICH),
    Mode::option("disable_roll_forward", UNTRIED),
    Mode::option("norecovery", UNTRIED),
    Mode::option("fault_injection=*", Verdict::Refused("the kernel makes errors on purpose")),
    Mode::option("fault_type=*", Verdict::Refused("the kernel makes errors on purpose")),
    Mode::option("io_bits=*", UNTRIED),
    Mode::option("io_size=*", UNTRIED),
    Mode::option("background_gc=*", TIMING),
    Mode::option("gc_merge", TIMING),
    Mode::option("nogc_merge", TIMING),
    Mode::option("atgc", PLACE),
    Mode::option("data_flush", TIMING),
    Mode::option("fastboot", TIMING),
    Mode::option("discard", TIMING),
    Mode::option("nodiscard", TIMING),
    Mode::option("discard_unit=*", TIMING),
    Mode::option("heap", PLACE),
    Mode::option("no_heap", PLACE),
    Mode::option("whint_mode=*", PLACE),
    Mode::option("reserve_root=*", RIGHTS),
    Mode::option("reserve_node=*", RIGHTS),
    Mode::option("resuid=*", RIGHTS),
    Mode::option("resgid=*", RIGHTS),
    Mode::option("acl", RIGHTS),
    Mode::option("noacl", RIGHTS),
    Mode::option("quota", RIGHTS),
    Mode::option("usrquota", RIGHTS),
    Mode::option("grpquota", RIGHTS),
    Mode::option("prjquota", RIGHTS),
    Mode::option("usrjquota=*", RIGHTS),
    Mode::option("grpjquota=*", RIGHTS),
    Mode::option("prjjquota=*", RIGHTS),
    Mode::option("jqfmt=*", RIGHTS),
    Mode::option("user_xattr", NAMES),
    Mode::option("nouser_xattr", NAMES),
    Mode::option("inline_xattr", NAMES),
    Mode::option("noinline_xattr", NAMES),
    Mode::option("inline_xattr_size=*", NAMES),
    Mode::option("inline_data", NAMES),
    Mode::option("noinline_data", NAMES),
    Mode::option("inline_dentry", NAMES),
    Mode::option("noinline_dentry", NAMES),
    Mode::option("lookup_mode=*", NAMES),
    Mode::option("extent_cache", CACHES),
    Mode::option("noextent_cache", CACHES),
    Mode::option("age_extent_cache", CACHES),
    Mode::option("memory=*", CACHES),
    Mode::option("nat_bits", CACHES),
    Mode::option("errors=*", ERRORS),
    Mode::option("test_dummy_encryption", ATTRIBUTE),
    Mode::option("test_dummy_encryption=*", ATTRIBUTE),
    Mode::option("inlinecrypt", ATTRIBUTE),
    Mode::option("compress_algorithm=*", ATTRIBUTE),
    Mode::option("compress_log_size=*", ATTRIBUTE),
    Mode::option("compress_extension=*", ATTRIBUTE),
    Mode::option("nocompress_extension=*", ATTRIBUTE),
    Mode::option("compress_chksum", ATTRIBUTE),
    Mode::option("compress_mode=*", ATTRIBUTE),
    Mode::option("compress_cache", ATTRIBUTE),
];

/// `features_show` of fs/f2fs/sysfs.c.
pub(super) const FEATURES: &[Mode] = &[
    Mode::option("encryption", ATTRIBUTE),
    Mode::option("blkzoned", UNTRIED),
    Mode::option("projquota", RIGHTS),
    Mode::option("project_quota", RIGHTS),
    Mode::option("extra_attr", RICH),
    Mode::option("inode_checksum", RICH),
    Mode::option("flexible_inline_xattr", NAMES),
    Mode::option("quota_ino", RIGHTS),
    Mode::option("inode_crtime", RICH),
    Mode::option("lost_found", NAMES),
    Mode::option("verity", ATTRIBUTE),
    Mode::option("sb_checksum", RICH),
    Mode::option("casefold", NAMES),
    Mode::option("compression", ATTRIBUTE),
    Mode::option("readonly", Verdict::Refused("nothing can be written")),
    Mode::option("ro", Verdict::Refused("nothing can be written")),
    Mode::option("pin_file", ATTRIBUTE),
    Mode::option("device_alias", UNTRIED),
    Mode::option("linear_lookup", NAMES),
    Mode::option("packed_ssa", UNTRIED),
];
