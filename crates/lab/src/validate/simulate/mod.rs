//! Rows simulated: a device on a clock of its own for each.

mod contest;
mod load;
mod timed;

use std::fmt;

use ssd::profile::Profile;
use toml::{Table, Value};
use workload::zoned::{CommandError, HostPath, ZonedError};

use super::case::{Case, Contest, ResetMode};
use super::drive::{Bed, simulate as simulate_drive};
use super::figure::Figures;
use super::hosts::Host;
use crate::device::Described;
use crate::spec::Override;

/// Why a row cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit(pub String);

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Unfit {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl From<ZonedError> for Unfit {
    fn from(error: ZonedError) -> Self {
        Self(error.to_string())
    }
}

impl From<CommandError> for Unfit {
    fn from(error: CommandError) -> Self {
        Self(error.to_string())
    }
}

/// How rows are simulated.
pub(super) struct Simulator<'a> {
    /// The device.
    pub(super) device: &'a Described,
    /// In place of the host that fits the table.
    pub(super) host: Option<Host>,
    /// Asked now and then whether to give up.
    pub(super) halted: &'a (dyn Fn() -> bool + Sync),
}

/// The rate of a contest's interferer alone, in operations a second: what 100 %
/// of it means.
pub(super) type Peaks<'a> = dyn Fn(&Contest) -> Option<f64> + Sync + 'a;

impl Simulator<'_> {
    /// The modelled figures of a case.
    ///
    /// # Errors
    /// When the device cannot do what the case asks.
    pub(super) fn run(&self, case: &Case, peaks: &Peaks<'_>) -> Result<Figures, Unfit> {
        match case {
            Case::Timed(timed) => timed::run(self, timed),
            Case::Load(load) => load::run(self, load),
            Case::Contest(contest) => contest::run(self, contest, peaks),
            Case::Drive(drive) => {
                let free_host = Host::is_free_for_drives(self.host)?;
                simulate_drive(&self.device.profile, drive, Bed { free_host, ..Bed::THOROUGH }, self.halted)
            }
        }
    }

    fn host(&self, usual: Host) -> HostPath {
        self.host.unwrap_or(usual).path()
    }

    /// The profile with changes.
    fn profile(&self, changes: &[Override]) -> Result<Profile, Unfit> {
        if changes.is_empty() {
            return Ok(self.device.profile.clone());
        }
        let mut document: Table = self.device.document.clone();
        for change in changes {
            change.apply(&mut document).map_err(|error| Unfit(error.to_string()))?;
        }
        Profile::from_table(&self.device.profile.name, &document).map_err(|error| Unfit(error.to_string()))
    }
}

/// What a row says of the device's designs, as changes to its profile.
fn designs(contest: &Contest, device: &Described) -> Vec<Override> {
    let mut changes = Vec::new();
    let text = |value: &str| Value::String(value.to_owned());
    match contest.reset {
        None => {}
        Some(ResetMode::Lazy) => {
            changes.push(Override::new("management.reset", text("lazy")));
            changes.push(Override::new("management.mapping", text("on-demand")));
        }
        Some(ResetMode::Sync) => {
            let reset = device.document.get("management").and_then(|table| table.get("reset")).and_then(Value::as_str);
            // Full, partial and measured resets all erase before they complete.
            if matches!(reset, Some("lazy" | "background")) {
                changes.push(Override::new("management.reset", text("partial")));
            }
            changes.push(Override::new("management.mapping", text("static")));
        }
    }
    if let Some(bytes) = contest.finish_chunk_bytes {
        changes.push(Override::new("management.finish", text("chunked")));
        changes.push(Override::new("management.finish_chunk", text(&bytes.to_string())));
    }
    changes
}

/// Changes that let a device begin with its first `zones` zones full.
fn full_zones(zones: u32) -> Vec<Override> {
    if zones == 0 {
        return Vec::new();
    }
    vec![Override::new("initial.full_zones", Value::Array(vec![Value::Integer(zones.into())]))]
}
