//! The home folders of many users on a server, as Filebench defines it (`workloads/fileserver.f`).

use super::filebench::{Defaults, Options, Personality};
use crate::engine::Step;
use crate::engine::fileset::Definition;

pub(super) struct Fileserver;

const FILES: usize = 0;

impl Personality for Fileserver {
    const NAME: &'static str = "fileserver";
    const ABOUT: &'static str =
        "A file server: write a new file, append, read, delete, stat, in a tree of folders (after Filebench)";
    const EXAMPLES: &'static str = "Examples:
  plumb app fileserver --folder /mnt --seconds 60
  plumb app fileserver --files 600 --file-size 10m --threads 16 --operations 5000 --json";
    const DEFAULTS: Defaults =
        Defaults { files: "10000", file_size: "128k", width: "20", threads: "50", append_size: "16k" };
    const CHANGES_FILES: bool = true;

    fn sets(options: &Options) -> Vec<Definition> {
        vec![options.set("files", 80, 2)]
    }

    fn steps(options: &Options) -> Vec<Step> {
        let (io_bytes, most_bytes) = (options.io_size.0, options.append_size.0);
        vec![
            Step::Create { set: FILES, last: false },
            Step::WriteWhole { io_bytes },
            Step::Close,
            Step::Open { set: FILES },
            Step::Append { most_bytes },
            Step::Close,
            Step::Open { set: FILES },
            Step::ReadWhole { io_bytes },
            Step::Close,
            Step::Delete { set: FILES },
            Step::Stat { set: FILES },
        ]
    }
}
