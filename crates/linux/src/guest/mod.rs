//! The first process inside: it sets the system up, serves the device, runs the command and powers off.
//!
//! The plumb program is started by the kernel as `plumb linux-guest`. It has the
//! host's file system as its root and nothing else; what to do, it reads from the
//! channel of the plan.

mod command;
pub mod crash;
mod device;
mod device_mapper;
mod error;
mod fiemap;
mod file_system;
mod ioctl;
mod mounts;
mod null_blk;
mod nvme;
mod processes;
mod served;
mod server;
mod tracing;
mod zonefs;

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Write};

use crate::outcome::Ended;
use crate::plan::{Channel, GuestPlan, Report};
pub use command::search_path;
use error::{GuestError, attempt};

/// The name of the subcommand that calls [`main`].
pub const SUBCOMMAND: &str = "linux-guest";

/// Runs as the first process; powers the guest off at the end.
///
/// # Errors
/// Where it is not the first process of a guest.
pub fn main() -> Result<std::convert::Infallible, crate::LinuxError> {
    if std::process::id() != 1 {
        return Err(crate::LinuxError::Invalid {
            message: format!("`{SUBCOMMAND}` is for the inside of a guest: use `plumb linux`"),
        });
    }
    if let Err(error) = guest() {
        // Without the channels there is nobody to tell but the kernel's log.
        let _ = report(&Report::Failed { message: error.to_string() });
    }
    rustix::fs::sync();
    let _ = rustix::system::reboot(rustix::system::RebootCommand::PowerOff);
    // Only a kernel that refuses to power off comes here; the end of the first process stops it.
    std::process::exit(1)
}

fn guest() -> Result<(), GuestError> {
    mounts::devices_of_the_bare_root()?;
    let plan: GuestPlan = {
        let path = Channel::GuestPlan.node();
        let file = attempt(File::open(&path), || "cannot open the channel of the plan".to_owned())?;
        serde_json::from_reader(BufReader::new(file))
            .map_err(|error| GuestError::new(format!("the plan cannot be read: {error}")))?
    };
    mounts::root(&plan)?;
    ioctl::seed_random(plan.seed)?;
    ioctl::loopback_up()?;
    let mut log = channel(Channel::Log)?;

    let devices = device::show_all(&plan, &log)?;
    let nodes: Vec<String> = devices.iter().map(|device| device.node().to_owned()).collect();
    for node in &nodes {
        report(&Report::Device { node: node.clone() })?;
    }
    let first = nodes.first().ok_or_else(|| GuestError::new("the plan has no device"))?;
    let servers: Vec<rustix::process::Pid> = devices.iter().filter_map(device::Shown::pid).collect();
    let mounted = file_system::make_and_mount(&plan, first, &log)?;
    let tracing = plan.trace.then(tracing::Tracing::start).transpose()?;

    let began = now_ns();
    report(&Report::Began { at_ns: began })?;
    let ended: Ended = command::run(&plan, &nodes, mounted.as_ref().map(|mounted| &*mounted.folder), &servers)?;
    let at_ns = now_ns();
    report(&Report::Ended { ended, at_ns })?;

    processes::kill_others(&servers, plan.file_system.is_served());
    if let Some(mounted) = &mounted {
        mounted.unmount()?;
    }
    if let Some(tracing) = tracing {
        tracing.store(&plan)?;
    }
    // The last first: what the command put on top of several, a later one may be part of.
    for (device, shown) in devices.into_iter().enumerate().rev() {
        if let Some(said) = shown.stop(&mut log)? {
            report(&Report::Served { device, report: said })?;
        }
    }
    report(&Report::Done)
}

/// Opens a channel for writing.
fn channel(channel: Channel) -> Result<File, GuestError> {
    let opened = OpenOptions::new().write(true).open(channel.node());
    attempt(opened, || format!("cannot open {}", channel.node().display()))
}

/// Tells the host.
fn report(report: &Report) -> Result<(), GuestError> {
    let mut line = serde_json::to_vec(report).map_err(|error| GuestError::new(error.to_string()))?;
    line.push(b'\n');
    attempt(channel(Channel::Report)?.write_all(&line), || "cannot report to the host".to_owned())
}

/// Virtual time: the kernel's monotonic clock.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or_default())
}
