//! Checking a file system that is not mounted, and mending it.

use std::process::ExitCode;
use std::time::Duration;

use betrfs::{Finding, Repair};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;

use super::super::{Done, EXIT_FAILED};
use super::image::{self, ImageFlags};
use super::serving::now;

#[derive(Args)]
#[command(
    after_help = "Every block's checksum and every rule of the format are checked. What the log holds is recovered first,
as a mount would; nothing else is changed without --repair. That removes what contradicts the rules, makes counts right,
and puts what has lost its name into lost+found. Damaged blocks it cannot mend."
)]
pub struct FsckArguments {
    #[command(flatten)]
    image: ImageFlags,
    /// Mend what can be mended
    #[arg(long)]
    repair: bool,
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
    let options = arguments.image.options();
    let checked = match arguments.repair {
        true => betrfs::repair(file, &options, now()),
        false => betrfs::check(file, &options).map(|found| Repair { left: found.clone(), found }),
    };
    bar.finish_and_clear();
    let Repair { found, left } = checked.map_err(|error| arguments.image.fault(&error))?;
    let words = |findings: &[Finding]| findings.iter().map(ToString::to_string).collect::<Vec<_>>();
    if arguments.json {
        let mut object = json!({
            "file_system": path.display().to_string(),
            "sound": left.is_empty(),
            "findings": words(&found),
        });
        if arguments.repair {
            object["left"] = json!(words(&left));
        }
        println!("{object}");
    } else if found.is_empty() {
        println!("{}: sound", path.display());
    } else {
        words(&found).iter().for_each(|finding| println!("{finding}"));
        if arguments.repair {
            words(&left).iter().for_each(|finding| println!("not mended: {finding}"));
        }
    }
    if left.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let remedy = match arguments.repair {
        true => "",
        false => "`--repair` mends what can be mended. ",
    };
    eprintln!(
        "{}: {} findings, of which the later ones may follow from the first. {remedy}What can be read can be copied away from \
         `plumb fs mount {0} DIR -o ro`",
        path.display(),
        left.len()
    );
    Ok(ExitCode::from(EXIT_FAILED))
}
