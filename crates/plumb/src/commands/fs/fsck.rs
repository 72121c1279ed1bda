//! Checking a file system that is not mounted.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;

use super::super::{Done, EXIT_FAILED};
use super::image::{self, ImageFlags};

#[derive(Args)]
#[command(
    after_help = "Every block's checksum and every rule of the format are checked. What the log holds is recovered first,
as a mount would; nothing else is changed."
)]
pub struct FsckArguments {
    #[command(flatten)]
    image: ImageFlags,
    /// Print what was found as an object
    #[arg(long)]
    json: bool,
}

/// Checks it.
pub fn fsck(arguments: &FsckArguments) -> Done {
    let path = &arguments.image.image;
    let file = image::file(path, None)?;
    let bar = ProgressBar::new_spinner().with_message("reading everything");
    bar.enable_steady_tick(Duration::from_millis(200));
    let checked = betrfs::check(file, &arguments.image.options());
    bar.finish_and_clear();
    let findings: Vec<_> =
        checked.map_err(|error| arguments.image.fault(&error))?.iter().map(ToString::to_string).collect();
    if arguments.json {
        let sound = findings.is_empty();
        println!("{}", json!({ "file_system": path.display().to_string(), "sound": sound, "findings": findings }));
    } else if findings.is_empty() {
        println!("{}: sound", path.display());
    } else {
        findings.iter().for_each(|finding| println!("{finding}"));
    }
    if findings.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "{}: {} findings, of which the later ones may follow from the first. What can be read can be copied away from \
         `plumb fs mount {0} DIR -o ro`",
        path.display(),
        findings.len()
    );
    Ok(ExitCode::from(EXIT_FAILED))
}
