//! Many small files in a balanced tree of folders: TokuBench, as the studies of BetrFS run it.

use clap::Args;
use serde::Serialize;
use units::ByteSize;

use super::{Program, arguments};
use crate::engine::fileset::{Definition, Shape, Sizes};
use crate::engine::{AppError, Flow, ProgramPlan, Role, Step};

#[derive(Args, Serialize)]
pub(super) struct Tokubench {
    /// Files that are made
    #[arg(long, value_name = "N", default_value = "3000000", value_parser = arguments::files)]
    files: u64,
    /// Size of each, written in one piece
    #[arg(long, value_name = "SIZE", default_value = "200", value_parser = arguments::io_size)]
    file_size: ByteSize,
    /// Most entries of a folder
    #[arg(long, value_name = "N", default_value_t = 128)]
    children: u64,
    /// Threads
    #[arg(long, value_name = "N", default_value = "4", value_parser = arguments::threads)]
    threads: usize,
}

impl Program for Tokubench {
    const NAME: &'static str = "tokubench";
    const ABOUT: &'static str =
        "Many small files, made in a balanced tree of folders (TokuBench, as BetrFS is judged by it)";
    const EXAMPLES: &'static str = "Examples:
  plumb app tokubench --files 100000 --json
  plumb app tokubench --prepare --files 100000                      # the folders
  plumb app tokubench --run --files 100000 --threads 4              # the files

Nothing is synchronised. It ends when all files are made.";
    const SECONDS: Option<u64> = None;

    fn plan(&self) -> Result<ProgramPlan, AppError> {
        let bytes = self.file_size.0;
        let steps = [Step::Create { set: 0, last: true }, Step::WriteWhole { io_bytes: bytes }, Step::Close];
        Ok(ProgramPlan {
            sets: vec![Definition {
                name: "tree",
                files: self.files,
                sizes: Sizes { mean_bytes: bytes, gamma: 0.0 },
                shape: Shape::Balanced { children: self.children },
                prepared_percent: 0,
                shares: self.threads,
                least_a_share: 1,
                compressible_percent: 0,
            }],
            roles: vec![Role::leading("tokubench", self.threads, move |_| Box::new(Flow::new(&steps)))],
            semaphores: Vec::new(),
            read_bytes: 0,
            write_bytes: bytes,
            changes_files: true,
        })
    }
}
