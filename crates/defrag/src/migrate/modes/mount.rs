//! Options that every file system has.

use super::{Mode, Verdict};

const TIMES: Verdict = Verdict::Apart("says which times are kept, and a move changes none");
const RIGHTS: Verdict = Verdict::Apart("says who may do what with a file");
const SYNC: Verdict = Verdict::Apart("commits more often");

/// `show_mnt_opts` and `show_sb_opts` of fs/proc_namespace.c, and those of security modules. `ro` is refused elsewhere.
pub(super) const OPTIONS: &[Mode] = &[
    Mode::option("rw", Verdict::Apart("is what is asked for")),
    Mode::option("ro", Verdict::Refused("nothing can be written")),
    Mode::option("sync", SYNC),
    Mode::option("dirsync", SYNC),
    Mode::option("relatime", TIMES),
    Mode::option("noatime", TIMES),
    Mode::option("nodiratime", TIMES),
    Mode::option("strictatime", TIMES),
    Mode::option("lazytime", TIMES),
    Mode::option("nolazytime", TIMES),
    Mode::option("nosuid", RIGHTS),
    Mode::option("nodev", RIGHTS),
    Mode::option("noexec", RIGHTS),
    Mode::option("nosymfollow", RIGHTS),
    Mode::option("idmapped", RIGHTS),
    Mode::option("mand", RIGHTS),
    Mode::option("seclabel", RIGHTS),
    Mode::option("context=*", RIGHTS),
    Mode::option("fscontext=*", RIGHTS),
    Mode::option("defcontext=*", RIGHTS),
    Mode::option("rootcontext=*", RIGHTS),
    Mode::option("smackfsdef=*", RIGHTS),
    Mode::option("smackfsfloor=*", RIGHTS),
    Mode::option("smackfshat=*", RIGHTS),
    Mode::option("smackfsroot=*", RIGHTS),
    Mode::option("smackfstransmute=*", RIGHTS),
];
