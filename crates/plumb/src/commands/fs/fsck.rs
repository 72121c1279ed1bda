//! Checking a file system, and mending one that is not mounted.

use std::fs::File;
use std::process::ExitCode;
use std::time::Duration;

use betrfs::{Finding, MountedFindings, Repair};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;

use super::super::{Done, EXIT_FAILED};
use super::image::{self, ImageFlags};
use super::rm;
use super::serving::now;
use crate::failure::Failure;

#[derive(Args)]
#[command(after_help = "Examples:
  plumb fs fsck disk.plumb
  plumb fs fsck disk.plumb --repair
  plumb fs fsck /mnt                 # while it is mounted and used, by root or the owner of its root folder

Every block's checksum and every rule of the format are checked. What the log holds is recovered first,
as a mount would; nothing else is changed without --repair. That removes what contradicts the rules, makes counts right,
and puts what has lost its name into lost+found. Damaged blocks it cannot mend.")]
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

fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message("reading everything");
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Has the server of a mounted file system do it.
fn of_mount(arguments: &FsckArguments) -> Done {
    let folder = &arguments.image.image;
    if arguments.repair {
        let folder = folder.display();
        return Err(Failure::input(format!(
            "{folder}: mounted; --repair is for the file or device of one that is not"
        )));
    }
    let failed = |error| rm::failed(folder, &error);
    let bar = spinner();
    let checked = File::open(folder).and_then(betrfs::check_mounted);
    bar.finish_and_clear();
    let MountedFindings { count, first } = checked.map_err(failed)?;
    let more = count.saturating_sub(first.len() as u64);
    if arguments.json {
        let file_system = folder.display().to_string();
        println!("{}", json!({ "file_system": file_system, "sound": count == 0, "findings": first, "more": more }));
    } else if count == 0 {
        println!("{}: sound", folder.display());
    } else {
        first.iter().for_each(|finding| println!("{finding}"));
    }
    if count == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "{}: {count} findings{}; unmounted, it can be mended by `plumb fs fsck FILE --repair`",
        folder.display(),
        if more > 0 { format!(", {more} of them not shown") } else { String::new() }
    );
    Ok(ExitCode::from(EXIT_FAILED))
}

/// Checks it.
pub fn fsck(arguments: &FsckArguments) -> Done {
    let path = &arguments.image.image;
    if path.is_dir() {
        return of_mount(arguments);
    }
    let file = image::file(path, None)?;
    let bar = spinner();
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
