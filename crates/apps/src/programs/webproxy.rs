//! A cache of web pages, as Filebench defines it (`workloads/webproxy.f`).

use super::filebench::{Defaults, Options, Personality};
use crate::engine::Step;
use crate::engine::fileset::Definition;

pub(super) struct Webproxy;

const CACHE: usize = 0;
/// Pages that are served for one that is replaced.
const PAGES_A_TURN: usize = 5;

impl Personality for Webproxy {
    const NAME: &'static str = "webproxy";
    const ABOUT: &'static str = "A web proxy: replace one file, read five, in one large folder (after Filebench)";
    const EXAMPLES: &'static str = "Examples:
  plumb app webproxy --folder /mnt --seconds 60
  plumb app webproxy --files 100000 --operations 50000 --json";
    const DEFAULTS: Defaults =
        Defaults { files: "10000", file_size: "16k", width: "1000000", threads: "100", append_size: "16k" };
    const CHANGES_FILES: bool = true;

    fn sets(options: &Options) -> Vec<Definition> {
        vec![options.set("cache", 80, 2)]
    }

    fn steps(options: &Options) -> Vec<Step> {
        let mut steps = vec![
            Step::Delete { set: CACHE },
            Step::Create { set: CACHE, last: false },
            Step::Append { most_bytes: options.append_size.0 },
            Step::Close,
        ];
        let page = [Step::Open { set: CACHE }, Step::ReadWhole { io_bytes: options.io_size.0 }, Step::Close];
        steps.extend(page.repeat(PAGES_A_TURN));
        steps
    }
}
