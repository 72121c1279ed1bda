//! The devices inside: served, and seen by the kernel.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use rustix::process::Pid;

use super::error::{GuestError, attempt};
use super::null_blk::MemoryDevice;
use super::nvme;
use super::server::Server;
use crate::choice::FrontEnd;
use crate::plan::{DevicePlan, GuestPlan};

/// A name of the first device that does not depend on the front-end; further ones have a number from 1 on behind it.
const LINK: &str = "/dev/plumb";
/// How long a node may take to appear, in virtual milliseconds.
const PATIENCE_MS: u32 = 30_000;

/// A device as the kernel shows it.
pub(super) struct Shown {
    node: String,
    server: Option<Server>,
    fabrics: Option<nvme::Controller>,
}

/// Shows the devices of `plan` to the kernel in their order, and waits until programs can open them.
pub(super) fn show_all(plan: &GuestPlan, log: &File) -> Result<Vec<Shown>, GuestError> {
    // Tables of a large device are taken whole and used in part; who runs after them is told when memory is short.
    overcommit("1")?;
    let shown: Result<Vec<Shown>, GuestError> =
        plan.devices.iter().enumerate().map(|(place, device)| show(plan, place, device, log)).collect();
    overcommit("0")?;
    shown
}

/// `Documentation/mm/overcommit-accounting.rst`: 0 refuses what is obviously too much, 1 nothing.
fn overcommit(mode: &str) -> Result<(), GuestError> {
    attempt(fs::write("/proc/sys/vm/overcommit_memory", mode), || "cannot set vm.overcommit_memory".to_owned())
}

fn show(plan: &GuestPlan, place: usize, device: &DevicePlan, log: &File) -> Result<Shown, GuestError> {
    let serve = |front_end: &[&str]| Server::start(plan, device, front_end, log);
    let (node, server, fabrics) = match device.front_end {
        FrontEnd::NullBlk => (MemoryDevice::PLAIN.make()?, None, None),
        FrontEnd::Auto | FrontEnd::Ublk => {
            let server = serve(&["--ublk"])?;
            (server.address().to_owned(), Some(server), None)
        }
        FrontEnd::Loop => {
            let server = serve(&["--loop"])?;
            (server.address().to_owned(), Some(server), None)
        }
        FrontEnd::NvmeTcp => {
            let subsystem = nvme::Subsystem::of(place);
            let server = serve(&["--nvme-tcp", &subsystem.address, "--nqn", &subsystem.name])?;
            let controller = subsystem.connect(device.io_queues)?;
            let node = controller.name_space_node()?;
            (node, Some(server), Some(controller))
        }
    };
    if !node.starts_with("/dev/") {
        return Err(GuestError::new(format!("the server is ready at `{node}`, which is no device")));
    }
    wait_for_node(Path::new(&node))?;
    let link = if place == 0 { LINK.to_owned() } else { format!("{LINK}{place}") };
    attempt(symlink(&node, &link), || format!("cannot make {link}"))?;
    Ok(Shown { node, server, fabrics })
}

impl Shown {
    pub(super) fn node(&self) -> &str {
        &self.node
    }

    /// The server's process, where there is one.
    pub(super) fn pid(&self) -> Option<Pid> {
        self.server.as_ref().map(Server::pid)
    }

    /// Takes the device away; the server's report.
    pub(super) fn stop(self, log: &mut File) -> Result<Option<serde_json::Value>, GuestError> {
        rustix::fs::sync();
        if let Some(controller) = self.fabrics {
            controller.disconnect()?;
        }
        self.server.map(|server| server.stop(log)).transpose()
    }
}

/// Waits until `node` can be opened and has a size.
fn wait_for_node(node: &Path) -> Result<(), GuestError> {
    let size = || {
        let name = node.file_name()?.to_str()?;
        fs::read_to_string(format!("/sys/class/block/{name}/size")).ok()?.trim().parse::<u64>().ok()
    };
    for _ in 0..PATIENCE_MS {
        if size().is_some_and(|sectors| sectors > 0)
            && File::open(node).is_ok_and(|mut file| file.read(&mut []).is_ok())
        {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(GuestError::new(format!("{} did not appear within 30 virtual seconds", node.display())))
}
