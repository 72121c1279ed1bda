//! A mail server that keeps each message in a file, as Filebench defines it (`workloads/varmail.f`).

use super::filebench::{Defaults, Options, Personality};
use crate::engine::Step;
use crate::engine::fileset::Definition;

pub(super) struct Varmail;

const MAIL: usize = 0;

impl Personality for Varmail {
    const NAME: &'static str = "varmail";
    const ABOUT: &'static str = "A mail server with a file for each message: delete, create and fsync, append and fsync, \
                                 read (after Filebench)";
    const EXAMPLES: &'static str = "Examples:
  plumb app varmail --folder /mnt --seconds 30
  plumb app varmail --prepare --files 5000
  plumb app varmail --run --files 5000 --operations 20000 --json   # on what was prepared, with cold caches if you wish
  plumb linux --fs ext4 -- plumb app varmail --operations 5000     # a real kernel in virtual time";
    const DEFAULTS: Defaults =
        Defaults { files: "1000", file_size: "16k", width: "1000000", threads: "16", append_size: "16k" };
    const CHANGES_FILES: bool = true;

    fn sets(options: &Options) -> Vec<Definition> {
        vec![options.set("mail", 80, 2)]
    }

    fn steps(options: &Options) -> Vec<Step> {
        let (io_bytes, most_bytes) = (options.io_size.0, options.append_size.0);
        vec![
            Step::Delete { set: MAIL },
            Step::Create { set: MAIL, last: false },
            Step::Append { most_bytes },
            Step::Fsync,
            Step::Close,
            Step::Open { set: MAIL },
            Step::ReadWhole { io_bytes },
            Step::Append { most_bytes },
            Step::Fsync,
            Step::Close,
            Step::Open { set: MAIL },
            Step::ReadWhole { io_bytes },
            Step::Close,
        ]
    }
}
