//! The NBD server behind QEMU's NVMe controller: QEMU is the client, a stock kernel the user.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, Command, Stdio};

use common::{judge_long, run};
use conformance::plumb::{self, Profile};
use conformance::{Error, Guest, Kernel, Series};

/// A server on the host, ended when dropped; with its log, which it must not find closed.
struct Server(Child, Lines<BufReader<ChildStderr>>);

impl Server {
    fn start(socket: &str) -> Result<Server, Error> {
        let mut child = Command::new(plumb::program(Profile::Dev)?)
            .args([
                "serve",
                "--device",
                "samsung-980pro-1tb",
                "--set",
                "initial.fill=0",
                "--nbd",
                &format!("unix:{socket}"),
            ])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut server = Server(child, lines);
        // The line is printed when clients are answered; the pipe closes if the server ends before.
        assert!(
            server.1.by_ref().map_while(Result::ok).any(|line| line.starts_with("ready at")),
            "the server is not ready"
        );
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn file_systems_behind_qemus_nvme_controller() {
    judge_long(|| {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("nbd.sock").display().to_string();
        let kernel = Kernel::fetch(Series::V6_12)?;
        let _server = Server::start(&socket)?;
        let guest = Guest::new(&kernel).qemu(&[
            "-drive",
            &format!("if=none,id=disk,format=raw,discard=unmap,file.driver=nbd,file.path={socket}"),
            "-device",
            "nvme,drive=disk,serial=1",
        ]);
        let script = "need modules modprobe nvme\n\
                      need appears eventually 20 test -b /dev/nvme0n1\n\
                      check raw fio_verify /dev/nvme0n1 64m\n\
                      conventional_filesystems /dev/nvme0n1 ext4 xfs btrfs f2fs\n";
        run(&guest, "nbd-behind-qemu", script).map(drop)
    });
}
