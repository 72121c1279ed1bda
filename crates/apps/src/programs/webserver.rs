//! A server of web pages with one log, as Filebench defines it (`workloads/webserver.f`).

use super::filebench::{Defaults, Options, Personality};
use crate::engine::Step;
use crate::engine::fileset::Definition;

pub(super) struct Webserver;

const PAGES: usize = 0;
const LOG: usize = 1;
/// Pages that are read for one entry in the log.
const PAGES_A_TURN: usize = 10;

impl Personality for Webserver {
    const NAME: &'static str = "webserver";
    const ABOUT: &'static str =
        "A web server: read ten files, append to one log that all threads share (after Filebench)";
    const EXAMPLES: &'static str = "Examples:
  plumb app webserver --folder /mnt --seconds 60
  plumb app webserver --files 20000 --operations 100000 --json";
    const DEFAULTS: Defaults =
        Defaults { files: "1000", file_size: "16k", width: "20", threads: "100", append_size: "16k" };
    const CHANGES_FILES: bool = true;

    fn sets(options: &Options) -> Vec<Definition> {
        let pages = options.set("pages", 100, 0);
        let log = Definition { name: "log", files: 1, shares: 1, ..pages.clone() };
        vec![pages, log]
    }

    fn steps(options: &Options) -> Vec<Step> {
        let page = [Step::Open { set: PAGES }, Step::ReadWhole { io_bytes: options.io_size.0 }, Step::Close];
        let mut steps = page.repeat(PAGES_A_TURN);
        steps.push(Step::AppendToLog { set: LOG, most_bytes: options.append_size.0 });
        steps
    }
}
