//! `plumb validate`: device profiles against their public figures.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use ssd::profile::{builtin_names, check};

use super::{Done, EXIT_FAILED};
use crate::failure::Failure;
use crate::terminal::{number, print_table};

/// Which profiles.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb validate
  plumb validate samsung-980pro-1tb my-drive.toml")]
pub struct ValidateArguments {
    /// Built-in names or .toml files [default: every built-in profile]
    devices: Vec<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Measures every expectation of each profile and prints them side by side.
pub fn validate(arguments: &ValidateArguments) -> Done {
    let names = if arguments.devices.is_empty() {
        builtin_names().map(str::to_owned).collect()
    } else {
        arguments.devices.clone()
    };
    let mut rows = Vec::new();
    let mut items = Vec::new();
    let mut missed = 0;
    for name in &names {
        let profile = lab::device::describe(name, Path::new(""), &[])?.profile;
        for checked in check(&profile).map_err(Failure::input)? {
            missed += usize::from(!checked.within);
            let expectation = &checked.expectation;
            items.push(json!({
                "device": name, "figure": expectation.figure, "low": expectation.low, "high": expectation.high,
                "unit": expectation.unit.to_string(), "measured": checked.measured, "within": checked.within, "source": expectation.source,
            }));
            rows.push(vec![
                name.clone(),
                expectation.figure.clone(),
                format!("{}..{} {}", number(expectation.low), number(expectation.high), expectation.unit),
                number(checked.measured),
                if checked.within { "ok" } else { "OUTSIDE" }.to_owned(),
                expectation.source.clone(),
            ]);
        }
    }
    if arguments.json {
        println!("{:#}", json!(items));
    } else {
        print_table(&["device", "figure", "public", "modelled", "", "source"], &rows);
    }
    Ok(if missed > 0 { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}
