//! The fragmentation study's own process, inside a guest or on a loop device; `plumb run` starts it, not people.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use defrag::study::{self, Cell, CellPlace};

use super::Done;
use crate::failure::Failure;

/// What to do of a cell.
#[derive(Args)]
pub struct DefragStudyArguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// All of it; writes what was measured
    Cell { cell: PathBuf, folder: PathBuf, scratch: PathBuf, seed: u64, out: PathBuf },
    /// Its I/O alone, once
    Pass { cell: PathBuf, folder: PathBuf, seed: u64 },
}

/// Does it.
pub fn defrag_study(arguments: &DefragStudyArguments) -> Done {
    let failed = |error: study::StudyError| Failure::Machine(error.to_string());
    match &arguments.part {
        Part::Pass { cell, folder, seed } => study::pass(cell, folder, *seed).map_err(failed)?,
        Part::Cell { cell, folder, scratch, seed, out } => {
            let program = std::env::current_exe()
                .map_err(|error| Failure::Machine(format!("cannot find plumb itself: {error}")))?;
            let place = CellPlace { program, folder: folder.clone(), scratch: scratch.clone(), seed: *seed };
            let measured = study::run(&read(cell)?, &place).map_err(failed)?;
            let text = serde_json::to_vec(&measured).map_err(|error| Failure::Machine(error.to_string()))?;
            std::fs::write(out, text)
                .map_err(|error| Failure::Machine(format!("cannot write {}: {error}", out.display())))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Cell, Failure> {
    let text =
        std::fs::read(path).map_err(|error| Failure::input(format!("cannot read {}: {error}", path.display())))?;
    serde_json::from_slice(&text).map_err(|error| Failure::input(format!("{}: {error}", path.display())))
}
