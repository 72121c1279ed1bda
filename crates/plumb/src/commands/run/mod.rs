//! `plumb run`: specs, folders of specs, job files and traces.

mod arguments;
mod batches;
mod folder;
mod one;

use super::Done;

pub use arguments::RunArguments;
pub use batches::{say_damage, verdict};
pub use one::print;

/// Runs, keeps, prints.
pub fn run(arguments: &RunArguments) -> Done {
    if arguments.file.is_dir() { folder::run(arguments) } else { one::run(arguments) }
}
