//! What a server computes, where time is virtual: measured by `plumb calibrate cpu`, and slept for under `plumb linux --charge`.

mod apart;
mod measured;

use std::fs::{File, OpenOptions};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use linux::{Charges, OWN_SWITCH};
use units::ServerCosts;

use crate::failure::Failure;
pub use measured::measure;

/// Costs that a server pays for by sleeping: other processes go on meanwhile, as they do on another processor.
#[derive(Debug)]
pub struct Spending {
    costs: ServerCosts,
    /// Whether the thread that writes there pays for its system calls.
    switch: File,
}

impl Spending {
    /// By the table in `file`, in a guest that charges.
    pub fn by(file: &Path) -> Result<Self, Failure> {
        let charges = Charges::read(file).map_err(Failure::input)?;
        let Some(costs) = charges.plumb_fs else {
            return Err(Failure::input(format!(
                "{}: there is no table [plumb_fs] (`plumb calibrate cpu --out FILE` makes one)",
                file.display()
            )));
        };
        let switch = OpenOptions::new().write(true).open(OWN_SWITCH).map_err(|error| {
            Failure::input(format!(
                "the mount option computing is for guests of `plumb linux --charge`: {OWN_SWITCH}: {error}"
            ))
        })?;
        // Timers end when they are due, not when it suits others too; threads that are made later do the same.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))
            .map_err(|error| Failure::Machine(format!("cannot sleep to the nanosecond: {error}")))?;
        Ok(Self { costs, switch })
    }

    pub fn costs(&self) -> ServerCosts {
        self.costs
    }

    /// Sleeps for so long. The thread does not pay for the sleep's system call, nor for going on after it.
    pub fn spend(&self, ns: u64) {
        if ns == 0 {
            return;
        }
        let pays = |flag: &[u8]| self.switch.write_at(flag, 0).is_ok();
        if pays(b"0") {
            thread::sleep(Duration::from_nanos(ns));
            pays(b"1");
        }
    }
}
