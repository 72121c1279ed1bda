//! NVMe/TCP over the loopback interface, connected as `nvme connect` does: one line written to
//! `/dev/nvme-fabrics` (`drivers/nvme/host/fabrics.c`, `nvmf_dev_write`).

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use super::error::{GuestError, attempt};

/// Where the servers inside listen, each at a port of its own.
const ADDRESS: &str = "127.0.0.1";
const FIRST_PORT: u16 = 4420;
/// The host's name and identifier; the same for every run.
const HOST: &str = "nqn.2030-01.plumb:guest";
const HOST_ID: &str = "6c706d62-0000-4000-8000-000000000001";
/// How long the name space may take to appear, in virtual milliseconds.
const PATIENCE_MS: u32 = 30_000;

/// A connected controller.
pub(super) struct Controller {
    instance: u32,
}

/// A subsystem that a server inside shows.
pub(super) struct Subsystem {
    /// Where the server listens.
    pub(super) address: String,
    pub(super) name: String,
    port: u16,
}

impl Subsystem {
    /// That of the device at `place`.
    pub(super) fn of(place: usize) -> Self {
        let port = FIRST_PORT.saturating_add(u16::try_from(place).unwrap_or(u16::MAX));
        let number = if place == 0 { String::new() } else { place.to_string() };
        Self { address: format!("{ADDRESS}:{port}"), name: format!("nqn.2030-01.plumb:device{number}"), port }
    }

    /// Connects to the server with so many queues for I/O.
    pub(super) fn connect(&self, io_queues: u32) -> Result<Controller, GuestError> {
        let (name, port) = (&self.name, self.port);
        let options = format!(
            "transport=tcp,traddr={ADDRESS},trsvcid={port},nqn={name},hostnqn={HOST},hostid={HOST_ID},\
             nr_io_queues={io_queues},ctrl_loss_tmo=0"
        );
        let opened = OpenOptions::new().read(true).write(true).open("/dev/nvme-fabrics");
        let mut fabrics = attempt(opened, || "the kernel inside has no NVMe over fabrics".to_owned())?;
        attempt(fabrics.write_all(options.as_bytes()), || "cannot connect to the device over NVMe/TCP".to_owned())?;
        let mut answer = String::new();
        let mut buffer = [0; 256];
        let read = attempt(fabrics.read(&mut buffer), || "cannot read the answer of NVMe over fabrics".to_owned())?;
        answer.push_str(&String::from_utf8_lossy(&buffer[..read]));
        let instance = answer.split([',', '\n']).find_map(|part| part.strip_prefix("instance=")?.trim().parse().ok());
        let instance =
            instance.ok_or_else(|| GuestError::new(format!("NVMe over fabrics answered `{}`", answer.trim())))?;
        Ok(Controller { instance })
    }
}

impl Controller {
    fn folder(&self) -> PathBuf {
        format!("/sys/class/nvme/nvme{}", self.instance).into()
    }

    /// The node of its first name space, when that is there.
    pub(super) fn name_space_node(&self) -> Result<String, GuestError> {
        let prefix = format!("nvme{}n", self.instance);
        for _ in 0..PATIENCE_MS {
            let entries = fs::read_dir(self.folder()).into_iter().flatten().flatten();
            let mut names: Vec<String> = entries
                .filter_map(|entry| entry.file_name().into_string().ok())
                .filter(|name| name.starts_with(&prefix))
                .collect();
            names.sort();
            if let Some(name) = names.first() {
                return Ok(format!("/dev/{name}"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(GuestError::new("the device's name space did not appear within 30 virtual seconds"))
    }

    pub(super) fn disconnect(self) -> Result<(), GuestError> {
        let written = fs::write(self.folder().join("delete_controller"), "1");
        attempt(written, || "cannot disconnect from the device".to_owned())
    }
}
