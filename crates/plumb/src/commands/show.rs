//! `plumb show`: a device profile as TOML.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use lab::spec::Override;

use super::Done;
use crate::failure::Failure;

/// Which profile.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb show samsung-980pro-1tb > my-drive.toml
  plumb show my-drive.toml --set cell.read='[\"60us\"]' > slower.toml

What is printed holds every key, also those that a profile leaves to their defaults, and is a profile
itself: `plumb run job.fio --device my-drive.toml`. docs/device-profile.md says what each key means.")]
pub struct ShowArguments {
    /// A built-in name (`plumb list devices`) or a .toml file
    device: String,
    /// Change the profile: a dotted path and a TOML value
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<Override>,
}

/// Prints it.
pub fn show(arguments: &ShowArguments) -> Done {
    let device = lab::device::describe(&arguments.device, Path::new(""), &arguments.set)?;
    print!("{}", device.profile.to_toml().map_err(Failure::input)?);
    Ok(ExitCode::SUCCESS)
}
