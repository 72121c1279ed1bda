//! What an image file holds after the server's end, planned or not.
//!
//! The server must be a process of its own to be killed: the tests run this
//! binary again, as [`server_process`].

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::common::Client;
use serve::nbd::{Listen, Server};
use serve::{ServeOptions, Stop};
use ssd::{Contents, Ssd, SsdConfig};
use units::Nanos;

const SOCKET: &str = "PLUMB_TEST_SOCKET";
const IMAGE: &str = "PLUMB_TEST_IMAGE";
const FUA: u16 = 1;
const KIB: u64 = 1 << 10;

/// The server side; does nothing unless one of the tests started it.
#[test]
#[ignore = "started by the other tests"]
fn server_process() {
    let (Some(socket), Some(image)) = (std::env::var_os(SOCKET), std::env::var_os(IMAGE)) else { return };
    let stop = Stop::on_signals(&[libc::SIGTERM]).unwrap();
    let mut config = SsdConfig::reference();
    // What does not fill a programming unit stays in the buffer until a flush.
    config.buffer.destage_after = Nanos::from_secs(3600);
    let mut device = Ssd::new(&config).unwrap();
    device.keep_contents(&Contents::File(image.into()), true).unwrap();
    device.recover_from_flash();
    let server = Server::bind(&Listen::Unix(socket.into())).unwrap();
    let options = ServeOptions { calibrate: false, ..ServeOptions::default() };
    let report = server.run(Box::new(device), &options, &stop).unwrap();
    println!("{report}");
}

struct Machine {
    dir: tempfile::TempDir,
    server: Option<Child>,
}

impl Machine {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), server: None }
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    /// Starts the server and connects to it.
    fn power_on(&mut self) -> Client {
        let socket = self.dir.path().join("nbd.sock");
        let server = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "survival::server_process"])
            .env(SOCKET, &socket)
            .env(IMAGE, self.image())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.server = Some(server);
        let mut client = Client::greet_stream(connect(&socket));
        assert_eq!(client.option(7, &crate::common::info_request("", &[])).last().unwrap().kind, 1);
        client
    }

    fn end(&mut self, signal: i32) -> ExitStatus {
        let mut server = self.server.take().unwrap();
        // SAFETY: the process is our child and not yet waited for.
        assert_eq!(unsafe { libc::kill(server.id() as i32, signal) }, 0);
        server.wait().unwrap()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

fn connect(socket: &Path) -> UnixStream {
    for _ in 0..1000 {
        if let Ok(stream) = UnixStream::connect(socket) {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            return stream;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the server does not come up");
}

fn read(client: &mut Client, offset: u64, length: u64) -> Vec<u8> {
    let (error, data) = client.call(0, 0, offset, length as u32);
    assert_eq!(error, 0);
    data
}

/// Every logical block of `data` is one of the two fills, whole.
fn assert_blocks_are(data: &[u8], either: u8, or: u8) {
    for (index, block) in data.chunks(4096).enumerate() {
        let whole = block.iter().all(|byte| *byte == block[0]);
        assert!(whole && (block[0] == either || block[0] == or), "block {index} is torn or foreign: {:?}", &block[..8]);
    }
}

#[test]
fn killed_it_loses_only_what_was_not_flushed() {
    let mut machine = Machine::new();
    let mut client = machine.power_on();
    assert_eq!(client.write(0, 0, &vec![0xaa; 1 << 20]), 0);
    assert_eq!(client.call(3, 0, 0, 0).0, 0);
    assert_eq!(client.write(FUA, 2048 * KIB, &[0xbb; 4096]), 0);
    // Not flushed: over flushed data, and where nothing was.
    assert_eq!(client.write(0, 256 * KIB, &vec![0xcc; 256 << 10]), 0);
    assert_eq!(client.write(0, 4096 * KIB, &[0xdd; 4096]), 0);
    assert_eq!(machine.end(libc::SIGKILL).signal(), Some(libc::SIGKILL));

    // The socket file of the killed server is in the way, and no obstacle.
    let mut client = machine.power_on();
    assert!(read(&mut client, 0, 256 * KIB).iter().all(|byte| *byte == 0xaa));
    assert!(read(&mut client, 512 * KIB, 512 * KIB).iter().all(|byte| *byte == 0xaa));
    assert!(read(&mut client, 2048 * KIB, 4096).iter().all(|byte| *byte == 0xbb));
    assert_blocks_are(&read(&mut client, 256 * KIB, 256 * KIB), 0xaa, 0xcc);
    assert_blocks_are(&read(&mut client, 4096 * KIB, 4096), 0, 0xdd);
    assert!(read(&mut client, 8192 * KIB, 64 * KIB).iter().all(|byte| *byte == 0));
}

#[test]
fn killed_it_loses_what_only_the_buffer_held() {
    let mut machine = Machine::new();
    let mut client = machine.power_on();
    assert_eq!(client.write(0, 0, &[0xaa; 4096]), 0);
    assert_eq!(client.call(3, 0, 0, 0).0, 0);
    assert_eq!(client.write(FUA, 2048 * KIB, &[0xbb; 4096]), 0);
    assert_eq!(client.write(0, 0, &[0xcc; 4096]), 0);
    assert_eq!(client.write(0, 4096 * KIB, &[0xdd; 4096]), 0);
    assert_eq!(read(&mut client, 0, 4096), [0xcc; 4096]);
    assert_eq!(machine.end(libc::SIGKILL).signal(), Some(libc::SIGKILL));

    let mut client = machine.power_on();
    assert_eq!(read(&mut client, 0, 4096), [0xaa; 4096], "the flushed data, not the later write");
    assert_eq!(read(&mut client, 2048 * KIB, 4096), [0xbb; 4096]);
    assert_eq!(read(&mut client, 4096 * KIB, 4096), [0; 4096]);
}

#[test]
fn asked_to_end_it_keeps_everything() {
    let mut machine = Machine::new();
    let mut client = machine.power_on();
    assert_eq!(client.write(0, 0, &vec![0x11; 1 << 20]), 0);
    assert_eq!(client.call(6, 0, 64 * KIB, 65_536).0, 0, "write zeroes");
    assert_eq!(client.write(0, 4096, &[0x22; 4096]), 0);
    assert!(machine.end(libc::SIGTERM).success());
    assert!(client.is_closed());
    assert!(!machine.dir.path().join("nbd.sock").exists());

    let check = |data: &[u8]| {
        assert!(data[..4096].iter().all(|byte| *byte == 0x11));
        assert!(data[4096..8192].iter().all(|byte| *byte == 0x22));
        assert!(data[8192..65_536].iter().all(|byte| *byte == 0x11));
        assert!(data[65_536..131_072].iter().all(|byte| *byte == 0));
        assert!(data[131_072..].iter().all(|byte| *byte == 0x11));
    };
    let mut client = machine.power_on();
    check(&read(&mut client, 0, 1024 * KIB));
    assert!(machine.end(libc::SIGTERM).success());
    // The image is a raw disk that other tools read.
    let mut head = vec![0; 1 << 20];
    std::fs::File::open(machine.image()).unwrap().read_exact(&mut head).unwrap();
    check(&head);
}
