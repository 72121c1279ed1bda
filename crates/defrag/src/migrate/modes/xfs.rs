//! XFS.

use super::{Mode, Verdict};

const DEFAULT: Verdict = Verdict::Tried("xfs");
const PLAIN: Verdict = Verdict::Tried("xfs-plain");
const RICH: Verdict = Verdict::Tried("xfs-rich");

const NAMES: Verdict = Verdict::Apart("is about names and attributes");
const RIGHTS: Verdict = Verdict::Apart("says who may do what, or who is charged");
const PLACE: Verdict = Verdict::Apart("says where new blocks come from");
const TABLES: Verdict = Verdict::Apart("says where and how the file system keeps its own tables");

const QUOTA: Verdict = Verdict::Apart("counts blocks, of which a file has as many as before");
const DIRECT_ACCESS: Verdict = Verdict::Refused("moving beside direct access to memory is untried");

/// `xfs_fs_show_options` of fs/xfs/xfs_super.c, up to Linux 6.18, and what older kernels had.
pub(super) const OPTIONS: &[Mode] = &[
    Mode::option("noquota", DEFAULT),
    Mode::option("usrquota", QUOTA),
    Mode::option("grpquota", QUOTA),
    Mode::option("prjquota", QUOTA),
    Mode::option("uqnoenforce", RIGHTS),
    Mode::option("gqnoenforce", RIGHTS),
    Mode::option("pqnoenforce", RIGHTS),
    Mode::option("wsync", RICH),
    Mode::option("discard", RICH),
    Mode::option("logbufs=*", DEFAULT),
    Mode::option("logbsize=*", DEFAULT),
    Mode::option("logdev=*", Verdict::Refused("a log on another device is untried")),
    Mode::option("norecovery", Verdict::Refused("nothing can be written")),
    Mode::option("nobarrier", Verdict::Refused("without barriers the device may make the log lasting before the data")),
    Mode::option("barrier", Verdict::Apart("is the only way since Linux 4.19")),
    Mode::option("delaylog", Verdict::Apart("is the only way since Linux 3.3")),
    Mode::option("rtdev=*", Verdict::Apart("files on the realtime device are left alone one by one")),
    Mode::option("dax", DIRECT_ACCESS),
    Mode::option("dax=always", DIRECT_ACCESS),
    Mode::option("dax=inode", Verdict::Apart("files that have it are left alone one by one")),
    Mode::option("dax=never", Verdict::Apart("is off")),
    Mode::option("inode64", PLACE),
    Mode::option("inode32", PLACE),
    Mode::option("noalign", PLACE),
    Mode::option("swalloc", PLACE),
    Mode::option("sunit=*", PLACE),
    Mode::option("swidth=*", PLACE),
    Mode::option("allocsize=*", PLACE),
    Mode::option("largeio", PLACE),
    Mode::option("nolargeio", PLACE),
    Mode::option("filestreams", PLACE),
    Mode::option("nolifetime", PLACE),
    Mode::option("lifetime", PLACE),
    Mode::option("max_open_zones=*", PLACE),
    Mode::option("max_atomic_write=*", Verdict::Apart("bounds what other programs write at once")),
    Mode::option("attr2", NAMES),
    Mode::option("noattr2", NAMES),
    Mode::option("ikeep", TABLES),
    Mode::option("noikeep", TABLES),
    Mode::option("nouuid", TABLES),
    Mode::option("grpid", RIGHTS),
    Mode::option("nogrpid", RIGHTS),
    Mode::option("errortag=*", Verdict::Refused("the kernel makes errors on purpose")),
];

/// `XFS_FSOP_GEOM_FLAGS_*` of fs/xfs/libxfs/xfs_fs.h.
pub(super) const FEATURES: &[Mode] = &[
    Mode::feature("attr", 0, 0, NAMES),
    Mode::feature("nlink", 0, 1, NAMES),
    Mode::feature("quota", 0, 2, QUOTA),
    Mode::feature("ialign", 0, 3, TABLES),
    Mode::feature("dalign", 0, 4, PLACE),
    Mode::feature("shared", 0, 5, Verdict::Refused("a file system of the nineties that no kernel mounts writable")),
    Mode::feature("extflg", 0, 6, DEFAULT),
    Mode::feature("dirv2", 0, 7, NAMES),
    Mode::feature("logv2", 0, 8, DEFAULT),
    Mode::feature("sector", 0, 9, Verdict::Apart("is the size of what the log writes at once")),
    Mode::feature("attr2", 0, 10, NAMES),
    Mode::feature("projid32", 0, 11, RIGHTS),
    Mode::feature("dirv2ci", 0, 12, NAMES),
    Mode::feature("lazysb", 0, 14, DEFAULT),
    Mode::feature("v5sb", 0, 15, DEFAULT),
    Mode::feature("ftype", 0, 16, NAMES),
    Mode::feature("finobt", 0, 17, TABLES),
    Mode::feature("spinodes", 0, 18, TABLES),
    Mode::feature("rmapbt", 0, 19, RICH),
    Mode::feature("reflink", 0, 20, DEFAULT),
    Mode::feature("bigtime", 0, 21, NAMES),
    Mode::feature("inobtcnt", 0, 22, TABLES),
    Mode::feature("nrext64", 0, 23, RICH),
    Mode::feature("exchange", 0, 24, PLAIN),
    Mode::feature("parent", 0, 25, NAMES),
    Mode::feature("metadir", 0, 26, TABLES),
    Mode::feature("zoned", 0, 27, Verdict::Refused("zones are written in order alone, which is untried")),
];
